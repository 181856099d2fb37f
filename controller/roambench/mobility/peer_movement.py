"""Movement and contacts in decentralised learning: one object for every model of mobility."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.mobility.contacts import Neighbours, TraceReading, contacts_at, trace_contacts, walk_contacts
from roambench.mobility.distribution_aware import (
    CentreTies,
    Counts,
    Grid,
    Mover,
    dam_field,
    dcm_field,
    grid_points,
    move,
)
from roambench.mobility.trace import Trace
from roambench.mobility.walks.grid_walk import GridWalkParameters, grid_positions
from roambench.mobility.walks.reflected_walk import ReflectedWalkParameters, reflected_walk, speeds_m
from roambench.mobility.walks.walkers import access_points, walked

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: How clients of the grid papers move, by the name that an experiment gives.
GRID_MODELS: Final[tuple[str, ...]] = ("static", "random", "dam", "dcm")


@dataclass(frozen=True, slots=True, eq=False)
class PeerMovement:
    """`neighbours(step)` is over all devices, also those that are absent (they have none).

    `speeds`: of each device, in any one unit, for mixing by mobility. `high_mobility`: the devices
    with a separate accuracy. Both of shape (devices,).
    """

    trace: Trace
    neighbours: Callable[[int], Neighbours]
    speeds: Floats
    high_mobility: Flags


def grid_movement(
    model: str,
    parameters: GridWalkParameters,
    radius: float,
    class_counts: Counts | None,
    seed: int,
    ties: CentreTies = "random",
) -> PeerMovement:
    """Clients on {1..G}²: `static`, `random`, `dam` or `dcm`; neighbours within `radius` R_c grid units.

    The first `parameters.mobile` devices move, but with `static` none does. All models start everybody at
    the same points. `class_counts` of shape (devices, classes) are what DAM and DCM go by. A mover's speed
    is its R_m (without a limit the grid's diagonal), the others' is 0. ConfigError for another name.
    """
    if model not in GRID_MODELS:
        raise ConfigError([f"mobility model {model!r}: expected one of {', '.join(GRID_MODELS)}"])
    mobile = 0 if model == "static" else parameters.mobile
    if model in ("dam", "dcm"):
        if class_counts is None:
            raise ConfigError(
                [
                    f"mobility.model = {model!r}: it goes by classes, and labels are none: "
                    "expected another model, or a Dataset with train_groups"
                ]
            )
        points = aware_positions(model, parameters, radius, class_counts, seed, ties)
    else:
        points = grid_positions(replace(parameters, mobile=mobile), seed)
    side_m = max(1, parameters.grid - 1) * parameters.spacing_m
    x_m, y_m = np.moveaxis((points - 1) * parameters.spacing_m, 2, 0)
    stations = access_points(parameters.aps, "grid", side_m, side_m, seed)
    trace = walked(f"grid {model}", parameters, seed, x_m, y_m, stations)
    moves = np.arange(parameters.devices) < mobile
    furthest = parameters.reach if parameters.reach > 0 else (parameters.grid - 1) * np.sqrt(2.0)
    return PeerMovement(
        trace,
        lambda step: contacts_at(points[step].astype(np.float64), radius),
        np.where(moves, furthest, 0.0),
        moves,
    )


def aware_positions(
    model: str,
    parameters: GridWalkParameters,
    radius: float,
    class_counts: Counts,
    seed: int,
    ties: CentreTies,
) -> Grid:
    """Grid coordinates under DAM or DCM, shape (steps, devices, 2): exchange first, then move.

    Without a mobile device none needs a destination: as static.
    """
    starts = grid_positions(replace(parameters, mobile=0, steps=1), seed)[0]
    positions = np.repeat(starts[None], parameters.steps, axis=0)
    mobile = parameters.mobile
    if not mobile:
        return positions
    points = grid_points(parameters.grid)
    static, counts = starts[mobile:], class_counts[mobile:]
    field = (
        dam_field(points, static, counts, radius)
        if model == "dam"
        else dcm_field(points, static, counts, radius, seed, ties)
    )
    reach = parameters.reach if parameters.reach > 0 else np.inf
    first = ((starts[:mobile] - 1) @ np.array([parameters.grid, 1])).tolist()
    movers = [Mover(device, point, point) for device, point in enumerate(first)]
    for step in range(1, parameters.steps):
        movers = [move(field, mover, class_counts[mover.device], reach, seed, step) for mover in movers]
        positions[step, :mobile] = points[[mover.point for mover in movers]]
    return positions


def reflected_movement(parameters: ReflectedWalkParameters, radius_m: float, seed: int) -> PeerMovement:
    """De Heredia's walk and contacts: near enough at any moment of an iteration; at the first one alone."""
    trace = reflected_walk(parameters, seed)
    return PeerMovement(
        trace,
        lambda step: walk_contacts(trace, parameters, seed, step, radius_m),
        speeds_m(parameters, seed),
        np.arange(parameters.devices) < parameters.fast,
    )


def trace_movement(trace: Trace, radius_m: float, reading: TraceReading) -> PeerMovement:
    """A replayed trace. A device's speed is the mean way between two steps at both of which it is present;
    those faster than the median count as of high mobility (ours)."""
    speeds = mean_speeds_m(trace)
    return PeerMovement(
        trace,
        lambda step: trace_contacts(trace, step, radius_m, reading),
        speeds,
        speeds > np.median(speeds),
    )


def mean_speeds_m(trace: Trace) -> Floats:
    """Metres per step of each device, shape (devices,); 0 for one that is never there twice in a row."""
    ways, times = np.zeros(len(trace.device_names)), np.zeros(len(trace.device_names))
    for step in range(1, trace.steps):
        before, now = trace.rows(step - 1), trace.rows(step)
        both, then_row, now_row = np.intersect1d(
            trace.device[before], trace.device[now], assume_unique=True, return_indices=True
        )
        dx_m = trace.x_m[now][now_row] - trace.x_m[before][then_row]
        dy_m = trace.y_m[now][now_row] - trace.y_m[before][then_row]
        ways[both] += np.hypot(dx_m, dy_m)
        times[both] += 1.0
    speeds: Floats = np.divide(ways, times, out=np.zeros_like(ways), where=times > 0.0)
    return speeds
