"""The firmwares that can be emulated: what each says on which transport, how often, how it boots.

Ours are described by the files in `firmwares`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files
from typing import Any, Final, Protocol

from roambench.contract.errors import ConfigError
from roambench.contract.table import Table
from roambench.emulation.lines import LineLayout, Printout
from roambench.meters.traits import TRAITS, MeterTraits, smartpower3_row

Line = Callable[[Printout], bytes | None]


class Transport(StrEnum):
    """The way on which bytes leave a meter."""

    SERIAL = "serial"
    TELNET = "telnet"  # TCP, one client
    WEBSOCKET = "websocket"  # up to five clients; the only one that can switch the output
    UDP = "udp"  # datagrams to one address
    SYSFS = "sysfs"  # attributes of a folder, as the kernel's drivers have them


class Sensor(StrEnum):
    """The measuring chip behind the firmware."""

    INA231 = "ina231"
    PAC1933 = "pac1933"
    INA219 = "ina219"
    INA226 = "ina226"
    INA3221 = "ina3221"
    MEAN = "mean"  # any that has the mean of all of the period; it is as wrong as its traits' u says


class Dialog(Protocol):
    """The speech of a meter that is spoken to on its serial port; each port has one."""

    def hear(self, data: bytes) -> bytes:
        """The answer to bytes that came."""
        ...

    def say(self, line: bytes) -> bytes:
        """The bytes that leave when the firmware has printed `line`; b"" while it was not asked to talk."""
        ...


class WattHours(StrEnum):
    """Behaviour of the meter's own counter."""

    BROWSER = "browser"  # adds watts per tick as if a tick were a second, while a browser watches
    ELAPSED = "elapsed"  # watts times elapsed seconds
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FirmwareProfile:
    """One firmware, as docs/emulator.md explains field by field. Times are seconds of device time.

    ConfigError, when it is made, for values that no firmware can have, all at once.
    """

    name: str
    product: str
    traits: str  # the row of `meters.traits` that describes its readings
    sensor: Sensor
    period_s: float  # between two lines
    lines: Mapping[Transport, Line]  # how it spells a reading, on every way that it talks
    boot: tuple[tuple[float, bytes], ...]  # (after a reset, what it prints on serial)
    output_s: float  # after a reset until the output is on, with autorun
    boot_s: float  # after a reset until the first line
    messages: tuple[bytes, ...]  # debug text between the lines on serial; (): it prints none
    version: str
    watt_hours: WattHours = WattHours.NONE
    rom: bool = True  # at boot it chatters at another baud rate first
    intervals_ms: tuple[int, ...] = ()  # what its menu offers; (): the period is fixed
    bauds: Mapping[int, int] = field(default_factory=dict)  # by interval; what is not here is 115200
    busy_s: float = 0.0  # how long a line keeps it busy besides the sending
    late_s: float = 0.0  # how long at most another task holds a line up
    late_share: float = 0.0  # of all lines
    drivers: Mapping[Transport, str] = field(default_factory=dict)  # who reads it; {}: by its traits
    dialog: Callable[[], Dialog] | None = None  # of a meter that is spoken to on its serial port
    options: str = ""  # what its reader's port has after "?"

    def __post_init__(self) -> None:
        problems = [
            f"meter profile {self.name}: {name}: expected {expected}"
            for name, expected, holds in (
                ("period_s", "more than 0", self.period_s > 0.0),
                ("lines", "at least one transport", bool(self.lines)),
                ("output_s, boot_s", "0 or more", min(self.output_s, self.boot_s) >= 0.0),
                ("busy_s, late_s", "0 or more", min(self.busy_s, self.late_s) >= 0.0),
                ("late_share", "0 to 1", 0.0 <= self.late_share <= 1.0),
                ("messages", "a tuple of bytes, none of them empty", _texts(self.messages)),
                (
                    "boot",
                    "a tuple of (seconds after the reset, bytes), ascending",
                    _texts(tuple(text for _, text in self.boot))
                    and [at for at, _ in self.boot] == sorted(at for at, _ in self.boot),
                ),
                ("intervals_ms", "whole milliseconds above 0", all(ms > 0 for ms in self.intervals_ms)),
                ("drivers", "none but of its lines", self.drivers.keys() <= self.lines.keys()),
            )
            if not holds
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def summary(self) -> str:
        """One line for people."""
        pace = f"one line every {self.period_s:g} s"
        if self.intervals_ms:
            pace = f"one line every {min(self.intervals_ms)} to {max(self.intervals_ms)} ms"
        firmware = f", firmware {self.version}" if self.version else ""
        return f"{self.product}{firmware}, over {', '.join(self.transports)}; {pace}"

    @property
    def transports(self) -> tuple[Transport, ...]:
        """The ways out of the meter that the firmware has."""
        return tuple(self.lines)

    def period(self, interval_ms: int | None) -> float:
        """Seconds between lines; ConfigError for an interval that the firmware does not offer."""
        if interval_ms is None:
            return self.period_s
        if interval_ms not in self.intervals_ms:
            offered = ", ".join(map(str, self.intervals_ms))
            expected = (
                f"expected one of {offered}" if offered else f"its period is fixed at {self.period_s:g} s"
            )
            raise ConfigError([f"meter profile {self.name}: interval {interval_ms} ms: {expected}"])
        return interval_ms * 1e-3

    def traits_at(self, interval_ms: int | None = None) -> MeterTraits:
        """Traits of its readings; of a kernel's sensor those of its chip, at its reader's pace."""
        if (chip := f"hwmon-{self.sensor}") in TRAITS.own and Transport.SYSFS in self.lines:
            return TRAITS.load(chip)
        period_s = self.period(interval_ms)
        row = smartpower3_row(period_s) if self.sensor is Sensor.PAC1933 else self.traits
        return replace(TRAITS.load(row), nominal_s=period_s)

    def baud(self, interval_ms: int | None) -> int:
        """The slowest of the usual rates that carries the lines of this interval."""
        return self.bauds.get(interval_ms or 0, 115_200)


def _texts(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(text, bytes) and text for text in values)


#: Of keys whose value in a file is spelled otherwise than in a profile: the one from the other.
_FORMS: Final[Mapping[str, Callable[[Any], object]]] = {
    "sensor": Sensor,
    "watt_hours": WattHours,
    "intervals_ms": tuple,
    "bauds": lambda rates: {int(interval_ms): baud for interval_ms, baud in rates.items()},
    "boot": lambda texts: tuple((at_s, text.encode()) for at_s, text in texts),
    "messages": lambda texts: tuple(text.encode() for text in texts),
}


def _described(name: str) -> Iterator[FirmwareProfile]:
    """The firmwares of `firmwares/NAME.toml`: each has the keys of the whole file, and its own."""
    family = tomllib.loads(files(__package__).joinpath("firmwares", f"{name}.toml").read_text("utf-8"))
    for own in family.pop("firmware"):
        values = family | own
        layouts = family.get("lines", {}) | own.get("lines", {})
        ways = values.pop("transports", layouts)
        values["lines"] = {Transport(way): LineLayout(**layouts[way]) for way in ways}
        values["boot"] = [(at_s, text.replace("{version}", own["version"])) for at_s, text in values["boot"]]
        yield FirmwareProfile(**values | {key: _FORMS[key](values[key]) for key in _FORMS.keys() & values})


def _mistakes(name: str, row: FirmwareProfile) -> Iterator[str]:
    if row.name != name:  # an emulator's process looks it up by the name that it has
        yield f"expected the name of its entry, got {row.name!r}"


PROFILES: Final = Table(
    what="meter profile",
    group="roambench.meter_profiles",
    kind=FirmwareProfile,
    mistakes=_mistakes,
    own={
        row.name: row
        for family in ("smartpower2", "smartpower2-ytrikoz", "smartpower3", "hwmon")
        for row in _described(family)
    },
)

_SHORT: Final = {"ytrikoz": "smartpower2-ytrikoz", "dres100": "smartpower2-100ms"}


def full_name(name: str) -> str:
    """`sp2-1.6`, `sp3-2.2`, `ytrikoz` and `dres100` are short for the names in PROFILES."""
    name = _SHORT.get(name, name)
    for short, full in (("sp2-", "smartpower2-"), ("sp3-", "smartpower3-")):
        if name.startswith(short):
            return full + name.removeprefix(short)
    return name


def profile(name: str) -> FirmwareProfile:
    """The profile called `name`, short spellings included; ConfigError lists those there are, or says why
    another package's cannot be used."""
    full = full_name(name)
    return PROFILES.load(full if full in PROFILES.own else name)
