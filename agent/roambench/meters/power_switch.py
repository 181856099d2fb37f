"""Switching the output of a power meter, and so the board behind it.

A Smart Power 2 is switched over its Wi-Fi or not at all: its firmware never reads the serial port. Where a
gateway with a spare radio has joined the meter's access point and forwards a port to its WebSocket
(`wifi_hop` in the inventory), that forwarded HOST:PORT is all that is needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roambench.meters.catalogue import METERS, driver_row
from roambench.meters.ports import Port, host_port
from roambench.meters.switching import PowerSwitch
from roambench.meters.websocket_switch import Smartpower2Switch, YtrikozSwitch


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Nothing can switch this meter; `reason` is for people."""

    reason: str

    def __str__(self) -> str:
        return f"power: unavailable ({self.reason})"


def power_switch(driver: str, port: str, wifi_hop: str = "") -> PowerSwitch | Unavailable:
    """The switch of the output of the meter that `driver` reads at `port`.

    `wifi_hop` is HOST[:PORT] at which the meter's WebSocket is reached, as is the port's option `wifi`.
    ConfigError for an unknown driver or a port that it does not understand.
    """
    if driver not in METERS.own or driver == "replay":
        return Unavailable(f"the driver {driver} has no switch")
    parsed = driver_row(driver).port(port)
    hop = wifi_hop or parsed.options.get("wifi", "")
    if driver.startswith("smartpower3"):
        return Unavailable("a Smart Power 3 is switched by its buttons only")
    ytrikoz = driver.startswith("smartpower2-ytrikoz")
    if not hop and driver in _SERIAL:
        return Unavailable("the serial port only talks; name a wifi_hop gateway to the meter's Wi-Fi")
    default = 80 if ytrikoz else 81
    host, number = _address(parsed, hop, default, on_wifi=driver == "smartpower2-websocket")
    return _switch(ytrikoz)(host, number)


_SERIAL: Final = ("smartpower2", "smartpower2-100ms", "smartpower2-ytrikoz")


def _address(port: Port, hop: str, default: int, *, on_wifi: bool) -> tuple[str, int]:
    if hop:
        return host_port(hop, default, port.mistake)
    if on_wifi:
        return port.host_port(default)
    return port.host_port(default)[0], default  # telnet's port is another


def _switch(ytrikoz: bool) -> Callable[[str, int], PowerSwitch]:
    return YtrikozSwitch if ytrikoz else Smartpower2Switch
