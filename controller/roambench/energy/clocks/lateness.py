"""How late a meter's lines arrive against the phase stamps, found from the readings themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from roambench.energy.readings.occupancy import Columns, Floats, MeterWindow, occupancy

#: Tried when lateness is fitted: from a clock 0.1 s ahead to lines 0.4 s late; the first of them always.
_LATENESS_S: Final = tuple(0.05 * k for k in range(-2, 9))
_FIRST: Final = 5
#: How late lines may be (k = 1) when an emulation runs some times faster than real time, and on a board: the
#: USB buffer, an agent whose processor is busy with the training.
LATENESS_PRIOR_S: Final = 0.1
BOARD_LATENESS_S: Final = 0.03
#: The ages of real windows are not quite uniform: this scatter stays however long the run (virtual time).
_LATENESS_FLOOR_S: Final = 0.013
#: Arrivals are blurred by this while lateness is fitted: the ends of a window are kinks, at which single
#: readings would decide.
LATENESS_BLUR_S: Final = 0.03
#: So many readings near borders place the lines to a few milliseconds; more only cost time.
LATENESS_READINGS: Final = 2000


def informative(
    at_s: Floats, starts_s: Floats, ends_s: Floats, level_of_span: Columns, window: MeterWindow
) -> Columns:
    """Indices of the first readings that can tell their lateness, at most `LATENESS_READINGS`.

    They lie within a second after a change of level (or up to 0.5 s before it), and whatever lateness is
    tried they look at fitted spans only: else a lateness would win by the readings that it leaves out.
    """
    borders = starts_s[1:][np.diff(level_of_span) != 0]
    if not len(borders) or not len(at_s):
        return np.empty(0, dtype=np.int64)
    last = np.searchsorted(borders, at_s + 0.5, "right") - 1
    near = np.flatnonzero((last >= 0) & (at_s - borders[np.maximum(last, 0)] <= 1.0))
    earliest_s, latest_s = 2.0 * _LATENESS_S[0], _LATENESS_S[-1] - _LATENESS_S[0]
    reach = MeterWindow(window.support_s + latest_s - earliest_s, 0.0)
    fitted = level_of_span >= 0
    seen = occupancy(at_s[near] - earliest_s, starts_s[fitted], ends_s[fitted], reach).sum(axis=1)
    return near[np.asarray(seen).ravel() > 1.0 - 1e-9][:LATENESS_READINGS]


def lateness_prior_s(time_scale: float) -> float:
    """How late lines may be (k = 1) where device time runs `time_scale` times faster than the machines'."""
    return min(LATENESS_PRIOR_S, BOARD_LATENESS_S * max(1.0, time_scale))


def likeliest_lateness(
    surprise: Callable[[float], float], *, prior_s: float = LATENESS_PRIOR_S, u_clock_s: float = 0.0
) -> tuple[float, float]:
    """The lateness that the readings make likely and its standard uncertainty: mean and deviation of the
    posterior, over a scan that is refined about its best.

    `surprise` is -2 log likelihood. A normal prior of 0 +- `prior_s`, widened by the clocks' `u_clock_s`,
    keeps a run that has few edges where the window model says.
    """
    width_s = math.hypot(prior_s, u_clock_s)

    def cost(late_s: float) -> float:
        return surprise(late_s) + (late_s / width_s) ** 2

    # Later ones only as long as the latest of those tried, or the one before it, is the likeliest.
    costs = {late_s: cost(late_s) for late_s in _LATENESS_S[:_FIRST]}
    for late_s in _LATENESS_S[_FIRST:]:
        if min(costs, key=costs.__getitem__) < sorted(costs)[-2]:
            break
        costs[late_s] = cost(late_s)
    step = _LATENESS_S[1] - _LATENESS_S[0]
    for _ in range(2):
        step *= 0.5
        best = min(costs, key=costs.__getitem__)
        costs |= {late_s: cost(late_s) for late_s in (best - step, best + step)}
    tried = np.array(sorted(costs))
    least = min(costs.values())
    density = np.exp([-0.5 * (costs[late_s] - least) for late_s in tried.tolist()])
    weight = density * np.gradient(tried)
    weight /= weight.sum()
    mean = float(weight @ tried)
    sd = math.sqrt(float(weight @ np.square(tried - mean)))
    return mean, math.hypot(sd, _LATENESS_FLOOR_S)
