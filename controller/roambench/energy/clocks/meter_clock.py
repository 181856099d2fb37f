"""The times at which a meter with its own clock took its samples: its milliseconds in the host's time (rule
R1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.records import NO_METER_CLOCK
from roambench.energy.readings.samples import Stamps

#: The meter's counter of milliseconds has 32 bits: it wraps after 49.7 days.
_WRAP_MS: Final = 2**32
#: Fewer lines than this between two restarts of the meter keep their arrival.
MIN_LINES: Final = 20
#: A line may come so much later than the one before it than the meter says, or sooner, without a restart, s.
LATENCY_S: Final = 2.0
#: A crystal is no worse than this; a steeper line was not drawn by one.
_WORST_DRIFT: Final = 500e-6
#: The envelope of each block is its earliest line: the hull need not see the others.
_BLOCK_LINES: Final = 32


def sample_stamps(ns: Stamps, meter_ms: npt.NDArray[np.int64]) -> Stamps:
    """Host time at which each line was printed, from arrivals and the meter's clock, shape (lines,) each.

    Lines arrive late by different delays and never early: the straight line under all arrivals is the
    meter's clock in host time (late by the smallest delay there was). Where the count leaves the host's time
    by more than a crystal and the way of a line explain, either way, the meter restarted: it has a line of
    its own from then on. A single false count that leaps, lines without a meter clock, or too few for a line,
    keep their arrival.
    """
    stamps = ns.copy()
    known = np.flatnonzero(meter_ms != NO_METER_CLOCK)
    known = known[~_lone(ns[known], meter_ms[known])]
    off = _leaps(ns[known], meter_ms[known])
    if not len(known):
        return stamps
    ms = meter_ms[known[0]] + np.concatenate(([0], np.cumsum(_steps_ms(meter_ms[known]))))
    for part in np.split(np.arange(len(known)), np.flatnonzero(off) + 1):
        if len(part) >= MIN_LINES:
            stamps[known[part]] = _under(ns[known[part]], ms[part])
    return stamps


def _lone(ns: Stamps, meter_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which counts are false, shape (lines,): those beside a leap without which there is none."""
    lone = np.zeros(len(ns), np.bool_)
    if len(ns) > 2:
        off, over = _leaps(ns, meter_ms), _leaps(ns, meter_ms, 2)
        lone[1:-1] = off[1:] & ~over  # a count that is a little too high leaps back alone
        lone[1:-1] |= off[:-1] & ~over & ~lone[:-2]
    return lone


def _steps_ms(meter_ms: npt.NDArray[np.int64], by: int = 1) -> npt.NDArray[np.int64]:
    """From each count to the one `by` lines behind it, the shorter way around the counter."""
    return (meter_ms[by:] - meter_ms[:-by] + _WRAP_MS // 2) % _WRAP_MS - _WRAP_MS // 2


def _leaps(ns: Stamps, meter_ms: npt.NDArray[np.int64], by: int = 1) -> npt.NDArray[np.bool_]:
    """Return from which lines to those `by` behind them a count goes back or leaves the host's time, shape
    (lines - by,)."""
    steps_ms, passed_s = _steps_ms(meter_ms, by), (ns[by:] - ns[:-by]) * 1e-9
    allowed_s = LATENCY_S + _WORST_DRIFT * np.abs(passed_s)
    return np.asarray((steps_ms < 0) | (np.abs(passed_s - steps_ms * 1e-3) > allowed_s))


def _under(ns: Stamps, ms: npt.NDArray[np.int64]) -> Stamps:
    """The line under all (meter time, delay): the side of their lower hull below the middle of the run."""
    at_s = (ms - ms[0]) * 1e-3
    delay_s = (ns - ns[0]) * 1e-9 - at_s
    first = np.arange(0, len(at_s), _BLOCK_LINES)
    hull: list[tuple[float, float]] = []
    for begin in first.tolist():
        block = slice(begin, begin + _BLOCK_LINES)
        k = begin + int(np.argmin(delay_s[block]))
        point = (float(at_s[k]), float(delay_s[k]))
        while len(hull) >= 2 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    middle_s = float(at_s.mean())
    slope, through = 0.0, min(hull, key=lambda point: point[1])
    for left, right in pairwise(hull):
        if left[0] <= middle_s <= right[0]:
            slope, through = (right[1] - left[1]) / (right[0] - left[0]), left
    if abs(slope) > _WORST_DRIFT:
        slope, through = 0.0, min(hull, key=lambda point: point[1])
    due_s = at_s + through[1] + slope * (at_s - through[0])
    # A line is not printed after it has arrived.
    return np.asarray(np.minimum(ns[0] + np.rint(due_s * 1e9).astype(np.int64), ns), dtype=np.int64)


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Return whether b lies on or above the straight line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0.0
