"""Stretches in which a meter lived and printed its last values again and again: gaps, not readings.

A board at rest on a coarse meter honestly repeats itself, and so does one of constant power. So a stretch of
equal lines (volts, amps and watts, to the last digit) is taken for a frozen meter only where the device's own
other readings say that it cannot be chance. There are two ways to know:

- By its noise: at the same power the meter else shows noise that its steps resolve, so that it hardly ever
  prints a line twice. Noise within a step may rest in the middle of one for long: it tells nothing.
- By its board's work: the power changes when a training begins or ends, and the meter else shows that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.energy.readings.samples import Stamps, Watts

#: As a gap (R4): lines that are farther apart than this many periods tell nothing of each other.
_APART_PERIODS: Final = 2.5
#: Shorter stretches are not looked at.
_LEAST_LINES: Final = 8
_LEAST_S: Final = 5.0
#: Chance of such a stretch in the whole run, below which it is none.
_CHANCE: Final = 1e-4
#: Watts this near are the same power: steps of the meter, or a share.
_LEVEL_STEPS: Final = 5.0
_LEVEL_SHARE: Final = 0.05
#: Pairs of lines at the power that tell how often it repeats; this share of them is to differ by two steps.
_LEAST_PAIRS: Final = 50
_RESOLVED_SHARE: Final = 0.1
#: Where noise is hardly as large as a step, this share of the lines may repeat; fewer the more differ by two.
_MOST_REPEATS: Final = 0.6
#: Lines before a stretch, and behind it, that say whether the board was as noisy then, and how far a board
#: that fell quiet may wander in between.
_NEAR_LINES: Final = 20
_QUIET_STEPS: Final = 3.0
#: Changes of work elsewhere that tell how often the meter shows one, and periods before and after one.
_LEAST_CHANGES: Final = 10
_BEFORE_PERIODS: Final = 1.0
_AFTER_PERIODS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Frozen:
    """Lines `first` to `last` of a meter, which repeat the first one's values."""

    first: int
    last: int
    duration_s: float
    volts: float
    amps: float
    watts: float

    def __str__(self) -> str:
        parts = ((self.volts, "V"), (self.amps, "A"), (self.watts, "W"))
        values = " ".join(f"{value:.3f} {unit}" for value, unit in parts if math.isfinite(value))
        return f"{values} for {self.duration_s:,.0f} s"


def frozen_stretches(
    ns: Stamps,
    volts: Watts,
    amps: Watts,
    watts: Watts,
    *,
    nominal_s: float,
    step_w: float,
    changes_ns: Sequence[int] = (),
) -> list[Frozen]:
    """The stretches of a meter's lines, in ascending time, in which it was frozen.

    NaN is a value that the meter does not print. `changes_ns` are moments at which the board's power changed,
    by the clock of `ns`: beginnings and ends of trainings.
    """
    if len(ns) < _LEAST_LINES:
        return []
    near = np.diff(ns) <= _APART_PERIODS * nominal_s * 1e9
    same = _repeats(volts) & _repeats(amps) & _repeats(watts)
    borders = np.flatnonzero(np.concatenate(([True], ~same, [True])))
    many = np.diff(borders) >= _LEAST_LINES
    firsts, lasts = borders[:-1][many], borders[1:][many] - 1
    long = np.flatnonzero((ns[lasts] - ns[firsts]) * 1e-9 >= _LEAST_S)
    if not len(long):
        return []
    suspects = [(int(firsts[place]), int(lasts[place])) for place in long]
    noise = _Noise.of(watts, near, same, suspects, step_w)
    work = _Work.of(ns, same, suspects, changes_ns, nominal_s)
    return [
        Frozen(
            first,
            last,
            float((ns[last] - ns[first]) * 1e-9),
            float(volts[first]),
            float(amps[first]),
            float(watts[first]),
        )
        for first, last in suspects
        if noise.excludes(first, last) or work.excludes(first, last)
    ]


def _repeats(values: Watts) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values[1:] == values[:-1]
    unknown = np.isnan(values)
    return found | (unknown[1:] & unknown[:-1])


@dataclass(frozen=True, slots=True)
class _Noise:
    """The differences of lines outside the suspect stretches from their neighbours."""

    watts: Watts
    same: npt.NDArray[np.bool_]  # pairs of lines whose second repeats the first
    outside: npt.NDArray[np.bool_]  # those that are in no suspect stretch
    telling: npt.NDArray[np.bool_]  # those of them that are neighbours in time
    step_w: float

    @classmethod
    def of(
        cls,
        watts: Watts,
        near: npt.NDArray[np.bool_],
        same: npt.NDArray[np.bool_],
        suspects: Sequence[tuple[int, int]],
        step_w: float,
    ) -> _Noise:
        outside = np.ones(len(near), np.bool_)
        for first, last in suspects:
            outside[first:last] = False
        return cls(watts, same, outside, outside & near, step_w)

    def excludes(self, first: int, last: int) -> bool:
        """True where this many equal lines at this power are beyond chance."""
        level_w = float(self.watts[first])
        at_level = np.abs(self.watts - level_w) <= max(_LEVEL_STEPS * self.step_w, _LEVEL_SHARE * level_w)
        pairs = np.flatnonzero(self.telling & at_level[:-1] & at_level[1:])
        if len(pairs) < _LEAST_PAIRS:
            return False
        # To the printed digits: two steps may be printed as a digit less than they are.
        steps = np.abs(self.watts[pairs + 1] - self.watts[pairs]) / self.step_w
        resolved = float(np.mean((steps >= 1.7) & self._restless()[pairs]))
        if resolved < _RESOLVED_SHARE:
            return False
        repeats = float(np.mean(self.same[pairs]))
        repeats = max(_MOST_REPEATS * (1.0 - resolved), repeats + 3.0 * math.sqrt(repeats / len(pairs)))
        if repeats >= 1.0 or self._was_quiet(first, last, 0.5 * (1.0 + repeats)):
            return False
        return math.log(len(self.watts)) + (last - first) * math.log(repeats) < math.log(_CHANCE)

    def _restless(self) -> npt.NDArray[np.bool_]:
        """Return the pairs that differ as others right before and behind do: noise goes on, while a board
        that begins or ends some work changes once. Right before: within the lines for which the meter repeats
        a value in a quarter of the cases, and half as many more."""
        found = np.zeros(len(self.same), np.bool_)
        at = np.flatnonzero(self.outside & ~self.same)
        apart = np.diff(at)
        if len(apart) > 1:
            near = apart <= int(1.5 * np.quantile(apart, 0.25))
            found[at[1:-1]] = near[:-1] & near[1:]
        return found

    def _was_quiet(self, first: int, last: int, share: float) -> bool:
        """Return whether more than a share of the lines right before the stretch, or right behind it, repeat
        each other: then the board fell quiet. Other suspect stretches count if they are a few steps away: a
        meter may freeze twice."""
        counts = self.outside | (np.abs(self.watts[:-1] - self.watts[first]) <= _QUIET_STEPS * self.step_w)
        for from_line, to_line in ((max(0, first - _NEAR_LINES), first), (last, last + _NEAR_LINES)):
            repeats = self.same[from_line:to_line][counts[from_line:to_line]]
            if len(repeats) and np.mean(repeats) > share:
                return True
        return False


@dataclass(frozen=True, slots=True)
class _Work:
    """Changes of the board's power, and how many of those outside the suspect stretches left no trace."""

    firsts: npt.NDArray[np.int64]  # the lines between which a change would show
    lasts: npt.NDArray[np.int64]
    unseen_share: float

    @classmethod
    def of(
        cls,
        ns: Stamps,
        same: npt.NDArray[np.bool_],
        suspects: Sequence[tuple[int, int]],
        changes_ns: Sequence[int],
        nominal_s: float,
    ) -> _Work:
        before_ns, after_ns = (round(count * nominal_s * 1e9) for count in (_BEFORE_PERIODS, _AFTER_PERIODS))
        apart: list[int] = []
        for change_ns in sorted(changes_ns):
            if not apart or change_ns - apart[-1] > before_ns + after_ns:
                apart.append(change_ns)
        at_ns = np.array(apart, dtype=np.int64)
        firsts = np.searchsorted(ns, at_ns - before_ns)
        lasts = np.searchsorted(ns, at_ns + after_ns, "right") - 1
        known = lasts > firsts
        firsts, lasts = firsts[known], lasts[known]
        inside = np.zeros(len(firsts), np.bool_)
        for first, last in suspects:
            inside |= (firsts >= first) & (lasts <= last)
        changed = np.concatenate(([0], np.cumsum(~same)))
        unseen = (changed[lasts] == changed[firsts])[~inside]
        share = (int(unseen.sum()) + 1) / (len(unseen) + 1) if len(unseen) >= _LEAST_CHANGES else 1.0
        return cls(firsts, lasts, share)

    def excludes(self, first: int, last: int) -> bool:
        """True where this many changes within the stretch, none of which shows, are beyond chance."""
        count = int(np.sum((self.firsts >= first) & (self.lasts <= last)))
        return count * math.log(self.unseen_share) < math.log(_CHANCE)
