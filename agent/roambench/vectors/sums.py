"""Sums over flat models, in one fixed order: the same bits for any thread count and any arrival order.

Means are elementwise products and sums in the models' own dtype, rounded after each: every processor gives
the same bits. Inner products are summed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from roambench.contract.orders import Vector

Weights = npt.NDArray[np.float64]  # shape (models,)

#: A block of float32, its product and its sum stay in the second-level cache (3 x 128 KiB).
BLOCK = 32_768


def weighted_mean(vectors: Sequence[Vector] | npt.NDArray[np.float32], weights: Weights) -> Vector:
    """The sum of `weights[m] * vectors[m]` in the order given, accumulated in the models' own dtype.

    `vectors`: models of shape (parameters,), or the rows of a (models, parameters) array; `weights`: float64
    of shape (models,), rounded to the models' dtype. They are used as given: for a mean they add up to 1.
    Returns a new vector. The data are read once. Raises ValueError when there is no model, or lengths differ.
    """
    scales = np.asarray(weights, dtype=np.float64)
    if len(vectors) == 0:
        raise ValueError("a weighted mean needs at least one model")
    if scales.shape != (len(vectors),):
        raise ValueError(f"{len(vectors)} models need as many weights, got shape {scales.shape}")
    size = common_size(vectors)
    dtype = vectors[0].dtype
    scales = scales.astype(dtype)
    mean: Vector = np.empty(size, dtype=dtype)
    product = np.empty(min(BLOCK, size), dtype=dtype)
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        total, scaled = mean[start:stop], product[: stop - start]
        np.multiply(vectors[0][start:stop], scales[0], out=total)
        for vector, scale in zip(vectors[1:], scales[1:], strict=True):
            np.multiply(vector[start:stop], scale, out=scaled)
            np.add(total, scaled, out=total)
    return mean


def add_scaled(total: Vector, model: Vector, scale: float | np.floating) -> None:
    """total += scale * model, in place, block by block: no product of a whole model is ever held.

    `scale` is of the models' dtype, or rounded to it. ValueError where the two are not alike.
    """
    size = common_size((total, model))
    factor = total.dtype.type(scale)
    product = np.empty(min(BLOCK, size), dtype=total.dtype)
    for start in range(0, size, BLOCK):
        part = total[start : start + BLOCK]
        scaled = product[: part.size]
        np.multiply(model[start : start + BLOCK], factor, out=scaled)
        np.add(part, scaled, out=part)


def dot(x: Vector, y: Vector) -> float:
    """The inner product of two flat models of equal shape, summed in float64."""
    size = common_size((x, y))
    sums = np.zeros(-(-size // BLOCK), dtype=np.float64)
    product = np.empty(min(BLOCK, size), dtype=np.float64)
    for index in range(sums.size):
        start = index * BLOCK
        stop = min(start + BLOCK, size)
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


def common_size(vectors: Sequence[Vector] | npt.NDArray[np.float32]) -> int:
    """How many parameters each of `vectors` has; ValueError where they differ or one is not flat."""
    shape = vectors[0].shape
    if len(shape) != 1:
        raise ValueError(f"a model is a flat vector, got shape {shape}")
    for index, vector in enumerate(vectors):
        if vector.shape != shape:
            raise ValueError(f"model {index} has shape {vector.shape}, the first one {shape}")
        if vector.dtype != vectors[0].dtype:
            raise ValueError(f"model {index} is {vector.dtype}, the first one {vectors[0].dtype}")
    return int(shape[0])
