"""The continuous random walk of de Heredia (2024, §5.1), rebounding from the walls of a box.

Per iteration each device draws one of four directions with equal chance and moves that way at its own
constant speed. At a wall its velocity turns round at the very moment of the hit, so where it ends is the
mirrored way, exactly. `headings` and `speeds_m` tell the motion within a step to who must know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn, Trace
from roambench.mobility.walks.generator import Generator
from roambench.mobility.walks.walkers import access_points, refuse, walked

#: East, west, north, south.
DIRECTIONS: Final = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


@dataclass(frozen=True, slots=True)
class ReflectedWalkParameters:
    """48 devices as in the paper; box, speeds and beta are not given there."""

    devices: int = 48
    fast_share: float = 0.2  # p: the first round(p * devices) devices are of high mobility
    width_m: float = 500.0
    height_m: float = 500.0
    speed_max_m: float = 10.0  # s_max, metres per step: low mobility is U(0, s_max)
    beta: float = 4.0  # high mobility is U(beta * s_max, 2 * beta * s_max)
    steps: int = 1000
    step_s: float = 1.0
    aps: int = 1

    def __post_init__(self) -> None:
        refuse(
            self,
            at_least_one=("devices", "steps", "aps"),
            positive=("width_m", "height_m", "step_s", "speed_max_m", "beta"),
            shares=("fast_share",),
        )

    @property
    def fast(self) -> int:
        """The number of devices of high mobility."""
        return round(self.fast_share * self.devices)


def reflected_walk(parameters: ReflectedWalkParameters, seed: int) -> Trace:
    """Positions after each iteration; step 0 is the start, uniform in the box."""
    sides = np.array([parameters.width_m, parameters.height_m])
    at_m = np.empty((parameters.steps, parameters.devices, 2))
    at_m[0] = sides * generator(seed, "reflected starts").random((parameters.devices, 2))
    speeds = speeds_m(parameters, seed)[:, None]
    for step in range(1, parameters.steps):
        at_m[step] = folded(at_m[step - 1] + speeds * headings(parameters.devices, seed, step), sides)
    x_m, y_m = np.moveaxis(at_m, 2, 0)
    points = access_points(parameters.aps, "grid", parameters.width_m, parameters.height_m, seed)
    return walked("reflected-walk", parameters, seed, x_m, y_m, points)


def speeds_m(parameters: ReflectedWalkParameters, seed: int) -> FloatColumn:
    """Every device's speed in metres per step, shape (devices,); the fast ones come first."""
    draws = generator(seed, "reflected speeds").random(parameters.devices)
    low, fast = parameters.speed_max_m, parameters.beta * parameters.speed_max_m
    return np.where(np.arange(parameters.devices) < parameters.fast, fast * (1.0 + draws), low * draws)


def headings(devices: int, seed: int, step: int) -> FloatColumn:
    """The unit vectors along which everybody sets off from step - 1 to `step`, shape (devices, 2)."""
    draws = generator(seed, "reflected directions", step=step).random(devices)
    return DIRECTIONS[np.minimum((4.0 * draws).astype(np.int64), 3)]


def folded(way_m: FloatColumn, sides_m: FloatColumn) -> FloatColumn:
    """The end of a straight way that ignores the walls, when it rebounds from them, however often.

    Both axes on their own: coordinates are mirrored into 0 .. side (period 2 * side).
    """
    wrapped = np.mod(way_m, 2.0 * sides_m)
    return np.minimum(wrapped, 2.0 * sides_m - wrapped)


REFLECTED_WALK: Final = Generator(
    "reflected-walk",
    "continuous random walk in a box, slow and fast devices, exact reflection (de Heredia 2024)",
    ReflectedWalkParameters,
    reflected_walk,
)
