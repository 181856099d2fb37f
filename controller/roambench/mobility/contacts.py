"""Contacts between devices: neighbours by distance, at a moment or at any moment of a step.

A neighbour matrix is a `scipy.sparse.csr_array` of bool, shape (devices, devices), symmetric, its indices
ascending in every row; only neighbours are stored and no device is its own neighbour (the rules of
`roambench.aggregation.mixing` add oneself). Distances are compared as sqrt(dx² + dy²) <= R, so R = 3 or
R = sqrt(13) on a grid of whole numbers holds what is exactly that far away.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.errors import TraceError
from roambench.mobility.contacts_motion import Motion, Points, closest_m, reflected_path, straight_path
from roambench.mobility.trace import Trace
from roambench.mobility.walks.reflected_walk import ReflectedWalkParameters, headings, speeds_m

__all__ = [
    "Motion",
    "Neighbours",
    "alone",
    "contacts_at",
    "contacts_during",
    "everybody",
    "neighbours_of",
    "reflected_path",
    "straight_path",
    "trace_contacts",
    "walk_contacts",
    "walk_motion",
]

Neighbours: TypeAlias = "scipy.sparse.csr_array"
TraceReading = Literal["at_step", "any_moment"]

#: Candidates are searched a little wider than exact arithmetic needs, so that rounding loses none.
_WIDER: Final = 1.0 + 1e-9

_Pairs = npt.NDArray[np.intp]  # (pairs, 2), the smaller device first


def contacts_at(points_m: Points, radius_m: float) -> Neighbours:
    """Neighbours at one moment: at most `radius_m` apart (the grid papers' R_c; inf: everybody).

    `points_m`: shape (devices, 2). Raises ValueError for a negative radius.
    """
    points = np.asarray(points_m, np.float64).reshape(-1, 2)
    _check_radius(radius_m)
    if np.isinf(radius_m):
        return everybody(len(points))
    pairs = _near(points, radius_m)
    apart_m = points[pairs[:, 1]] - points[pairs[:, 0]]
    distances_m = np.sqrt(apart_m[:, 0] * apart_m[:, 0] + apart_m[:, 1] * apart_m[:, 1])
    return _symmetric(pairs[distances_m <= radius_m], len(points))


def contacts_during(motion: Motion, radius_m: float) -> Neighbours:
    """Neighbours at iteration k of de Heredia §5.1: at most `radius_m` apart at *any* moment of the motion
    from k-1 to k, reflections included; at k = 0 no device has moved and everybody is `alone`.

    Exact up to float64 rounding; nothing is sampled. A search tree of the paths' middles names the pairs
    that could meet, those are then solved. Memory grows with these pairs: all of them if the radius and the
    ways are as long as the world. Raises ValueError for a negative radius.
    """
    _check_radius(radius_m)
    devices = len(motion.pieces)
    if np.isinf(radius_m):
        return everybody(devices)
    low_m, high_m = motion.extent_m()
    size_m = high_m - low_m
    reach_m = np.hypot(size_m[:, 0], size_m[:, 1]) / 2.0  # from the middle of a path's rectangle to anywhere
    pairs = _near((low_m + high_m) / 2.0, radius_m + 2.0 * float(reach_m.max(initial=0.0)))
    one, other = pairs[:, 0], pairs[:, 1]
    gap_m = np.maximum(np.maximum(low_m[other] - high_m[one], low_m[one] - high_m[other]), 0.0)
    pairs = pairs[np.hypot(gap_m[:, 0], gap_m[:, 1]) <= radius_m * _WIDER]
    return _symmetric(pairs[closest_m(motion, pairs[:, 0], pairs[:, 1]) <= radius_m], devices)


def trace_contacts(trace: Trace, step: int, radius_m: float, reading: TraceReading = "at_step") -> Neighbours:
    """Neighbours during one step of a trace, shape (trace devices, trace devices); the absent have none.

    "at_step": a fix stands for its whole step, so both are present and their fixes at most `radius_m` apart.
    "any_moment": besides, a device that was present at step - 1 too came from there straight and evenly, and
    two such devices are neighbours if they were near enough on the way. Raises TraceError for a step outside.
    """
    if not 0 <= step < trace.steps:
        raise TraceError(f"step {step} lies outside the trace's 0..{trace.steps - 1}")
    if reading not in ("at_step", "any_moment"):
        raise ValueError(f"contacts of a trace {reading!r}: expected at_step or any_moment")
    devices, here_m = trace.present(step), _fixes(trace, step)
    pairs = [_named(contacts_at(here_m, radius_m), devices)]
    if reading == "any_moment" and step > 0:
        before = trace.present(step - 1)
        both, now_row, then_row = np.intersect1d(devices, before, assume_unique=True, return_indices=True)
        motion = straight_path(_fixes(trace, step - 1)[then_row], here_m[now_row])
        pairs.append(_named(contacts_during(motion, radius_m), both))
    return _symmetric(np.concatenate(pairs), len(trace.device_names))


def alone(devices: int) -> Neighbours:
    """No device has a neighbour: de Heredia's iteration 0."""
    return _symmetric(np.empty((0, 2), np.intp), devices)


def everybody(devices: int) -> Neighbours:
    """All are neighbours of all others: R_c = inf."""
    return scipy.sparse.csr_array(~np.eye(devices, dtype=np.bool_))


def neighbours_of(neighbours: Neighbours, device: int) -> npt.NDArray[np.int64]:
    """The neighbours of one device, ascending, without itself."""
    start, stop = neighbours.indptr[device : device + 2]
    return np.asarray(neighbours.indices[start:stop], np.int64)


def _near(points_m: Points, radius_m: float) -> _Pairs:
    """Pairs at most `radius_m` (and a little more) apart, each once."""
    if len(points_m) < 2:
        return np.empty((0, 2), np.intp)
    found = scipy.spatial.cKDTree(points_m).query_pairs(radius_m * _WIDER, output_type="ndarray")
    return np.asarray(found, np.intp).reshape(-1, 2)


def _symmetric(pairs: _Pairs, devices: int) -> Neighbours:
    """The matrix of the pairs, in any order; a pair given twice counts once."""
    rows, columns = np.concatenate((pairs, pairs[:, ::-1])).T
    cells = np.unique(rows.astype(np.int64) * devices + columns)
    rows, columns = np.divmod(cells, max(1, devices))
    starts = np.searchsorted(rows, np.arange(devices + 1))
    return scipy.sparse.csr_array((np.ones(len(cells), np.bool_), columns, starts), shape=(devices, devices))


def _named(neighbours: Neighbours, devices: npt.NDArray[np.int32]) -> _Pairs:
    """Pairs of a matrix over some devices, by the numbers of these devices."""
    rows, columns = scipy.sparse.triu(neighbours, format="coo").coords
    return np.stack((devices[rows], devices[columns]), axis=1).astype(np.intp)


def _fixes(trace: Trace, step: int) -> Points:
    rows = trace.rows(step)
    return np.stack((trace.x_m[rows], trace.y_m[rows]), axis=1)


def _check_radius(radius_m: float) -> None:
    if not radius_m >= 0.0:
        raise ValueError(f"radius of {radius_m} m: expected 0 m or more")


def walk_motion(trace: Trace, parameters: ReflectedWalkParameters, seed: int, step: int) -> Motion:
    """The motion from step - 1 to `step` >= 1, in metres and iterations (duration 1).

    `trace`: what `reflected_walk(parameters, seed)` gave, whole and as it was. Raises TraceError for a step
    outside it, or a trace in which not everybody is there at step - 1.
    """
    if not 1 <= step < trace.steps:
        raise TraceError(f"step {step}: a walk of {trace.steps} steps moves from 1 to {trace.steps - 1}")
    rows = trace.rows(step - 1)
    start_m = np.stack((trace.x_m[rows], trace.y_m[rows]), axis=1)
    if len(start_m) != parameters.devices:
        raise TraceError(f"step {step - 1}: {len(start_m)} of {parameters.devices} walkers are present")
    velocity = headings(parameters.devices, seed, step) * speeds_m(parameters, seed)[:, None]
    return reflected_path(start_m, velocity, (parameters.width_m, parameters.height_m))


def walk_contacts(
    trace: Trace, parameters: ReflectedWalkParameters, seed: int, step: int, radius_m: float
) -> Neighbours:
    """M(t_k) of de Heredia §5.1: near enough at any moment of [k-1, k]; at k = 0 only oneself."""
    if step == 0:
        return alone(parameters.devices)
    return contacts_during(walk_motion(trace, parameters, seed, step), radius_m)
