"""How near two moving devices come to each other during a step, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.mobility.contacts_motion import Motion

Indices = npt.NDArray[np.intp]
Distances = npt.NDArray[np.float64]

_CELLS: Final = 1 << 20  # pairs x intervals at a time: some 100 MB


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
