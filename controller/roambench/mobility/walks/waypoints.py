"""People who walk from waypoint to waypoint in a square box; every model chooses the waypoints.

Legs are of straight, even motion with a pause at the end of each; speed and pause are uniform between their
bounds. A device's n-th leg takes its draws from the n-th generator of the purpose, in the row of its number:
more devices or steps change no device's path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn, Trace
from roambench.mobility.walks.walkers import (
    access_points,
    presence_of,
    presence_problems,
    refuse,
    walked,
)

#: From leg number and that leg's draws, shape (devices, 4): the destinations in metres, shape (devices, 2).
Destinations = Callable[[int, FloatColumn], FloatColumn]


@dataclass(frozen=True, slots=True)
class WaypointParameters:
    """Pedestrians in 2 km x 2 km. The least speed must be above 0, else the mean speed decays for ever
    (Yoon, Liu and Noble 2003); `warm_up_s` lets the start's spread pass before step 0.
    """

    devices: int = 100
    steps: int = 744
    step_s: float = 60.0
    aps: int = 25
    ap_layout: Literal["grid", "random"] = "grid"
    box_m: float = 2000.0
    speed_min_m_s: float = 0.5
    speed_max_m_s: float = 1.5
    pause_min_s: float = 0.0
    pause_max_s: float = 120.0
    warm_up_s: float = 7200.0
    presence: float = 1.0  # share of the steps in which a device is there (it walks on meanwhile)
    stay_steps: float = 10.0  # mean length of a stay, in steps, where presence is below 1

    def __post_init__(self) -> None:
        self.check()

    def check(self, *, at_least_one: tuple[str, ...] = (), shares: tuple[str, ...] = ()) -> None:
        """Raise one ConfigError with everything wrong with the parameters; a model names its own."""
        refuse(
            self,
            at_least_one=("devices", "steps", "aps", *at_least_one),
            positive=("step_s", "box_m", "speed_min_m_s", "speed_max_m_s"),
            not_negative=("pause_min_s", "pause_max_s", "warm_up_s"),
            shares=shares,
            problems=(
                *presence_problems(self.presence, self.stay_steps),
                *self._bound_problems("speed", "m_s"),
                *self._bound_problems("pause", "s"),
            ),
        )

    def _bound_problems(self, what: str, unit: str) -> tuple[str, ...]:
        low, high = (getattr(self, f"{what}_{end}_{unit}") for end in ("min", "max"))
        return () if low <= high else (f"{what}_min_{unit} {low:g} is more than {what}_max_{unit} {high:g}",)


def walked_by_waypoints(
    name: str,
    purpose: str,
    parameters: WaypointParameters,
    seed: int,
    start_m: FloatColumn,
    choose: Destinations,
) -> Trace:
    """Positions when each step begins, of devices that set out from `start_m`, shape (devices, 2), that long
    before step 0 as they warm up. `choose` gives the destinations; `purpose` keys the draws of the legs.
    """
    times_s = np.asarray(parameters.warm_up_s + parameters.step_s * np.arange(parameters.steps), np.float64)
    x_m, y_m = positions(start_m, choose, parameters, times_s, seed, purpose)
    side = parameters.box_m
    points = access_points(parameters.aps, parameters.ap_layout, side, side, seed)
    return walked(name, parameters, seed, x_m, y_m, points, there=presence_of(parameters, seed))


def positions(
    start_m: FloatColumn,
    destinations: Destinations,
    parameters: WaypointParameters,
    times_s: FloatColumn,
    seed: int,
    purpose: str,
) -> tuple[FloatColumn, FloatColumn]:
    """Positions of all devices at `times_s` (ascending, from 0 on): x and y, each of shape (times, devices).

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
        speed = _between(parameters.speed_min_m_s, parameters.speed_max_m_s, draws[:, 4])
        pause_s = _between(parameters.pause_min_s, parameters.pause_max_s, draws[:, 5])
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


def _between(low: float, high: float, draws: FloatColumn) -> FloatColumn:
    return low + draws * (high - low)
