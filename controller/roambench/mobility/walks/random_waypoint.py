"""Random waypoint (Johnson and Maltz 1996): to a uniform point at a uniform speed, pause, again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn, Trace
from roambench.mobility.walks.generator import Generator
from roambench.mobility.walks.strolls import refuse_stroll, strolled


@dataclass(frozen=True, slots=True)
class RandomWaypointParameters:
    """Pedestrians in 2 km x 2 km. The least speed must be above 0, else the mean speed decays for ever
    (Yoon, Liu and Noble 2003); `warm_up_s` lets the start's uniform spread pass before step 0.
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
        refuse_stroll(self)


def random_waypoint(parameters: RandomWaypointParameters, seed: int) -> Trace:
    """Positions when each step begins. Everybody starts at a uniform point `warm_up_s` before step 0."""
    side = parameters.box_m
    start_m = side * generator(seed, "waypoint starts").random((parameters.devices, 2))

    def anywhere(leg: int, draws: FloatColumn) -> FloatColumn:
        return side * draws[:, :2]

    return strolled("random-waypoint", "waypoint legs", parameters, seed, start_m, anywhere)


RANDOM_WAYPOINT: Final = Generator(
    "random-waypoint",
    "random waypoint: walk to a uniform point, pause, walk on",
    RandomWaypointParameters,
    random_waypoint,
)
