"""Sums over flat models, in one fixed order: the same bits for any thread count and any arrival order.

Means are elementwise products and sums in the models' own dtype, rounded after each: every processor gives
the same bits. Inner products are summed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.orders import Vector

Weights = npt.NDArray[np.float64]  # shape (models,)

#: A block of float32, its product and its sum stay in the second-level cache (3 x 128 KiB).
BLOCK = 32_768
#: Products of this many parameters are summed by one call of BLAS, in the models' own dtype; these sums are
#: added in float64. No BLAS splits a call this short over threads (OpenBLAS: from 10,000 on), so the bits do
#: not depend on their number. In float32 a sum is good to about 1e-7 of |x| |y|. Products in float64 all
#: the way took twice the time (3.1 passes over the data instead of 1.5).
RUN: Final = 1024
#: Runs of the reference and of one model that stay in the second-level cache (2 x 256 KiB of float32).
_RUNS: Final = 64 * RUN
#: Squares of float32 that are smaller lose digits, or all of them.
_LEAST_SQUARE: Final = 1e-20


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


def distance_share(x: Vector, reference: Vector) -> float | None:
    """|reference - x| / |reference|: how far apart two flat models are (MIDDLE Eq. 23); None if the reference
    is the zero vector."""
    common_size((x, reference))
    length = norm(reference)
    return norm(np.subtract(reference, x, dtype=np.float64)) / length if length else None


def common_size(vectors: Sequence[Vector] | npt.NDArray[np.float32]) -> int:
    """Return how many parameters each of `vectors` has; ValueError where they differ or one is not flat."""
    shape = vectors[0].shape
    if len(shape) != 1:
        raise ValueError(f"a model is a flat vector, got shape {shape}")
    for index, vector in enumerate(vectors):
        if vector.shape != shape:
            raise ValueError(f"model {index} has shape {vector.shape}, the first one {shape}")
        if vector.dtype != vectors[0].dtype:
            raise ValueError(f"model {index} is {vector.dtype}, the first one {vectors[0].dtype}")
    return int(shape[0])


class RunningMean:
    """Adds w_i / w_0 * x_i in the order given and divides by the sum of w_i / w_0 at the end.

    All in the models' own dtype, but for the sum of the weights (float64). Measured by the first positive
    weight w_0, so that equal weights cost no multiplication (one pass over the data instead of 1.4) and a
    model alone comes back bit for bit. A model of weight 0 changes nothing.
    """

    def __init__(self) -> None:
        self._total: Vector | None = None
        self._unit = 0.0
        self._scales = 0.0

    def add(self, model: Vector, weight: float) -> None:
        """Fold in a flat model; it is neither kept nor changed.

        Raises ValueError for a weight that is negative or not finite, or a model unlike the ones before.
        """
        if not 0.0 <= weight < math.inf:
            raise ValueError(f"a model's weight is a finite number of at least 0, got {weight}")
        if weight == 0.0:
            return
        if self._total is None:
            common_size((model,))
            self._total, self._unit, self._scales = model.copy(), weight, 1.0
            return
        common_size((self._total, model))
        scale = self._total.dtype.type(weight / self._unit)
        self._scales += float(scale)
        if scale == 1.0:
            np.add(self._total, model, out=self._total)
        else:
            add_scaled(self._total, model, scale)

    def mean(self) -> Vector:
        """The mean of what was added, and the end of this sum. ValueError if nothing had a weight."""
        if self._total is None:
            raise ValueError("a weighted mean needs at least one model with a weight")
        total, self._total = self._total, None
        np.divide(total, total.dtype.type(self._scales), out=total)
        return total


class RunningSum:
    """`weighted_mean` of models added in its order, bit for bit, without having them all at once."""

    def __init__(self) -> None:
        self._total: Vector | None = None

    def add(self, model: Vector, weight: float) -> None:
        """Add `weight` (rounded to the model's dtype) times a flat model, which is neither kept nor changed.

        Raises ValueError for a model unlike the ones before.
        """
        if self._total is None:
            common_size((model,))
            self._total = np.multiply(model, model.dtype.type(weight))
        else:
            add_scaled(self._total, model, weight)

    def total(self) -> Vector:
        """Return the sum of what was added, and end it. ValueError if nothing was."""
        if self._total is None:
            raise ValueError("a sum of models needs at least one")
        total, self._total = self._total, None
        return total


def products(
    reference: Vector, vectors: Sequence[Vector] | npt.NDArray[np.float32]
) -> tuple[Weights, Weights]:
    """<reference, x> and <x, x> of every model x, each float64 of shape (models,).

    Numbers so large or small that the models' dtype cannot hold their squares are multiplied in float64.
    Raises ValueError when lengths or dtypes differ.
    """
    size = common_size((reference, *vectors))
    with_reference = np.zeros(len(vectors), dtype=np.float64)
    with_itself = np.zeros(len(vectors), dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if size <= RUN and len(vectors):  # small models: the same bits in two calls
            rows = np.stack(list(vectors))
            with_reference += np.vecdot(reference, rows)
            with_itself += np.vecdot(rows, rows)
        else:
            for start, stop, shape in _blocks(size):
                ours = reference[start:stop].reshape(shape)
                for index, vector in enumerate(vectors):
                    runs = vector[start:stop].reshape(shape)
                    with_reference[index] += np.sum(np.vecdot(ours, runs), dtype=np.float64)
                    with_itself[index] += np.sum(np.vecdot(runs, runs), dtype=np.float64)
    for index, vector in enumerate(vectors):
        if not (_LEAST_SQUARE < with_itself[index] < math.inf and math.isfinite(with_reference[index])):
            with_reference[index], with_itself[index] = dot(reference, vector), dot(vector, vector)
    return with_reference, with_itself


def _blocks(size: int) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """(start, stop, (runs, parameters in each)): whole runs, many at a time, then what is left."""
    whole = size - size % RUN
    for start in range(0, whole, _RUNS):
        stop = min(start + _RUNS, whole)
        yield start, stop, ((stop - start) // RUN, RUN)
    if whole < size:
        yield whole, size, (1, size - whole)
