"""How an emulated meter is read: which of our drivers understands it, and how its port is then spelled."""

from __future__ import annotations

from typing import Final

from roambench.contract.errors import ConfigError
from roambench.meters.emulator.profiles import Transport, profile

_SMARTPOWER2: Final = {
    Transport.SERIAL: "smartpower2",
    Transport.TELNET: "smartpower2-telnet",
    Transport.WEBSOCKET: "smartpower2-websocket",
}

#: (the profile's traits, transport) -> driver. The ytrikoz WebSocket only switches power.
DRIVERS: Final = {
    "smartpower2": _SMARTPOWER2,
    "smartpower2-100ms": {**_SMARTPOWER2, Transport.SERIAL: "smartpower2-100ms"},
    "smartpower2-ytrikoz": {
        Transport.SERIAL: "smartpower2-ytrikoz",
        Transport.TELNET: "smartpower2-ytrikoz-telnet",
    },
    "smartpower3": {
        Transport.SERIAL: "smartpower3",
        Transport.TELNET: "smartpower3-tcp",
        Transport.UDP: "smartpower3-udp",
    },
}


def reader(
    profile_name: str, transport: Transport, address: str, interval_ms: int | None = None
) -> tuple[str, str]:
    """(driver, port) for an emulated meter at `address`; ConfigError if no driver reads it that way."""
    row = profile(profile_name)
    driver = DRIVERS[row.traits].get(transport)
    if driver is None:
        raise ConfigError([f"meter profile {row.name}: no driver reads its {transport}"])
    address = address.removeprefix("ws://")
    if row.intervals_ms:
        return driver, f"{address}?interval_ms={round(1e3 * row.period(interval_ms))}"
    if row.traits == "smartpower2-100ms" and transport is not Transport.SERIAL:
        return driver, f"{address}?period_s={row.period_s:g}"
    return driver, address
