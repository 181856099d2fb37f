"""Strolls: people who walk from waypoint to waypoint in a square box; every model chooses the waypoints."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from roambench.mobility.trace import FloatColumn, Trace
from roambench.mobility.walks.legs import Destinations, Pace, positions
from roambench.mobility.walks.walkers import (
    access_points,
    presence_of,
    presence_problems,
    refuse,
    walked,
)


class StrollParameters(Protocol):
    """The parameters that every such model has."""

    @property
    def devices(self) -> int:
        """How many devices there are."""
        ...

    @property
    def steps(self) -> int:
        """How many steps the trace has."""
        ...

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        ...

    @property
    def aps(self) -> int:
        """How many access points there are."""
        ...

    @property
    def ap_layout(self) -> Literal["grid", "random"]:
        """How access points are laid out."""
        ...

    @property
    def box_m(self) -> float:
        """The side of the square in metres."""
        ...

    @property
    def speed_min_m_s(self) -> float:
        """The lowest speed of a walk, in m/s."""
        ...

    @property
    def speed_max_m_s(self) -> float:
        """The highest speed of a walk, in m/s."""
        ...

    @property
    def pause_min_s(self) -> float:
        """The shortest pause between walks, in seconds."""
        ...

    @property
    def pause_max_s(self) -> float:
        """The longest pause between walks, in seconds."""
        ...

    @property
    def warm_up_s(self) -> float:
        """Seconds of walking before the first step."""
        ...

    @property
    def presence(self) -> float:
        """The share of time that a device is present."""
        ...

    @property
    def stay_steps(self) -> float:
        """The mean length of a stay, in steps."""
        ...


def refuse_stroll(
    parameters: StrollParameters, *, at_least_one: tuple[str, ...] = (), shares: tuple[str, ...] = ()
) -> None:
    """Raise one ConfigError with everything wrong with the parameters; a model names those of its own."""
    refuse(
        parameters,
        at_least_one=("devices", "steps", "aps", *at_least_one),
        positive=("step_s", "box_m", "speed_min_m_s", "speed_max_m_s"),
        not_negative=("pause_min_s", "pause_max_s", "warm_up_s"),
        shares=shares,
        problems=(
            *presence_problems(parameters.presence, parameters.stay_steps),
            *_bound_problems(parameters, "speed", "m_s"),
            *_bound_problems(parameters, "pause", "s"),
        ),
    )


def strolled(
    name: str,
    purpose: str,
    parameters: StrollParameters,
    seed: int,
    start_m: FloatColumn,
    choose: Destinations,
) -> Trace:
    """Positions when each step begins, of devices that set out from `start_m`, shape (devices, 2), so long
    before step 0 as they warm up. `choose` gives the destinations; `purpose` keys the draws of the legs.
    """
    pace = Pace(
        parameters.speed_min_m_s, parameters.speed_max_m_s, parameters.pause_min_s, parameters.pause_max_s
    )
    times_s = np.asarray(parameters.warm_up_s + parameters.step_s * np.arange(parameters.steps), np.float64)
    x_m, y_m = positions(start_m, choose, pace, times_s, seed, purpose)
    side = parameters.box_m
    points = access_points(parameters.aps, parameters.ap_layout, side, side, seed)
    return walked(name, parameters, seed, x_m, y_m, points, there=presence_of(parameters, seed))


def _bound_problems(parameters: StrollParameters, what: str, unit: str) -> tuple[str, ...]:
    low, high = (getattr(parameters, f"{what}_{end}_{unit}") for end in ("min", "max"))
    return () if low <= high else (f"{what}_min_{unit} {low:g} is more than {what}_max_{unit} {high:g}",)
