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
#: A crystal is no worse than this; a steeper line was not drawn by one.
_WORST_DRIFT: Final = 500e-6
#: The envelope of each block is its earliest line: the hull need not see the others.
_BLOCK_LINES: Final = 32


def sample_stamps(ns: Stamps, meter_ms: npt.NDArray[np.int64]) -> Stamps:
    """Host time at which each line was printed, from arrivals and the meter's clock, shape (lines,) each.

    Lines arrive late by different delays and never early: the straight line under all arrivals is the
    meter's clock in host time (late by the smallest delay there was). A meter that restarted has a line of
    its own from then on. Lines without a meter clock, or too few for a line, keep their arrival.
    """
    stamps = ns.copy()
    known = np.flatnonzero(meter_ms != NO_METER_CLOCK)
    if not len(known):
        return stamps
    step = np.diff(meter_ms[known])
    # Forward across the wrap is a small step modulo 2^32; anything else backward is a restart.
    wrapped = (step < 0) & (step + _WRAP_MS < _WRAP_MS // 2)
    restarts = np.flatnonzero((step < 0) & ~wrapped) + 1
    ms = meter_ms[known] + _WRAP_MS * np.concatenate(([0], np.cumsum(wrapped)))
    for part in np.split(np.arange(len(known)), restarts):
        if len(part) >= MIN_LINES:
            stamps[known[part]] = _under(ns[known[part]], ms[part])
    return stamps


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
