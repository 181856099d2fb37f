"""Walking from waypoint to waypoint: legs of straight, even motion with a pause at the end of each.

A device's n-th leg takes its draws from the n-th generator of the purpose, in the row of its number: more
devices or steps change nobody's path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn

#: From leg number and that leg's draws, shape (devices, 4): the destinations in metres, shape (devices, 2).
Destinations = Callable[[int, FloatColumn], FloatColumn]


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed and pause of every leg are uniform between their bounds."""

    speed_min_m_s: float
    speed_max_m_s: float
    pause_min_s: float
    pause_max_s: float


def positions(
    start_m: FloatColumn,
    destinations: Destinations,
    pace: Pace,
    times_s: FloatColumn,
    seed: int,
    purpose: str,
) -> tuple[FloatColumn, FloatColumn]:
    """Where everybody is at `times_s` (ascending, from 0 on): x and y, each of shape (times, devices).

    `start_m`: (devices, 2) at second 0. Everybody sets off at once; leg after leg until the last of
    `times_s` has passed for all.
    """
    devices = len(start_m)
    x_m, y_m = np.empty((len(times_s), devices)), np.empty((len(times_s), devices))
    known = np.zeros(devices, np.int64)  # how many of `times_s` lie behind each device
    here_m, now_s = np.array(start_m, np.float64), np.zeros(devices)
    leg = 0
    while len(walking := np.flatnonzero(known < len(times_s))):
        draws = generator(seed, purpose, step=leg).random((devices, 6))
        target_m = destinations(leg, draws[:, :4])
        speed = pace.speed_min_m_s + draws[:, 4] * (pace.speed_max_m_s - pace.speed_min_m_s)
        pause_s = pace.pause_min_s + draws[:, 5] * (pace.pause_max_s - pace.pause_min_s)
        way_s = np.hypot(*(target_m - here_m).T) / speed
        until_s = now_s + way_s + pause_s
        ahead = np.searchsorted(times_s, until_s[walking], side="left")  # times before the next leg starts
        counts = np.maximum(ahead - known[walking], 0)
        who = np.repeat(walking, counts)
        which = (
            np.repeat(known[walking], counts)
            + np.arange(len(who))
            - np.repeat(np.cumsum(counts) - counts, counts)
        )
        share = np.divide(
            times_s[which] - now_s[who], way_s[who], out=np.ones(len(who)), where=way_s[who] > 0
        )
        at_m = here_m[who] + np.minimum(share, 1.0)[:, None] * (target_m - here_m)[who]
        x_m[which, who], y_m[which, who] = at_m[:, 0], at_m[:, 1]
        known[walking] += counts
        here_m, now_s = target_m, until_s
        leg += 1
    return x_m, y_m
