"""Inner products of one reference with many models, flat, in one pass over each model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.orders import Vector
from roambench.vectors.sums import Weights, common_size, dot

#: Products of so many parameters are summed by one call of BLAS, in the models' own dtype; these sums are
#: added in float64. No BLAS splits a call this short over threads (OpenBLAS: from 10,000 on), so the bits do
#: not depend on their number. In float32 a sum is good to about 1e-7 of |x| |y|. Products in float64 all
#: the way took twice the time (3.1 passes over the data instead of 1.5).
RUN: Final = 1024
#: Runs of the reference and of one model that stay in the second-level cache (2 x 256 KiB of float32).
_BLOCK: Final = 64 * RUN
#: Squares of float32 that are smaller lose digits, or all of them.
_LEAST_SQUARE: Final = 1e-20


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
    for start in range(0, whole, _BLOCK):
        stop = min(start + _BLOCK, whole)
        yield start, stop, ((stop - start) // RUN, RUN)
    if whole < size:
        yield whole, size, (1, size - whole)
