"""Motion of devices during one step, and how near two of them come: exactly, as pieces of straight motion
that all start at time 0.

One iteration of de Heredia's world is one unit of time, so there speeds are metres per iteration and the
duration is 1; with seconds everything below is in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]  # shape (devices, 2): metres east, metres north
Counts = npt.NDArray[np.int64]

#: A device that crosses its box more often than this in one step has its units wrong.
_MOST_CROSSINGS: Final = 1000
Indices = npt.NDArray[np.intp]
Distances = npt.NDArray[np.float64]
_CELLS: Final = 1 << 20  # pairs x intervals at a time: some 100 MB


@dataclass(frozen=True, slots=True, eq=False)
class Motion:
    """Straight pieces in order of time. `pieces` of shape (devices,) tells how many each device has; shorter
    rows are filled up with pieces that start at `duration_s`, where the motion ends, and stand still.

    A piece lasts until the next one starts, the last until `duration_s`; a piece may last no time at all.
    """

    duration_s: float
    pieces: Counts
    start_s: npt.NDArray[np.float64]  # (devices, most pieces)
    start_m: npt.NDArray[np.float64]  # (devices, most pieces, 2): where a piece begins
    velocity_m_s: npt.NDArray[np.float64]  # (devices, most pieces, 2)

    def at(self, time_s: float) -> Points:
        """Positions of all devices at a time in 0 .. duration, shape (devices, 2). ValueError outside."""
        if not 0.0 <= time_s <= self.duration_s:
            raise ValueError(f"time {time_s} s lies outside the motion's 0..{self.duration_s} s")
        piece = np.count_nonzero(self.start_s <= time_s, axis=1) - 1
        row = np.arange(len(piece))
        past_s = time_s - self.start_s[row, piece]
        points: Points = self.start_m[row, piece] + self.velocity_m_s[row, piece] * past_s[:, None]
        return points

    def extent_m(self) -> tuple[Points, Points]:
        """The corners (lowest, highest) of the smallest rectangle around each device's whole path."""
        end = self.at(self.duration_s)
        return np.minimum(self.start_m.min(axis=1), end), np.maximum(self.start_m.max(axis=1), end)


def straight_path(start_m: Points, end_m: Points, duration_s: float = 1.0) -> Motion:
    """Everybody moves straight and evenly from one point to another; both of shape (devices, 2)."""
    start, end = _points(start_m, "start"), _points(end_m, "end")
    if start.shape != end.shape:
        raise ValueError(f"devices: {len(start)} start and {len(end)} end")
    _check_duration(duration_s)
    count = len(start)
    return Motion(
        duration_s,
        np.ones(count, np.int64),
        np.zeros((count, 1)),
        start[:, None, :],
        ((end - start) / duration_s)[:, None, :],
    )


def reflected_path(
    position_m: Points, velocity_m_s: Points, box_m: tuple[float, float], duration_s: float = 1.0
) -> Motion:
    """Even motion in the box [0, width] x [0, height] that rebounds from its walls (de Heredia Eq. 1, 2).

    The velocity's component across a wall changes its sign at the very moment the wall is reached, both
    components at a corner, as often as the step lasts. `position_m` and `velocity_m_s` have shape
    (devices, 2). Raises ValueError for a start outside the box or numbers that are not finite.
    """
    position, velocity = _points(position_m, "position"), _points(velocity_m_s, "velocity")
    if position.shape != velocity.shape:
        raise ValueError(f"{len(position)} positions, but {len(velocity)} velocities")
    _check_duration(duration_s)
    sides = np.array(box_m, np.float64)
    if sides.shape != (2,) or not (np.isfinite(sides) & (sides > 0.0)).all():
        raise ValueError(f"box of {box_m} m: expected a width and a height of more than 0 m")
    outside = np.flatnonzero(((position < 0.0) | (position > sides)).any(axis=1))
    if len(outside):
        x_m, y_m = position[outside[0]].tolist()
        raise ValueError(f"device {outside[0]} starts at ({x_m}, {y_m}) m, outside the box of {box_m} m")

    first_m = np.where(velocity > 0.0, sides - position, position)  # to the wall ahead
    speed = np.abs(velocity)
    crossings = np.where(speed > 0.0, np.ceil((speed * duration_s - first_m) / sides), 0.0).max(initial=0.0)
    if crossings > _MOST_CROSSINGS:
        raise ValueError(f"a device crosses its box {crossings:.0f} times in a step: check speeds and units")
    walls = int(crossings) + 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        hit_m = first_m[:, :, None] + np.arange(walls) * sides[:, None]
        hit_s = np.where(speed[:, :, None] > 0.0, hit_m / speed[:, :, None], np.inf)

    # Hits of both axes in order of time; the n-th piece begins with the n-th hit, the first at time 0.
    count = len(position)
    all_s = hit_s.reshape(count, 2 * walls)
    order = np.argsort(all_s, axis=1, kind="stable")
    in_order_s = np.take_along_axis(all_s, order, axis=1)
    real = in_order_s < duration_s
    pieces = 1 + np.count_nonzero(real, axis=1)
    most = int(pieces.max(initial=1))
    start_s = np.zeros((count, most))
    start_s[:, 1:] = np.where(real, in_order_s, duration_s)[:, : most - 1]
    start_m, piece_velocity = np.empty((count, most, 2)), np.empty((count, most, 2))
    for axis in (0, 1):
        hits = np.zeros((count, most), np.int64)
        hits[:, 1:] = np.cumsum(real & (order // walls == axis), axis=1)[:, : most - 1]
        start_m[:, :, axis], piece_velocity[:, :, axis] = _after_hits(
            hits, start_s, position[:, axis], velocity[:, axis], hit_s[:, axis], float(sides[axis])
        )
    piece_velocity[np.arange(most) >= pieces[:, None]] = 0.0
    return Motion(duration_s, pieces.astype(np.int64), start_s, start_m, piece_velocity)


def _after_hits(
    hits: Counts,
    time_s: npt.NDArray[np.float64],
    start_m: npt.NDArray[np.float64],
    velocity: npt.NDArray[np.float64],
    hit_s: npt.NDArray[np.float64],
    side_m: float,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Place and velocity along one axis at `time_s`, each of shape (devices, pieces), after these hits.

    Counted from the last wall, not by folding the whole way: at a hit the place is the wall, to the bit.
    """
    odd = hits % 2 == 1
    now = np.where(odd, -velocity[:, None], velocity[:, None])
    last = np.take_along_axis(hit_s, np.maximum(hits - 1, 0), axis=1)
    wall_m = np.where(odd == (velocity > 0.0)[:, None], side_m, 0.0)
    since_s = time_s - np.where(hits > 0, last, 0.0)
    place_m = np.where(hits > 0, wall_m, start_m[:, None]) + now * since_s
    return np.clip(place_m, 0.0, side_m), now


def _points(values: npt.ArrayLike, what: str) -> Points:
    points = np.asarray(values, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"{what}: expected shape (devices, 2), got {points.shape}")
    if not np.isfinite(points).all():
        raise ValueError(f"{what} holds NaN or infinity")
    return points


def _check_duration(duration_s: float) -> None:
    if not 0.0 < duration_s < np.inf:
        raise ValueError(f"a step of {duration_s} s: expected more than 0 s")


def closest_m(motion: Motion, first: Indices, second: Indices) -> Distances:
    """The least distance of every pair (first[n], second[n]) at any moment of the motion, shape (pairs,).

    Between two changes of either course the relative motion is straight: d(τ) = d + vτ, nearest at
    τ = -d·v / |v|², cut to the interval; the least over the intervals counts. Equal to the bit when first and
    second are swapped.
    """
    least = np.empty(len(first))
    for rows, pieces in _portions(motion, first, second):
        least[rows] = _closest(motion, first[rows], second[rows], pieces)
    return least


def _portions(motion: Motion, first: Indices, second: Indices) -> Iterator[tuple[Indices, int]]:
    """(rows, most pieces of any device in them): pairs of few pieces together, a bounded number at a time."""
    most = np.maximum(motion.pieces[first], motion.pieces[second])
    order = np.argsort(most, kind="stable")
    start = 0
    while start < len(order):
        stop = start + max(1, _CELLS // (2 * int(most[order[start]])))
        stop = min(stop, len(order))
        pieces = int(most[order[stop - 1]])
        stop = min(stop, start + max(1, _CELLS // (2 * pieces)))
        yield order[start:stop], pieces
        start = stop


def _closest(motion: Motion, first: Indices, second: Indices, pieces: int) -> Distances:
    starts_s = np.concatenate((motion.start_s[first, :pieces], motion.start_s[second, :pieces]), axis=1)
    order = np.argsort(starts_s, axis=1, kind="stable")
    begin_s = np.take_along_axis(starts_s, order, axis=1)
    end_s = np.concatenate((begin_s[:, 1:], np.full((len(first), 1), motion.duration_s)), axis=1)
    # How many pieces of each have begun tells which one it is in.
    of_first = np.maximum(np.cumsum(order < pieces, axis=1) - 1, 0)
    of_second = np.maximum(np.cumsum(order >= pieces, axis=1) - 1, 0)

    apart, relative = [], []
    for axis in (0, 1):
        ours_m, ours = _course(motion, first[:, None], of_first, begin_s, axis)
        theirs_m, theirs = _course(motion, second[:, None], of_second, begin_s, axis)
        apart.append(theirs_m - ours_m)
        relative.append(theirs - ours)
    approach = -(apart[0] * relative[0] + apart[1] * relative[1])
    square = relative[0] * relative[0] + relative[1] * relative[1]
    moving = square > 0.0
    with np.errstate(over="ignore"):  # hardly any motion: never in this interval
        nearest_s = np.divide(approach, square, out=np.zeros_like(square), where=moving)
    nearest_s = np.clip(nearest_s, 0.0, end_s - begin_s)
    x_m, y_m = (apart[axis] + relative[axis] * nearest_s for axis in (0, 1))
    least: Distances = np.sqrt((x_m * x_m + y_m * y_m).min(axis=1))
    return least


def _course(
    motion: Motion, device: Indices, piece: Indices, time_s: Distances, axis: int
) -> tuple[Distances, Distances]:
    """Place and velocity along one axis at `time_s`, shape (pairs, intervals)."""
    velocity = motion.velocity_m_s[device, piece, axis]
    past_s = time_s - motion.start_s[device, piece]
    return motion.start_m[device, piece, axis] + velocity * past_s, velocity
