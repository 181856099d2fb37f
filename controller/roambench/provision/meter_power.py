"""Switching the boards of a bench on and off at their meters, where a way to a meter's switch exists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roambench.contract.errors import RoambenchError
from roambench.meters.power_switch import Unavailable, power_switch
from roambench.meters.switching import HasAutorun, PowerSwitch
from roambench.provision.bench import NO_METER, Host

#: Off for so long before on again: capacitors, and a card that still writes.
OFF_S: Final = 5.0


class Deed(StrEnum):
    """A command for the boards' power. `STATE` only asks the meters."""

    ON = "on"
    OFF = "off"
    CYCLE = "cycle"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Switched:
    """`on` is what the meter says afterwards; None with a `reason` why it could not be done."""

    host: Host
    on: bool | None
    volts: float | None = None
    reason: str = ""
    next_action: str = ""


async def switch_power(hosts: Sequence[Host], deed: Deed, off_s: float = OFF_S) -> list[Switched]:
    """All at once; one answer per host, in their order. Never raises for a host."""
    return list(await asyncio.gather(*(_one(host, deed, off_s) for host in hosts)))


async def autorun_of(host: Host) -> bool | str:
    """Whether the meter switches its output on after a reset, or why nobody knows; never raises.

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


async def _one(host: Host, deed: Deed, off_s: float) -> Switched:
    meter = host.meter
    if meter.driver == NO_METER:
        return Switched(host, None, reason="the host has no meter", next_action="switch it by hand")
    try:
        switch = power_switch(meter.driver, meter.port, meter.wifi_hop)
        if isinstance(switch, Unavailable):
            return Switched(
                host,
                None,
                reason=switch.reason,
                next_action="name a gateway to the meter's Wi-Fi as wifi_hop, or switch it by hand",
            )
        await _do(switch, deed, off_s)
        state = await switch.state()
    except RoambenchError as error:
        return Switched(
            host, None, reason=str(error), next_action="is the gateway up, and in the meter's Wi-Fi?"
        )
    return Switched(host, state.on, state.volts)


async def _do(switch: PowerSwitch, deed: Deed, off_s: float) -> None:
    if deed in (Deed.OFF, Deed.CYCLE):
        await switch.off()
    try:
        if deed is Deed.CYCLE:
            await asyncio.sleep(off_s)
    finally:  # also when somebody presses Ctrl-C: a cycle leaves no board off
        if deed in (Deed.ON, Deed.CYCLE):
            await switch.on()
