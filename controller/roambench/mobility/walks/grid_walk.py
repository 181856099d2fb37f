"""Static and mobile clients on a grid of points, as the distribution-aware mobility papers' baselines.

Points are {1..G} x {1..G}; everybody starts at a uniform one (points may be shared). In every step each
mobile client goes to a point drawn uniformly from those at most R_m away, its own included. Static: no device
is mobile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.mobility.trace import Trace
from roambench.mobility.walks.generator import Generator
from roambench.mobility.walks.walkers import access_points, refuse, walked

Points = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GridWalkParameters:
    """The papers' default network: 18 x 18 points, 20 clients, 5 of them mobile, R_m = 5 grid units."""

    devices: int = 20
    mobile: int = 5  # the first `mobile` devices move; 0: static
    grid: int = 18  # G: points per side
    reach: float = 5.0  # R_m in grid units; 0 or less: no limit
    steps: int = 1000
    step_s: float = 1.0
    spacing_m: float = 1.0  # metres per grid unit
    aps: int = 1

    def __post_init__(self) -> None:
        problems = (
            () if 0 <= self.mobile <= self.devices else (f"mobile is {self.mobile}, expected 0 to devices",)
        )
        refuse(
            self,
            at_least_one=("devices", "steps", "grid", "aps"),
            positive=("step_s", "spacing_m"),
            problems=problems,
        )


def grid_walk(parameters: GridWalkParameters, seed: int) -> Trace:
    """Grid point (p, q) lies at ((p - 1) * spacing_m, (q - 1) * spacing_m) metres."""
    points = grid_positions(parameters, seed)
    side_m = max(1, parameters.grid - 1) * parameters.spacing_m
    x_m, y_m = np.moveaxis((points - 1) * parameters.spacing_m, 2, 0)
    return walked(
        "grid-walk", parameters, seed, x_m, y_m, access_points(parameters.aps, "grid", side_m, side_m, seed)
    )


def grid_positions(parameters: GridWalkParameters, seed: int) -> Points:
    """Grid coordinates from 1 to G, shape (steps, devices, 2)."""
    size, steps = parameters.grid, parameters.steps
    points = np.empty((steps, parameters.devices, 2), np.int64)
    points[0] = _uniform(generator(seed, "grid starts").random((parameters.devices, 2)), size)
    within = _offsets(parameters.reach if parameters.reach > 0 else math.inf, size)
    for step in range(1, steps):
        points[step] = points[step - 1]
        draws = generator(seed, "grid walk", step=step).random(parameters.mobile)
        if parameters.mobile:
            points[step, : parameters.mobile] = _next(
                points[step - 1, : parameters.mobile], within, draws, size
            )
    return points


def _next(points: Points, within: Points, draws: npt.NDArray[np.float64], size: int) -> Points:
    """One of each client's reachable points, by its draw: shape (clients, 2)."""
    candidates = points[:, None, :] + within
    inside = ((candidates >= 1) & (candidates <= size)).all(axis=2)
    total = inside.sum(axis=1)
    nth = np.minimum((draws * total).astype(np.int64), total - 1)
    chosen = np.argmax(np.cumsum(inside, axis=1) == (nth + 1)[:, None], axis=1)
    reached: Points = candidates[np.arange(len(points)), chosen]
    return reached


def _offsets(reach: float, size: int) -> Points:
    """All steps of at most `reach` (Euclidean, exactly `reach` included) that a grid of this size allows."""
    most = min(size - 1, math.floor(reach)) if math.isfinite(reach) else size - 1
    across = np.arange(-most, most + 1)
    dx, dy = (part.ravel() for part in np.meshgrid(across, across, indexing="ij"))
    kept = dx * dx + dy * dy <= reach * reach
    return np.stack((dx[kept], dy[kept]), axis=1)


def _uniform(draws: npt.NDArray[np.float64], size: int) -> Points:
    return 1 + np.minimum((draws * size).astype(np.int64), size - 1)


GRID_WALK: Final = Generator(
    "grid-walk",
    "static and randomly moving clients on a grid of points (distribution-aware mobility papers)",
    GridWalkParameters,
    grid_walk,
)
