"""A meter's period in the arrivals of its lines, which come late and never early."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

#: Half of the lines of a regular meter come within this share of its period, none earlier than `EARLY`.
REGULAR: Final = 0.08
EARLY: Final = 0.3
#: Lines that are needed, and no more of them at once: a period drifts.
_LEAST_LINES: Final = 10
_NEAR_LINES: Final = 32
#: A meter's clock and the estimate of its period differ by no more than this.
CREEP: Final = 0.003


def steps_of(at_s: Floats, period_s: float, longest_s: float) -> Floats:
    """Seconds that a meter measured from each line to the next, shape (readings - 1,).

    Lines of a meter that prints regularly are its period apart, however late they arrive while the board
    works, or several where some are lost; lines of another are the time apart that really passed, and so are
    all those across a gap longer than `longest_s`.
    """
    steps_s = np.diff(at_s)
    if not keeps_time(at_s, period_s):
        return steps_s
    periods, near = periods_between(at_s, period_s), steps_s <= longest_s
    return np.where(near, periods * (steps_s[near].sum() / max(1, periods[near].sum())), steps_s)


def is_regular(steps_s: Floats, period_s: float) -> bool:
    """Return whether a meter with such times between its lines prints in a period."""
    return len(steps_s) > 0 and float(np.median(np.abs(steps_s - period_s))) < REGULAR * period_s


def keeps_time(at_s: Floats, period_s: float) -> bool:
    """Return whether lines of a regular meter come when its period says, but for some that are late, so that
    the times between them say nothing of what it measured."""
    if len(at_s) < _LEAST_LINES or not is_regular(np.diff(at_s), period_s):
        return False
    due_s = period_s * np.concatenate(([0.0], np.cumsum(periods_between(at_s, period_s))))
    lines = min(len(at_s), _NEAR_LINES)
    late_s = (at_s - due_s)[: len(at_s) // lines * lines].reshape(-1, lines)
    late_s -= np.median(late_s, axis=1, keepdims=True)
    return bool(np.median(np.abs(late_s)) < REGULAR * period_s)


def periods_between(at_s: Floats, period_s: float) -> Indices:
    """Periods of a regular meter from each line to the next, shape (readings - 1,): more than 1 where lines
    are lost. Lines come late and never early, so one that came late does not count as a loss before it."""
    counts: list[int] = []
    due_s = float(at_s[0])
    for arrival_s in at_s[1:].tolist():
        passed = (arrival_s - due_s) / period_s
        count = math.floor(passed + EARLY)
        if count < 1:
            if counts and counts[-1] > 1:  # the line before was late by a period, not after a lost one
                counts[-1] -= 1
            else:
                due_s = arrival_s
            count = 1
        else:
            due_s += count * period_s
            due_s += min(arrival_s - due_s, count * CREEP * period_s)
        counts.append(count)
    return np.array(counts, dtype=np.int64)
