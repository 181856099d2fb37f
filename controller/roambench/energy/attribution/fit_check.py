"""Whether the readings bear out what the split assumes: constant power within a phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.energy.attribution.design import Design
from roambench.energy.attribution.least_squares import Fit
from roambench.energy.attribution.span_powers import SpanPowers
from roambench.energy.readings.occupancy import Columns, Floats

#: Seconds since the border before a reading: what happens at a phase's start shows in the first of these.
SINCE_S: Final = (0.0, 0.13, 0.26, 0.4, 0.53, 1.0, np.inf)
#: Fewer readings of one kind than this are no evidence.
MIN_READINGS: Final = 4
#: Phases that begin at one instant of the meter's period: length of their mean direction (1: exactly one),
#: and how sure that is no chance (Rayleigh: exp(-8.5) = 2 in 10,000).
LOCKED_R: Final = 0.7
LOCKED_NR2: Final = 8.5
#: Instants of the meter's period that are told apart when they are counted.
TENTHS: Final = 10
#: Neighbouring readings of steady power are as independent as noise is, and their deviation is that of the
#: middle half of them: how sure (in standard deviations) and how large correlation and excess must be.
RESTLESS_Z: Final = (3.8, 5.5)
RESTLESS_LEAST: Final = (0.15, 0.3)
#: What the ratio of both deviations scatters by, times the root of the number of readings.
_RATIO_SD: Final = 1.2
#: A normal deviation by the median of absolute deviations.
_BY_MEDIAN: Final = 1.4826
#: Pairs of neighbours that tell it.
MIN_PAIRS: Final = 20
#: Lines so many apart have no noise in common any more.
_FAR_LAG: Final = 3
#: Standard deviations from which on a group of readings contradicts the fit.
LIMIT_Z: Final = 4.0


@dataclass(frozen=True, slots=True)
class Misfit:
    """The worst group of readings: of `level`, `since_s` after its beginning; `z` in standard deviations."""

    level: str
    since_s: tuple[float, float]
    readings: int
    z: float

    @property
    def contradicts(self) -> bool:
        """Whether the assumption does not hold."""
        return self.z > LIMIT_Z

    @property
    def sentence(self) -> str:
        """Which readings, and how far off."""
        low, high = self.since_s
        when = f"more than {low:g} s" if high == np.inf else f"{low:g} to {high:g} s"
        return f"{self.level}, {when} after its beginning: {self.z:.0f} standard deviations"


def worst_misfit(
    design: Design,
    fit: Fit,
    powers: SpanPowers,
    readings_w: Floats,
    names: tuple[str, ...],
    most: float = np.inf,
    among: npt.NDArray[np.bool_] | None = None,
    *,
    dense: bool = False,
) -> Misfit | None:
    """The group of readings, by level and time since its border, that the fit explains worst.

    Both the size of the residuals (mean chi2, Wilson and Hilferty) and their common sign count. None where
    no group is large enough. A single residual counts as `most` standard deviations at most; only readings
    `among` count, shape (used readings,). Readings that are `dense` may have noise in common with their
    neighbours, which tells no misfit.
    """
    residual_w = readings_w - design.by_span() @ powers.watts
    variance_w2 = design.matrix @ fit.noise_w2 + design.age_variance(fit.watts, np.zeros(design.levels))
    scaled = np.clip(residual_w / np.sqrt(variance_w2), -most, most)
    more, alike = _in_common(design, scaled) if dense else (1.0, 0.0)
    level, since_s = _where(design)
    bins = np.searchsorted(np.array(SINCE_S), since_s, "right") - 1
    group = level * len(SINCE_S) + bins
    worst: Misfit | None = None
    for key in np.unique(group).tolist():
        inside = group == key if among is None else (group == key) & among
        count = int(inside.sum())
        if count < MIN_READINGS:
            continue
        chi2 = float(np.mean(np.square(scaled[inside]))) / more
        spread = 2.0 / (9.0 * count) * (1.0 + alike**2) / (1.0 - alike**2)
        z = (chi2 ** (1.0 / 3.0) - (1.0 - spread)) / np.sqrt(spread)
        common = abs(float(scaled[inside].sum())) / np.sqrt(count * more * (1.0 + 2.0 * alike)) - 0.5
        found = max(float(z), common)
        if worst is None or found > worst.z:
            place = key % len(SINCE_S)
            worst = Misfit(names[key // len(SINCE_S)], (SINCE_S[place], SINCE_S[place + 1]), count, found)
    return worst


def _in_common(design: Design, scaled: Floats) -> tuple[float, float]:
    """By how much more readings some lines apart differ than neighbours do, 1..2, and the correlation of
    neighbours which that is, 0..0.5. Noise is estimated by neighbours.
    """
    pure, (span, _) = np.flatnonzero(design.pure), design.homes
    apart = []
    for lag in (1, _FAR_LAG):
        pair = np.flatnonzero((pure[lag:] - pure[:-lag] == lag) & (span[lag:] == span[:-lag]))
        if len(pair) < MIN_PAIRS:
            return 1.0, 0.0
        apart.append(float(np.mean(np.square(scaled[pure[pair + lag]] - scaled[pure[pair]]))))
    more = float(np.clip(apart[1] / max(apart[0], 1e-300), 1.0, 2.0))
    return more, 1.0 - 1.0 / more


def _where(design: Design) -> tuple[Columns, Floats]:
    """The level in which each reading arrived and the seconds since that span began, shape (readings,)."""
    at, since_s = design.arrivals()
    return design.level_of_fitted[at], since_s


def restless_levels(
    design: Design, powers: SpanPowers, readings_w: Floats, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Levels inside whose spans power wanders, beats with the meter, or jumps: their noise is not white.

    What a board does at rest is one level under several names; there, single readings far off count, too (a
    daemon, a card that writes): an active phase may have them in its nature.
    """
    number = design.families.noise_of_level
    span, home = design.homes
    pure = np.flatnonzero(design.pure)
    size = np.bincount(span, minlength=len(powers.watts))
    mean_w = np.bincount(span, readings_w[pure], len(size)) / np.maximum(size, 1)
    off_w = readings_w[pure] - mean_w[span]
    off_w *= np.sqrt(size / np.maximum(size - 1, 1))[span]  # a mean of few follows them
    many = size[span] >= MIN_READINGS
    follows = np.concatenate(((np.diff(pure) == 1) & (np.diff(span) == 0) & many[1:], [False]))
    group = number[home]
    found = []
    for one in np.unique(group).tolist():
        pair = np.flatnonzero(follows & (group == one))
        if len(pair) < MIN_PAIRS:
            continue
        square = 0.5 * (np.square(off_w[pair]) + np.square(off_w[pair + 1])).sum()
        alike = float((off_w[pair] * off_w[pair + 1]).sum() / max(square, 1e-300))
        wanders = alike > max(RESTLESS_Z[0] / np.sqrt(len(pair)), RESTLESS_LEAST[0])
        if one == number[0]:
            seen = size[span] > 1
            levels = [off_w[seen & (home == level)] for level in np.flatnonzero(number == one).tolist()]
            wanders |= any(_jumps(own_w) for own_w in levels)
        if wanders:
            found.append(names[one])
    return tuple(found)


def _jumps(off_w: Floats) -> bool:
    """Whether some of these readings are further off than the middle half of them explains."""
    if len(off_w) < MIN_PAIRS:
        return False
    usual_w = _BY_MEDIAN * float(np.median(np.abs(off_w)))
    excess = float(np.std(off_w)) / max(usual_w, 1e-6) - 1.0
    return bool(excess > max(RESTLESS_Z[1] * _RATIO_SD / np.sqrt(len(off_w)), RESTLESS_LEAST[1]))


def locked_levels(
    at_s: Floats, starts_s: Floats, level_of_span: Columns, names: tuple[str, ...], period_s: float
) -> tuple[str, ...]:
    """Levels whose spans all begin at about the same instant between two lines of the meter.

    Then every round shows the meter the same part of them, and what the others draw was never sampled.
    Idling does not matter: its power does not depend on when it began.
    """
    found: list[str] = []
    for level, name in enumerate(names):
        turns = _turns(at_s, starts_s[level_of_span == level], period_s)
        if level == 0 or not len(turns):
            continue
        r = abs(np.mean(np.exp(2j * np.pi * turns)))
        if r > LOCKED_R and len(turns) * r * r > LOCKED_NR2:
            found.append(name)
    return tuple(found)


def fewest_offsets(at_s: Floats, starts_s: Floats, level_of_span: Columns, period_s: float) -> int:
    """In how many of the TENTHS of the meter's period spans of one level began: of the level with the fewest.

    Levels with fewer spans than TENTHS could not show them and do not count; 0 where that leaves none.
    """
    found = []
    for level in range(1, int(level_of_span.max(initial=0)) + 1):
        turns = _turns(at_s, starts_s[level_of_span == level], period_s)
        if len(turns) >= TENTHS:
            found.append(len(np.unique(np.floor(turns * TENTHS) % TENTHS)))
    return min(found, default=0)


def _turns(at_s: Floats, starts_s: Floats, period_s: float) -> Floats:
    """How much of a period had passed since the line before each start; without such a line they are out."""
    if not len(at_s):
        return np.empty(0)
    before = np.searchsorted(at_s, starts_s, "right") - 1
    since_s = starts_s - at_s[np.maximum(before, 0)]
    return np.asarray(since_s[(before >= 0) & (since_s <= period_s)] / period_s)
