"""The transfers of a calibration in their order: sizes x rates x directions, several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.energy.links.throughput import Direction

#: Shorter windows do not count in a fit (rule R7; EEMBC asks for ten seconds, too).
SHORTEST_S: Final = 10.0
DIRECTIONS: Final[tuple[Direction, ...]] = ("up", "down")
#: Ten transfers of a second, each rounded to nanoseconds, last ten seconds.
_ROUNDING_S: Final = 1e-3


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One setting: transfers of `size_bytes` in one direction, paced to `mbit_s`."""

    direction: Direction
    size_bytes: int
    mbit_s: float

    @property
    def size_mbit(self) -> float:
        """Size of one transfer in Mbit (10^6 bit)."""
        return self.size_bytes * 8e-6

    @property
    def transfer_s(self) -> float:
        """Device seconds of one transfer at the point's rate."""
        return self.size_mbit / self.mbit_s


def long_enough(seconds: float) -> bool:
    """Return whether a window of that length counts in a fit."""
    return seconds >= SHORTEST_S - _ROUNDING_S


@dataclass(frozen=True, slots=True)
class SweepWindow:
    """One visit to a point: `repeats` transfers back to back."""

    index: int
    point: SweepPoint
    repeats: int

    @property
    def duration_s(self) -> float:
        """Device seconds of all transfers of the window."""
        return self.repeats * self.point.transfer_s


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """Sizes in bytes, rates in Mbit/s; a window lasts `min_s` or `repeats` transfers, whichever comes first,
    every point is visited `windows` times, and the board idles for `idle_s` before, between and after."""

    sizes_bytes: tuple[int, ...] = (1_000_000, 4_000_000, 16_000_000)
    rates_mbit_s: tuple[float, ...] = (2.0, 5.0, 10.0, 20.0, 40.0)
    windows: int = 5
    min_s: float = 10.0
    repeats: int = 50
    idle_s: float = 5.0

    def __post_init__(self) -> None:
        problems = [
            f"calibration: {name} is {value}, expected {wanted}"
            for name, value, wanted, good in (
                ("sizes", self.sizes_bytes, "at least one, all ≥ 1 kB and different",
                 bool(self.sizes_bytes) and min(self.sizes_bytes) >= 1000 and _different(self.sizes_bytes)),
                ("rates", self.rates_mbit_s, "at least two different ones, all > 0 Mbit/s",
                 len(self.rates_mbit_s) > 1 and min(self.rates_mbit_s) > 0.0
                 and all(map(math.isfinite, self.rates_mbit_s)) and _different(self.rates_mbit_s)),
                ("windows", self.windows, "at least 1", self.windows >= 1),
                ("min-s", self.min_s, "a number > 0", 0.0 < self.min_s < math.inf),
                ("repeats", self.repeats, "at least 1", self.repeats >= 1),
                ("idle-s", self.idle_s, "at least 4 s: the meter must see the board idle",
                 4.0 <= self.idle_s < math.inf),
            )
            if not good
        ]  # fmt: skip
        if problems:
            raise ConfigError(problems)

    def points(self) -> list[SweepPoint]:
        """Every direction, size and rate once, the rate changing fastest."""
        return [
            SweepPoint(direction, size, rate)
            for direction in DIRECTIONS
            for size in self.sizes_bytes
            for rate in self.rates_mbit_s
        ]

    def repeats_at(self, point: SweepPoint) -> int:
        """Transfers per window: enough for `min_s`, at most `repeats`."""
        return max(1, min(self.repeats, math.ceil(self.min_s / point.transfer_s - 1e-9)))

    def too_short(self) -> list[SweepPoint]:
        """The points whose windows do not reach `SHORTEST_S`."""
        return [
            point for point in self.points() if not long_enough(self.repeats_at(point) * point.transfer_s)
        ]

    def remedy(self) -> str:
        """The options that make every window long enough."""
        repeats = max(math.ceil(SHORTEST_S / point.transfer_s - 1e-9) for point in self.points())
        asked = [f"--min-s {SHORTEST_S:g}"] if self.min_s < SHORTEST_S else []
        return " ".join([*asked, f"--repeats {max(self.repeats, repeats)}"])


def plan_sweep(settings: SweepSettings, seed: int, device: int) -> list[SweepWindow]:
    """Every point `settings.windows` times, one visit per round, in keyed random order.

    Every second round runs the one before backwards (ABBA), so that a board that warms up spoils no point
    more than another. Devices differ in their order.
    """
    points = settings.points()
    windows: list[SweepWindow] = []
    order: list[int] = []
    for visit in range(settings.windows):
        if visit % 2 == 0:
            draw = generator(seed, "calibration order", device, visit)
            order = [int(at) for at in draw.permutation(len(points))]
        else:
            order = order[::-1]
        for at in order:
            windows.append(SweepWindow(len(windows), points[at], settings.repeats_at(points[at])))
    return windows


def sweep_s(windows: Sequence[SweepWindow], idle_s: float) -> float:
    """Return how long the sweep lasts, idle times included, without the transfers' own overhead."""
    return math.fsum(window.duration_s for window in windows) + idle_s * (len(windows) + 1)


def _different(values: Sequence[float]) -> bool:
    return len(set(values)) == len(values)
