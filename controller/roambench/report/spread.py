"""Repeats of one figure: their mean, the sample's standard deviation, and the t interval of the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import scipy

from roambench.energy.energy_value import Energy, total
from roambench.report.numbers import NONE

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """95 % of such intervals hold the true value."""

    low: float
    high: float

    @property
    def half(self) -> float:
        """The distance of its ends from its middle."""
        return (self.high - self.low) / 2.0

    def holds(self, value: float) -> bool:
        """Return whether `value` lies between `low` and `high`, both included."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Spread:
    """`n` values; `mean` is None without any, `sd` (the sample's, n - 1) and `interval` below two. `u` is the
    standard uncertainty of the mean by what meters, or a model, have wrong; None of what has none."""

    mean: float | None
    sd: float | None
    n: int
    u: float | None = None
    interval: Interval | None = None


def spread(values: Sequence[float | None], u: float | None = None) -> Spread:
    """Return mean and deviation of the values there are; summed exactly: their order changes nothing."""
    there = [value for value in values if value is not None]
    if not there:
        return Spread(None, None, 0)
    mean, sd = math.fsum(there) / len(there), None
    if len(there) > 1:
        sd = math.sqrt(math.fsum((value - mean) ** 2 for value in there) / (len(there) - 1))
    return Spread(mean, sd, len(there), u, t_interval(there))


def t_interval(
    values: Sequence[float], u_common: float = 0.0, confidence: float = CONFIDENCE
) -> Interval | None:
    """Return the interval of the mean of `values`, to which `u_common` (k = 1) is common; None below two
    values."""
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    scatter2 = math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count
    student, normal = (
        float(scipy.special.stdtrit(freedom, 0.5 + confidence / 2.0)) for freedom in (count - 1, 1e9)
    )
    half = math.hypot(student * math.sqrt(scatter2), normal * u_common)
    return Interval(mean - half, mean + half)


def interval_text(found: Spread, *, share: bool = False) -> str:
    """12.3 ± 0.4; 91.2 ± 0.3 %; 12.3 for a single run; a dash for none."""
    if found.mean is None:
        return NONE
    scale, unit = (100.0, " %") if share else (1.0, "")
    half = 0.0 if found.interval is None else scale * found.interval.half
    places = places_of(half if half > 0.0 else scale * found.mean)
    shown = f"{scale * found.mean:,.{places}f}"
    return shown + (f" ± {half:,.{places}f}" if found.interval is not None else "") + unit


def places_of(value: float) -> int:
    """The places behind the point: two digits of an uncertainty, three of a value without one."""
    magnitude = abs(value)
    return min(4, max(0, 1 - math.floor(math.log10(magnitude)))) if magnitude > 0.0 else 2


def spread_of(figures: Sequence[Energy | float | None]) -> Spread:
    """The same of one quantity of several runs; where all of them are energies, with what their meters, or
    their model, have wrong in the mean."""
    energies = [figure for figure in figures if isinstance(figure, Energy)]
    found = spread([figure.joules if isinstance(figure, Energy) else figure for figure in figures])
    if not energies or len(energies) < found.n:
        return found
    parts = (energy.beside_other_runs().times(1.0 / found.n) for energy in energies)
    return replace(found, u=total(parts).u_joules)
