"""The meters roambench can read, by name; a driver is imported when its meter is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError
from roambench.contract.table import Table
from roambench.meters.protocol import Meter
from roambench.meters.traits import TRAITS, MeterTraits

if TYPE_CHECKING:
    from roambench.meters.driver import Driver


class MeterFactory(Protocol):
    """Makes a driver without opening the port. `port` means what the driver says: a device file, a path.

    `reopen_allowed` False: opening this port may reset the meter and so cut the board's power; the driver
    keeps note in the file `latch` (None: the driver's default) and opens it no more once that has happened.
    """

    def __call__(self, port: str, clock: DeviceClock, *, reopen_allowed: bool, latch: Path | None) -> Meter:
        """A closed meter at `port`; ConfigError for a port that it does not understand."""
        ...


#: A driver is imported when its meter is opened.
METERS: Final[Table[MeterFactory]] = Table(
    what="meter",
    group="roambench.meters",
    own={
        "smartpower2": "roambench.meters.smartpower2:SMARTPOWER2",
        "smartpower2-100ms": "roambench.meters.smartpower2:SMARTPOWER2_100MS",
        "smartpower2-telnet": "roambench.meters.smartpower2:SMARTPOWER2_TELNET",
        "smartpower2-websocket": "roambench.meters.smartpower2:SMARTPOWER2_WEBSOCKET",
        "smartpower2-ytrikoz": "roambench.meters.ytrikoz:YTRIKOZ",
        "smartpower2-ytrikoz-telnet": "roambench.meters.ytrikoz:YTRIKOZ_TELNET",
        "smartpower3": "roambench.meters.smartpower3:SMARTPOWER3",
        "smartpower3-udp": "roambench.meters.smartpower3:SMARTPOWER3_UDP",
        "smartpower3-tcp": "roambench.meters.smartpower3:SMARTPOWER3_TCP",
        "hwmon": "roambench.meters.hwmon:HWMON",
        "replay": "roambench.meters.replay:replay",  # a recorded transcript, at the pace it was recorded
    },
)


#: The traits of a meter whose driver and port say nothing of it, a line a second: no known one is slower.
USUAL: Final = "smartpower2"


def traits_at(driver: str, port: str) -> MeterTraits:
    """Traits of the meter behind `port`, which is not opened; those of USUAL where only the meter itself
    would tell, or its driver is not installed here."""
    from roambench.meters.driver import Driver  # late: it brings what opens ports

    usual = TRAITS.load(USUAL)
    try:
        made = METERS.load(driver)
        if not isinstance(made, Driver):
            return usual
        where = made.port(port)
        own: MeterTraits | None = getattr(made.source(where), "traits", None)
        if own is not None:
            return own
        period_s = made.period_s(where)
        row = TRAITS.load(made.traits(where, period_s or usual.nominal_s))
        return replace(row, nominal_s=period_s or row.nominal_s)
    except ConfigError:
        return usual


def why_silent(driver: str) -> str:
    """A hint of where to look when a meter of this driver gives no reading."""
    from roambench.meters.driver import USUAL_SILENCE

    try:
        return getattr(METERS.load(driver), "silence", USUAL_SILENCE)
    except ConfigError:
        return USUAL_SILENCE


def open_meter(
    driver: str,
    port: str,
    clock: DeviceClock,
    *,
    reopen_allowed: bool = False,
    latch: Path | None = None,
) -> Meter:
    """The meter behind `port`, not opened yet: iterating does that.

    ConfigError for an unknown driver, or a port that the driver does not understand.
    """
    return METERS.load(driver)(port, clock, reopen_allowed=reopen_allowed, latch=latch)


def driver_row(name: str) -> Driver:
    """The row of one of our own drivers that read a wire; ConfigError for any other name."""
    from roambench.meters.driver import Driver

    row = METERS.load(name)
    if not isinstance(row, Driver):
        raise ConfigError([f"meter {name!r} has no wire: expected one of {', '.join(wired_names())}"])
    return row


def wired_names() -> list[str]:
    """The drivers that read a wire: all of ours but "replay"."""
    return sorted(METERS.own.keys() - {"replay"})
