"""Boards switched at their own meters, over the meters' WebSockets: what a bench has by default."""

from __future__ import annotations

from typing import Final

from roambench.contract.errors import RoambenchError
from roambench.meters.power_switch import Unavailable, power_switch
from roambench.meters.switching import HasAutorun
from roambench.provision.bench import NO_METER, Host
from roambench.provision.power.switch import BoardSwitch, SwitchError, SwitchRow
from roambench.written.toml_file import Section


class MeterKeys(Section):
    """Nothing: the way is the meter's own, `wifi_hop` in its table."""


async def autorun_of(host: Host) -> bool | str:
    """Return whether the meter switches its output on after a reset, or why that is unknown; never raises.

    A meter that is read over its WebSocket is not asked: when the asker hangs up, its reader hears nothing
    for some 10 s.
    """
    meter = host.meter
    if meter.driver == NO_METER:
        return "no meter"
    if meter.driver == "smartpower2-websocket":
        return "cannot be asked: it would silence its reader"
    try:
        switch = power_switch(meter.driver, meter.port, meter.wifi_hop)
        if isinstance(switch, Unavailable):
            return f"cannot be asked: {switch.reason}"
        if isinstance(switch, HasAutorun):
            return await switch.autorun()
    except RoambenchError as error:
        return f"cannot be asked: {error}"
    return "this firmware is not asked: see its own setting"


def _switch(_keys: MeterKeys, host: Host) -> BoardSwitch:
    if host.meter.driver == NO_METER:
        raise SwitchError("the host has no meter", "give it a power table, or switch it by hand")
    switch = power_switch(host.meter.driver, host.meter.port, host.meter.wifi_hop)
    if isinstance(switch, Unavailable):
        raise SwitchError(
            switch.reason,
            "name a gateway to the meter's Wi-Fi as wifi_hop, or give it a power table, or switch it by hand",
        )
    return switch


METER: Final = SwitchRow(
    "the board's own meter, over its WebSocket (`wifi_hop`)",
    MeterKeys,
    lambda _keys: "",  # two meters with one `wifi_hop` are another mistake
    _switch,
    "is the gateway up, and in the meter's Wi-Fi?",
)
