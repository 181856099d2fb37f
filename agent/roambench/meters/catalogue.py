"""The meters roambench can read, by name; a driver is imported when its meter is opened."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Protocol, cast

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError
from roambench.meters.protocol import Meter

GROUP: Final = "roambench.meters"


class MeterFactory(Protocol):
    """Makes a driver without opening the port. `port` means what the driver says: a device file, a path.

    `reopen_allowed` False: opening this port may reset the meter and so cut the board's power; the driver
    opens it at most once per boot and keeps note in the file `latch` (None: the driver's default).
    """

    def __call__(
        self, port: str, clock: DeviceClock, *, reopen_allowed: bool, latch: Path | None
    ) -> Meter: ...


#: Name -> "module:factory".
METERS: Final[dict[str, str]] = {
    "smartpower2": "roambench.meters.smartpower2:smartpower2",  # ODROID Smart Power 2 over USB serial
    "replay": "roambench.meters.replay:replay",  # a recorded transcript, at the pace it was recorded
}


def meter_names() -> list[str]:
    """Every driver there is, those of other packages included, sorted."""
    return sorted({*METERS, *entry_points(group=GROUP).names})


def open_meter(
    driver: str,
    port: str,
    clock: DeviceClock,
    *,
    reopen_allowed: bool = False,
    latch: Path | None = None,
) -> Meter:
    """The meter behind `port`, not opened yet: iterating does that. ConfigError for an unknown driver."""
    return _factory(driver)(port, clock, reopen_allowed=reopen_allowed, latch=latch)


def _factory(driver: str) -> MeterFactory:
    if driver in METERS:
        module, name = METERS[driver].split(":")
        return cast(MeterFactory, getattr(import_module(module), name))
    for point in entry_points(group=GROUP, name=driver):
        try:
            return cast(MeterFactory, point.load())
        except Exception as error:
            raise ConfigError([f"meter {driver!r} ({point.value}) cannot be loaded: {error}"]) from error
    raise ConfigError([f"unknown meter {driver!r}: expected one of {', '.join(meter_names())}"])
