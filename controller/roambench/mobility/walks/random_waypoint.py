"""Random waypoint (Johnson and Maltz 1996): to a uniform point at a uniform speed, pause, again."""

from __future__ import annotations

from typing import Final

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn, Trace
from roambench.mobility.walks.generator import Generator
from roambench.mobility.walks.waypoints import WaypointParameters, walked_by_waypoints


def random_waypoint(parameters: WaypointParameters, seed: int) -> Trace:
    """Positions when each step begins. Everybody starts at a uniform point `warm_up_s` before step 0."""
    side = parameters.box_m
    start_m = side * generator(seed, "waypoint starts").random((parameters.devices, 2))

    def anywhere(leg: int, draws: FloatColumn) -> FloatColumn:
        return side * draws[:, :2]

    return walked_by_waypoints("random-waypoint", "waypoint legs", parameters, seed, start_m, anywhere)


RANDOM_WAYPOINT: Final = Generator(
    "random-waypoint",
    "random waypoint: walk to a uniform point, pause, walk on",
    WaypointParameters,
    random_waypoint,
)
