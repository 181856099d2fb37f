"""Measures of how well a changing network carries models: figures about neighbour and mixing matrices, none
of which enters a training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

Neighbours: TypeAlias = "scipy.sparse.csr_array"
Mixing: TypeAlias = "scipy.sparse.csr_array"
Devices: TypeAlias = npt.NDArray[np.integer]


def strong_connectivity(steps: Sequence[Neighbours]) -> int | None:
    """B of B-strong connectivity (journal, Property 1), or None if there is none.

    The smallest B for which the links of the steps kB .. (k+1)B - 1, taken together, connect every device to
    every other, for all k. Windows start at step 0 and are aligned; an incomplete one at the end tells
    nothing and is left out, so B is at most the number of steps. Links may be one-way.
    """
    whole: dict[int, int | None] = {}  # first step of a window -> the step at which it is connected
    links = [_others(neighbours).tocoo().coords for neighbours in steps]

    def connected_at(start: int) -> int | None:
        if start not in whole:
            whole[start] = _connected_at(links, start, steps[0].shape[0])
        return whole[start]

    if not steps or connected_at(0) is None:
        return None
    for length in range(1, len(steps) + 1):
        for start in range(0, len(steps) - length + 1, length):
            reached = connected_at(start)
            if reached is None or reached >= start + length:
                break
        else:
            return length
    return None


def spectral_gap(mixing: Mixing) -> float:
    """1 - λ2(WᵀW), λ2 the second-largest eigenvalue: the p of the journal's Assumption 3.

    1 if one exchange makes all models equal, 0 if some part of the network never hears of the rest. The
    assumption needs a doubly stochastic W; for other W the figure may be negative. 1 for a single device.
    Costs devices³ operations.
    """
    devices = mixing.shape[0]
    if devices < 2:
        return 1.0
    gram = (mixing.T @ mixing).toarray()
    # All of them: asked for one alone, LAPACK fails where many are equal (no devices meet).
    return 1.0 - float(np.linalg.eigvalsh(gram)[-2])


def cumulative_neighbours(
    steps: Iterable[Neighbours], high_mobility: npt.ArrayLike, *, unique: bool = False
) -> npt.NDArray[np.float64]:
    """Return how many neighbours a device has had up to each step, on average over a class (de Heredia Fig.
    7, 8).

    `high_mobility`: bool of shape (devices,). Returns shape (steps, 2): the high-mobility devices' mean, then
    the low-mobility ones'; NaN for a class without devices. A neighbour counts again at every step
    (`unique`: only the first time), oneself never.
    """
    fast = np.asarray(high_mobility, np.bool_)
    total = np.zeros(len(fast))
    met: Neighbours | None = None
    means = []
    for neighbours in steps:
        now = _others(neighbours)
        if unique:
            met = now if met is None else met + now
            now = met
        counts = np.asarray(np.diff(now.indptr), np.float64)
        if counts.shape != fast.shape:
            raise ValueError(f"devices: {len(fast)} have a class, {len(counts)} have neighbours")
        total = counts if unique else total + counts
        means.append([_mean(total[fast]), _mean(total[~fast])])
    return np.array(means, np.float64).reshape(-1, 2)


def neighbourhood_distances(neighbours: Neighbours, class_counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return how far the classes that a device reaches are from those of the whole population, shape
    (devices,).

    The distance of the journal's Eq. 10 between the class distribution over oneself and one's neighbours and
    that over everybody: 0 where the neighbourhood is a fair sample, at most √2. `class_counts`: shape
    (devices, classes). Without a single sample a distribution is all 0 (as in `distribution_aware`).
    """
    counts = np.asarray(class_counts, np.float64)
    if counts.ndim != 2 or len(counts) != neighbours.shape[0]:
        raise ValueError(f"class counts of shape {counts.shape} for {neighbours.shape[0]} devices")
    reached = _others(neighbours).astype(np.float64) @ counts + counts
    apart = _distribution(reached) - _distribution(counts.sum(axis=0, keepdims=True))
    distances: npt.NDArray[np.float64] = np.sqrt((apart * apart).sum(axis=1))
    return distances


def _connected_at(links: Sequence[tuple[Devices, Devices]], start: int, devices: int) -> int | None:
    """The first step at which the links since `start`, (from, to) of each step, connect everybody."""
    heard = np.zeros((2, devices), np.bool_)  # of whom, and by whom, anything has come
    ends = np.empty((2, 0), np.int64)
    for step in range(start, len(links)):
        for side, found in enumerate(links[step]):
            heard[side, found] = True
        ends = np.concatenate([ends, np.array(links[step])], axis=1)
        if devices > 1 and not heard.all():  # and so not connected, which takes longer to find out
            continue
        union = scipy.sparse.csr_array((np.ones(ends.shape[1], np.bool_), tuple(ends)), (devices, devices))
        parts, _ = scipy.sparse.csgraph.connected_components(union, directed=True, connection="strong")
        if parts == 1:
            return step
        ends = np.array(union.tocoo().coords)
    return None


def _others(neighbours: Neighbours) -> Neighbours:
    """The same links as a bool matrix, without explicit zeros and loops."""
    links = scipy.sparse.coo_array(neighbours)
    rows, columns = links.coords
    kept = (rows != columns) & (links.data != 0)
    return scipy.sparse.csr_array(
        (np.ones(int(kept.sum()), np.bool_), (rows[kept], columns[kept])), links.shape
    )


def _distribution(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    sums = counts.sum(axis=1, keepdims=True)
    distributions: npt.NDArray[np.float64] = np.divide(
        counts, sums, out=np.zeros_like(counts), where=sums > 0.0
    )
    return distributions


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
