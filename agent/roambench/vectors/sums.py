"""Sums over flat models, in one fixed order: the same bits for any thread count and any arrival order.

Elementwise operations and NumPy's pairwise sum only. `np.dot` and `@` would be about twice as fast, but a
threaded BLAS splits them by core count, and two machines then disagree in the last bits of a model digest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from roambench.contract.orders import Vector

Weights = npt.NDArray[np.float64]  # shape (models,)

#: One float64 block and its product stay in the second-level cache (2 x 128 KiB).
_BLOCK = 16_384


def weighted_mean(vectors: Sequence[Vector] | npt.NDArray[np.float32], weights: Weights) -> Vector:
    """The sum of `weights[m] * vectors[m]` in the order given, accumulated in float64, rounded once.

    `vectors`: models of shape (parameters,), or the rows of a (models, parameters) array; `weights`: float64
    of shape (models,). They are used as given: for a mean they add up to 1. Returns a new float32 vector.
    Raises ValueError when there is no model, or lengths differ.
    """
    scales = np.asarray(weights, dtype=np.float64)
    if len(vectors) == 0:
        raise ValueError("a weighted mean needs at least one model")
    if scales.shape != (len(vectors),):
        raise ValueError(f"{len(vectors)} models need as many weights, got shape {scales.shape}")
    size = _common_size(vectors)
    mean = np.empty(size, dtype=np.float32)
    total = np.empty(min(_BLOCK, size), dtype=np.float64)
    product = np.empty_like(total)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        total_block, product_block = total[: stop - start], product[: stop - start]
        np.multiply(vectors[0][start:stop], scales[0], out=total_block, dtype=np.float64)
        for vector, scale in zip(vectors[1:], scales[1:], strict=True):
            np.multiply(vector[start:stop], scale, out=product_block, dtype=np.float64)
            np.add(total_block, product_block, out=total_block)
        mean[start:stop] = total_block
    return mean


def dot(x: Vector, y: Vector) -> float:
    """The inner product of two flat models of equal shape, summed in float64."""
    size = _common_size((x, y))
    sums = np.zeros(-(-size // _BLOCK), dtype=np.float64)
    product = np.empty(min(_BLOCK, size), dtype=np.float64)
    for index in range(sums.size):
        start = index * _BLOCK
        stop = min(start + _BLOCK, size)
        block = product[: stop - start]
        np.multiply(x[start:stop], y[start:stop], out=block, dtype=np.float64)
        sums[index] = np.sum(block)
    return float(np.sum(sums))


def norm(x: Vector) -> float:
    """The Euclidean length of a flat model, summed in float64."""
    return math.sqrt(dot(x, x))


def cosine(x: Vector, y: Vector) -> float:
    """<x, y> / (|x| |y|), in -1..1; 0 if either is the zero vector."""
    lengths = norm(x) * norm(y)
    if lengths == 0.0:
        return 0.0
    return min(1.0, max(-1.0, dot(x, y) / lengths))


def _common_size(vectors: Sequence[Vector] | npt.NDArray[np.float32]) -> int:
    shape = vectors[0].shape
    if len(shape) != 1:
        raise ValueError(f"a model is a flat vector, got shape {shape}")
    for index, vector in enumerate(vectors):
        if vector.shape != shape:
            raise ValueError(f"model {index} has shape {vector.shape}, the first one {shape}")
    return int(shape[0])
