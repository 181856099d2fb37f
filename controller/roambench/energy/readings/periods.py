"""A meter's period in the arrivals of its lines, which come late and never early."""

from __future__ import annotations

import math
from typing import Final, Literal

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
#: Lines that are looked at together, from and to; and one by one, where one came unexpectedly (more and
#: more, where many do).
_FEW_LINES: Final = 256
_MOST_LINES: Final = 1 << 16
_ALONE: Final = 8


def steps_of(at_s: Floats, period_s: float, longest_s: float) -> Floats:
    """Seconds that a meter measured from each line to the next, shape (readings - 1,).

    Lines of a meter that prints regularly are its period apart, however late they arrive while the board
    works, or several where some are lost; lines of another are the time apart that really passed, and so are
    all those across a gap longer than `longest_s`.
    """
    steps_s = np.diff(at_s)
    periods = _periods_of(at_s, period_s)
    if periods is None:
        return steps_s
    near = steps_s <= longest_s
    return np.where(near, periods * (steps_s[near].sum() / max(1, periods[near].sum())), steps_s)


def is_regular(steps_s: Floats, period_s: float) -> bool:
    """Return whether a meter with such times between its lines prints in a period."""
    return len(steps_s) > 0 and _median_below(np.abs(steps_s - period_s), REGULAR * period_s)


def _periods_of(at_s: Floats, period_s: float) -> Indices | None:
    """The periods between lines that keep time; None where they do not."""
    if len(at_s) < _LEAST_LINES or not is_regular(np.diff(at_s), period_s):
        return None
    periods = periods_between(at_s, period_s)
    due_s = period_s * np.concatenate(([0.0], np.cumsum(periods)))
    lines = min(len(at_s), _NEAR_LINES)
    late_s = (at_s - due_s)[: len(at_s) // lines * lines].reshape(-1, lines)
    late_s -= np.sort(late_s, axis=1)[:, (lines - 1) // 2 : lines // 2 + 1].mean(axis=1, keepdims=True)
    return periods if _median_below(np.abs(late_s), REGULAR * period_s) else None


def _median_below(values: Floats, limit: float) -> bool:
    below = 2 * int(np.count_nonzero(values < limit)) - values.size
    return below > 1 or (below >= 0 and float(np.median(values)) < limit)


def places(knots_s: Floats, at_s: Floats, side: Literal["left", "right"] = "left") -> Indices:
    """The same as `np.searchsorted(knots_s, at_s, side)` where both ascend; sooner for few knots."""
    borders = np.searchsorted(at_s, knots_s, "left" if side == "right" else "right")
    return np.repeat(np.arange(len(knots_s) + 1), np.diff(borders, prepend=0, append=len(at_s)))


def nearby(at_s: Floats, reach_s: float) -> tuple[Indices, Indices]:
    """The first of `at_s`, which ascend, that is no more than `reach_s` before each, and the one behind the
    last that is no more behind it."""
    return _first_from(at_s, at_s - reach_s), len(at_s) - _first_from(-at_s[::-1], -at_s[::-1] - reach_s)[
        ::-1
    ]


def _first_from(at_s: Floats, from_s: Floats) -> Indices:
    """The same as `np.searchsorted(at_s, from_s)`: most are as many places back as the one in the middle."""
    found = np.full(len(at_s), -1, np.int64)
    middle = len(at_s) // 2
    usual = middle - int(np.searchsorted(at_s, from_s[middle]))
    for back in (usual - 1, usual, usual + 1):
        if 0 <= back < len(at_s) - 1:
            here = slice(back + 1, None)
            is_it = (at_s[: -1 - back] < from_s[here]) & (from_s[here] <= at_s[1 : len(at_s) - back])
            np.copyto(found[here], np.arange(1, len(at_s) - back), where=is_it)
    left = np.flatnonzero(found < 0)
    found[left] = np.searchsorted(at_s, from_s[left])
    return found


def periods_between(at_s: Floats, period_s: float) -> Indices:
    """Periods of a regular meter from each line to the next, shape (readings - 1,): more than 1 where lines
    are lost. Lines come late and never early, so one that came late does not count as a loss before it."""
    counts = np.ones(max(len(at_s) - 1, 0), np.int64)
    if not len(counts):
        return counts
    due_s, at, many, alone = float(at_s[0]), 0, _FEW_LINES, _ALONE
    while at < len(counts):
        # Many at once, as if each line followed one that was in time, as far as that then holds.
        ahead = at_s[at + 1 : at + 1 + many]
        guess = np.maximum(np.floor(np.diff(at_s[at : at + 1 + many]) / period_s + EARLY), 1.0)
        crept_s = np.cumsum(guess) * period_s * (1.0 + CREEP)
        dues_s = np.minimum(np.minimum.accumulate(ahead - crept_s), due_s) + crept_s
        before_s = np.append(due_s, dues_s[:-1])
        wrong = np.flatnonzero(np.floor((ahead - before_s) / period_s + EARLY) != guess)
        right = int(wrong[0]) if len(wrong) else len(ahead)
        counts[at : at + right] = guess[:right]
        due_s, at = float(dues_s[right - 1]) if right else due_s, at + right
        many = min(2 * many, _MOST_LINES) if right == len(ahead) else _FEW_LINES
        alone = _ALONE if right > _FEW_LINES // 4 else min(2 * alone, _MOST_LINES)
        end = min(at + alone, len(counts)) if len(wrong) else at
        for place in range(at, end):
            arrival_s = float(at_s[place + 1])
            count = math.floor((arrival_s - due_s) / period_s + EARLY)
            if count < 1:
                if place and counts[place - 1] > 1:  # the line before was late, not after a lost one
                    counts[place - 1] -= 1
                else:
                    due_s = arrival_s
                continue
            counts[place] = count
            due_s += count * period_s
            due_s += min(arrival_s - due_s, count * CREEP * period_s)
        at = end
    return counts
