"""The driver of an emulated meter, and the spelling of its port."""

from __future__ import annotations

from typing import Final

from roambench.contract.errors import ConfigError
from roambench.emulation.profiles import PROFILES, FirmwareProfile, Transport, full_name, profile
from roambench.meters.catalogue import METERS
from roambench.meters.traits import TRAITS

_SMARTPOWER2: Final = {
    Transport.SERIAL: "smartpower2",
    Transport.TELNET: "smartpower2-telnet",
    Transport.WEBSOCKET: "smartpower2-websocket",
}

#: (the profile's traits, transport) -> driver, for profiles that name none. The ytrikoz WebSocket has none.
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
    "hwmon": {Transport.SYSFS: "hwmon"},
}


def reader(
    profile_name: str, transport: Transport, address: str, interval_ms: int | None = None
) -> tuple[str, str]:
    """(driver, port) for an emulated meter at `address`; ConfigError if no driver reads it that way."""
    row = profile(profile_name)
    driver = driver_of(row, transport)
    if driver is None:
        raise ConfigError(
            [
                f"meter profile {row.name}: no driver reads its {transport}: expected one of "
                f"{', '.join(METERS.names())} in its field `drivers`, for {transport}"
            ]
        )
    METERS.load(driver)
    TRAITS.load(row.traits)
    if transport is Transport.SYSFS:
        return driver, f"{row.name}?root={address}"
    address = address.removeprefix("ws://")
    if row.intervals_ms:
        return driver, f"{address}?interval_ms={round(1e3 * row.period(interval_ms))}"
    if row.traits == "smartpower2-100ms" and transport is not Transport.SERIAL:
        return driver, f"{address}?period_s={row.period_s:g}"
    return driver, f"{address}?{row.options}" if row.options else address


def driver_of(row: FirmwareProfile, transport: Transport) -> str | None:
    """The driver that reads it: the one that the profile names, else one of ours by its traits."""
    return row.drivers.get(transport) or DRIVERS.get(row.traits, {}).get(transport)


def foreign_modules(profile_name: str) -> list[str]:
    """The modules of other packages behind a profile: its own, and those of its drivers and traits."""
    if full_name(profile_name) in PROFILES.own:
        return []
    row = profile(profile_name)
    points = [*PROFILES.added_by(profile_name), *TRAITS.added_by(row.traits)]
    for driver in row.drivers.values():
        points += METERS.added_by(driver)
    return [point.module for point in points]
