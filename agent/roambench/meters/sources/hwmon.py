"""A power sensor of the kernel (hwmon): files below /sys/class/hwmon, looked at in device time.

Units are the kernel's: mV, mA, uW, uOhm, ms. A chip that still holds what was read last has converted nothing
new, so its values count again only after its own `update_interval`.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from roambench.contract.device_time import DeviceClock
from roambench.meters.chips import CHIPS, chip_traits
from roambench.meters.sources.source import Lost, Take, cause
from roambench.meters.traits import MeterTraits

ROOT: Final = Path("/sys/class/hwmon")
#: Errors of a look that the next look may not have: the bus was busy, a transfer was disturbed.
_PASSING: Final = frozenset(
    {errno.EAGAIN, errno.EIO, errno.EREMOTEIO, errno.ETIMEDOUT, errno.ENXIO, errno.ENODATA}
)
#: Errors of a chip that has no driver any more, or is off the bus.
_GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})
#: Kernels before 4.20 give the shunt that their rounded calibration register stands for.
_SHUNT_SLACK: Final = 0.005
#: After this many looks in a row that failed in such a way, the sensor counts as lost.
_MOST_FAILED: Final = 20
#: Bytes of an attribute: a number and a line feed.
_LONGEST: Final = 32


class Look(NamedTuple):
    """Millivolts, milliamperes and microwatts of a line at one time; None: its driver gives none."""

    mv: int | None
    ma: int | None
    uw: int | None


@dataclass(frozen=True, slots=True)
class Rail:
    """One measured line of one chip."""

    folder: Path
    chip: str  # the driver's name of it, as in ina226
    device: str  # its address, as in 1-0040
    number: int
    label: str
    volts: str  # names of the attributes; "": the driver has none
    amps: str
    watts: str

    def __str__(self) -> str:
        return f"{self.device}/{self.label or self.number}"

    def answers_to(self, chip: str, rail: str) -> bool:
        """True where `chip` (a name or an address) and `rail` (a label or a number) mean this ("": any)."""
        return (chip in ("", self.chip, self.device)) and (rail in ("", self.label, str(self.number)))

    def whole(self, name: str) -> int | None:
        """An attribute as a whole number; None where the driver has none of the name."""
        try:
            return self._there(name)
        except FileNotFoundError:
            return None

    @property
    def shunt_uohm(self) -> int | None:
        """The resistance that the kernel reckons with; None where it does not say."""
        own = self.whole(f"shunt{self.number}_resistor")
        return own if own is not None else self.whole("shunt_resistor")

    @property
    def update_ms(self) -> int:
        """Milliseconds that the chip averages over; 0 where the driver does not say."""
        return self.whole("update_interval") or 0

    @property
    def settings(self) -> str:
        """The shunt that the kernel reckons with, and how long the chip averages, in words."""
        shunt = self.shunt_uohm
        words = (
            "the kernel does not say its shunt" if shunt is None else f"shunt {shunt} uohm",
            f"a value each {self.update_ms} ms" if self.update_ms else "",
        )
        return ", ".join(filter(None, words))

    @property
    def shunt_mv(self) -> int | None:
        """The voltage at the shunt."""
        return self.whole(f"in{self.number + 3}_input" if self.chip == "ina3221" else "in0_input")

    def look(self) -> Look:
        """The values that the driver gives now. OSError where it does not, ValueError for no number."""
        return Look(*(self._there(name) if name else None for name in (self.volts, self.amps, self.watts)))

    def _there(self, name: str) -> int:
        opened = os.open(self.folder / name, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is no attribute
        try:
            text = more = os.read(opened, _LONGEST)
            while more and len(text) < _LONGEST and not text.endswith(b"\n"):
                text += (more := os.read(opened, _LONGEST))
        finally:
            os.close(opened)
        return int(text)


def rails(root: Path = ROOT) -> list[Rail]:
    """All lines whose power the kernel knows, or whose current and voltage."""
    return [rail for folder in sorted(root.glob("hwmon*")) for rail in _of_chip(folder)]


def _of_chip(folder: Path) -> Iterator[Rail]:
    place = folder if (folder / "name").is_file() else folder / "device"  # of kernels before 3.16
    try:
        chip = (place / "name").read_text("ascii").strip()
        names = {entry.name for entry in place.iterdir()}
        device = (folder / "device").resolve().name if (folder / "device").exists() else folder.name
    except (OSError, UnicodeDecodeError):
        return
    numbers = {int(match[1]) for name in names if (match := re.fullmatch(r"(?:power|curr)(\d+)_\w+", name))}
    if chip == "ina3221":
        numbers &= {1, 2, 3}  # the others are sums and shunt voltages
    for number in sorted(numbers):
        wanted = (
            f"in{number}_input",
            f"curr{number}_input",
            f"power{number}_input",
            f"power{number}_average",
        )
        volts, amps, *power = (name if name in names else "" for name in wanted)
        watts = power[0] or power[1]
        if watts or (volts and amps):
            yield Rail(place, chip, device, number, _label(place, number), volts, amps, watts)


def _label(place: Path, number: int) -> str:
    for name in (f"power{number}_label", f"in{number}_label", f"curr{number}_label"):
        try:
            text = (place / name).read_text("utf-8", "replace").strip()
        except OSError:
            continue
        if text and text.isprintable():
            return text[:60]
    return ""


def find(address: str, root: Path = ROOT) -> list[Rail]:
    """The lines that an address names: parts joined by "+", each CHIP, CHIP/RAIL or RAIL.

    CHIP is a name (ina226) or an address (1-0040), RAIL a label or a number. ValueError where a part means
    none of them or several, with those there are.
    """
    there = rails(root)
    listed = ", ".join(f"{rail.chip} {rail}" for rail in there) or "none"
    found = list[Rail]()
    for part in address.split("+"):
        chip, slash, name = part.partition("/")
        chosen = [rail for rail in there if rail.answers_to(chip, name)]
        if not chosen and not slash:
            chosen = [rail for rail in there if rail.answers_to("", part)]
        if len(chosen) != 1:
            many = "no power sensor" if not chosen else f"{len(chosen)} power sensors"
            raise ValueError(f"{part!r} means {many} below {root}; there are: {listed}")
        found += chosen
    if len(set(found)) < len(found):
        raise ValueError(f"{address!r} names a sensor twice")
    return found


@dataclass
class HwmonSensor:
    """A `Source`: the sensor's lines, summed, as text `VOLTS AMPERES WATTS`, at most one each `interval_s`.

    `shunt_uohm`: what the shunt really has; another value in the kernel ends the opening. `asked`: the
    interval was asked for, so that a slower chip is worth a message. `unit` is the chip and its place;
    `traits`, `settings` and `look_cpu_s`, the CPU time of one look, are known once it is open.
    """

    address: str
    clock: DeviceClock
    interval_s: float
    shunt_uohm: float = 0.0
    root: Path = ROOT
    asked: bool = False
    unit: str = ""
    look_cpu_s: float = 0.0
    settings: str = ""
    traits: MeterTraits | None = None
    _rails: Sequence[Rail] = ()
    _timer: asyncio.Handle | None = None
    _due_ns: int = 0
    _seen: object = None
    _seen_ns: int = 0
    _update_ns: int = 0
    _failed: int = 0
    _saturated: bool = False
    _slow: str = ""
    _take: Take = field(default=lambda data: None)
    _lost: Lost = field(default=lambda why: None)

    async def open(self, take: Take, lost: Lost) -> None:
        """Find the sensor and look at it from now on."""
        self._rails = find(self.address, self.root)
        for rail in self._rails:
            _check_shunt(rail, self.shunt_uohm)
            _first_look(rail)
        update_ms = max(rail.update_ms for rail in self._rails)
        self._update_ns = update_ms * 1_000_000
        self.look_cpu_s = self._cpu_of_a_look()
        self.unit = " + ".join(f"{rail.chip} {rail}" for rail in self._rails)
        self.settings = "; ".join(dict.fromkeys(rail.settings for rail in self._rails))
        self.traits = traits_of(self._rails, self.interval_s)
        self._take, self._lost, self._failed, self._seen = take, lost, 0, None
        self._due_ns = self.clock.now_ns()
        self._timer = asyncio.get_running_loop().call_soon(self._look)
        if self.asked and update_ms > 1e3 * self.interval_s:
            self._slow = (
                f"!{self.unit}: new values come every {update_ms} ms (update_interval), the port asks for "
                f"{1e3 * self.interval_s:g} ms\n"
            )

    async def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now_ns = self.clock.now_ns()
        try:
            looks = [rail.look() for rail in self._rails]
            full = [rail for rail in self._rails if _is_full(rail)]
        except (OSError, ValueError) as error:  # ValueError: text that is no number
            passing = not isinstance(error, OSError) or error.errno in _PASSING
            self._failed += 1
            if not passing or self._failed >= _MOST_FAILED:
                self._timer = None
                self._lost(f"{self.unit}: {_why(error)}")
                return
        else:
            self._failed = 0
            self._report(looks, full, now_ns)
        interval_ns = round(self.interval_s * 1e9)
        self._due_ns = max(self._due_ns + interval_ns, now_ns)
        wait_s = self.clock.host_seconds((self._due_ns - self.clock.now_ns()) * 1e-9)
        self._timer = asyncio.get_running_loop().call_later(max(0.0, wait_s), self._look)

    def _report(self, looks: list[Look], full: list[Rail], now_ns: int) -> None:
        if looks == self._seen and now_ns - self._seen_ns < self._update_ns:
            return
        self._seen, self._seen_ns = looks, now_ns
        mark, self._slow = self._slow, ""
        if bool(full) != self._saturated:
            where = f"{', '.join(map(str, full))}: the shunt's voltage is at the end of the chip's range"
            mark += f"!{where if full else 'none'}\n"
        self._saturated = bool(full)
        self._take(mark.encode() + line_of(looks, full=bool(full)))

    def _cpu_of_a_look(self) -> float:
        """The least of three: the first one fills the kernel's caches."""
        found = list[float]()
        for _ in range(3):
            begun_s = time.thread_time()
            for rail in self._rails:
                rail.look()
                _is_full(rail)
            found.append(time.thread_time() - begun_s)
        return min(found)


def _check_shunt(rail: Rail, wanted_uohm: float) -> None:
    """ValueError where the kernel reckons with another shunt; 0: any will do."""
    held = rail.shunt_uohm
    if wanted_uohm and held is not None and abs(held - wanted_uohm) > _SHUNT_SLACK * wanted_uohm:
        times = held / wanted_uohm
        raise ValueError(
            f"{rail}: the kernel reckons with a shunt of {held} uohm, the port says {wanted_uohm:g}: watts "
            f"would be {1.0 / times if times > 0.0 else math.inf:.3g} times the true ones; set it in "
            f"{rail.folder}, or provision the board with it"
        )


def _first_look(rail: Rail) -> None:
    """ValueError where the rail gives nothing that could be measured."""
    try:
        rail.look()
    except OSError as error:
        off = f": is in{rail.number}_enable 0?" if error.errno == errno.ENODATA else ""
        raise ValueError(f"{rail}: {_why(error)}{off}") from None
    except ValueError as error:
        raise ValueError(f"{rail}: {error}") from None


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in _GONE:
        return f"the sensor is gone, its driver unbound or the chip off the bus ({cause(error)})"
    return cause(error)


def _is_full(rail: Rail) -> bool:
    chip = CHIPS.get(rail.chip)
    held = rail.shunt_mv if chip is not None else None
    return chip is not None and held is not None and abs(held) >= math.floor(1e3 * chip.range_v)


def line_of(looks: Sequence[Look], *, full: bool = False) -> bytes:
    """The text of one look: volts and amperes of a single line (NaN where it has none), watts of all."""
    volts, amps, watts = _sum(looks)
    return f"{volts:.6g} {amps:.6g} {watts:.6f}{' full' if full else ''}\n".encode()


def _sum(looks: Sequence[Look]) -> tuple[float, float, float]:
    watts = math.fsum(uw * 1e-6 if uw is not None else (mv or 0) * (ma or 0) * 1e-6 for mv, ma, uw in looks)
    if len(looks) > 1:
        return math.nan, math.nan, watts
    mv, ma, _ = looks[0]
    return (math.nan if mv is None else mv * 1e-3), (math.nan if ma is None else ma * 1e-3), watts


def traits_of(lines: Sequence[Rail], interval_s: float) -> MeterTraits:
    """Traits of the sum of these lines, by chip, shunt and averaging.

    Of several lines the largest gain error holds for the sum, in any split of it; offsets are each line's own
    and add in squares, as do steps.
    """
    parts = [
        chip_traits(
            rail.chip,
            (rail.shunt_uohm or 0) * 1e-6,
            interval_s,
            rail.update_ms * 1e-3,
            power=bool(rail.watts),
        )
        for rail in lines
    ]
    window_s = max(part.window_s for part in parts)
    return replace(
        parts[0],
        nominal_s=max(interval_s, window_s),
        window_s=window_s,
        latch_s=window_s,
        u_gain=max(part.u_gain for part in parts),
        u_offset_w=math.hypot(*(part.u_offset_w for part in parts)),
        step_w=math.hypot(*(part.step_w for part in parts)),
    )
