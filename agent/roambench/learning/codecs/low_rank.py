"""Matrices as products of two thin ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.contract.orders import Vector
from roambench.learning.codecs.codec import CodecRow, Shapes, exact

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LowRank:
    """Each tensor as a matrix M (first dimension x the others) becomes P Q' of rank `rank` (Vogels et al.,
    PowerSGD, NeurIPS 2019, Algorithm 1): P = M Q, its columns made orthonormal, then Q = M' P.

    Unlike there, devices code alone, and Q begins from a keyed normal draw each time, without a warm start;
    two such iterations make up for it. What is lost is fed back (Algorithm 2). Vectors, and matrices that
    would not get shorter, are sent as they are. Bytes: float32, tensor after tensor, P before Q.
    """

    rank: int
    feeds_back: bool = True

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """P and Q of each matrix."""
        parts: list[bytes] = []
        at = 0
        for rows, columns, thin in self._matrices(values.size, shapes):
            part = values[at : at + rows * columns]
            at += rows * columns
            if not thin:
                parts.append(part.astype("<f4").tobytes())
                continue
            matrix = part.reshape(rows, columns)
            right = draws.standard_normal((columns, self.rank), np.float32)
            for _ in range(2):
                left = _orthonormal(_product(matrix, right))
                right = _product(matrix.T, left)
            parts += left.astype("<f4").tobytes(), right.astype("<f4").tobytes()
        return b"".join(parts)

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """P Q' of each matrix."""
        exact(coded, self.most_bytes(count, shapes), f"a code of rank {self.rank}")
        numbers = np.frombuffer(coded, "<f4").astype(np.float32)
        values, at, put = np.empty(count, np.float32), 0, 0
        for rows, columns, thin in self._matrices(count, shapes):
            size = rows * columns
            if thin:
                left, right = rows * self.rank, columns * self.rank
                p = numbers[at : at + left].reshape(rows, self.rank)
                q = numbers[at + left : at + left + right].reshape(columns, self.rank)
                with np.errstate(over="ignore", invalid="ignore"):  # of hostile numbers; the caller checks
                    values[put : put + size] = _product(p, q.T).reshape(-1)
                at += left + right
            else:
                values[put : put + size] = numbers[at : at + size]
                at += size
            put += size
        return values

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return the length of every code of these shapes."""
        return 4 * sum(
            self.rank * (rows + columns) if thin else rows * columns
            for rows, columns, thin in self._matrices(count, shapes)
        )

    def _matrices(self, count: int, shapes: Shapes) -> Iterator[tuple[int, int, bool]]:
        """Rows, columns, and whether it is sent as a product; what lies behind the tensors is a vector."""
        for shape in shapes:
            rows = shape[0] if len(shape) > 1 else 1
            columns = int(np.prod(shape)) // max(rows, 1)
            count -= rows * columns
            yield rows, columns, self.rank * (rows + columns) < rows * columns
        if count:
            yield 1, count, False


def _product(left: Floats, right: Floats) -> Floats:
    """A matrix product in fixed order: BLAS adds in another one for each number of threads."""
    product: Floats = np.einsum("ij,jk->ik", left, right, dtype=np.float64).astype(np.float32)
    return product


def _orthonormal(columns: Floats) -> Floats:
    """Gram-Schmidt; a column that the others span becomes 0."""
    found = columns.astype(np.float64)
    for k in range(found.shape[1]):
        length = np.sqrt(np.sum(found[:, k] ** 2))
        for _ in range(2):  # again: rounding leaves a rest
            for j in range(k):
                found[:, k] -= np.sum(found[:, j] * found[:, k]) * found[:, j]
        left = np.sqrt(np.sum(found[:, k] ** 2))
        found[:, k] = found[:, k] / left if left > 1e-6 * length else 0.0
    return found.astype(np.float32)


def _low_rank(rank: float) -> LowRank:
    if rank != int(rank) or not 1 <= rank <= 64:
        raise ConfigError([f"lowrank: expected a whole rank from 1 to 64, got {rank:g}"])
    return LowRank(int(rank))


LOW_RANK = CodecRow("matrices of this rank, as in PowerSGD; the rest is sent later (2)", _low_rank, 2.0)
