"""Flat models in one sparse file that all processes map: 10,000 devices' models need disk, not memory."""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np

from roambench.contract.errors import RunError
from roambench.contract.orders import Vector


class ModelRows:
    """Rows of `size` float32 each; `take` and `release` are for the one owner, `row` for any process.

    The file is as long as all rows would be and holds only those that were written; a released row is
    taken again first, so that its pages stay few. A row belongs to one writer at a time.
    """

    def __init__(self, path: Path, size: int, capacity: int, *, create: bool = False) -> None:
        self.path, self.size, self.capacity = path, size, capacity
        try:
            if create:
                with path.open("xb") as file:
                    file.truncate(4 * size * capacity)
            self._rows = np.memmap(path, dtype=np.float32, mode="r+", shape=(capacity, size))
        except OSError as error:
            raise RunError(f"{path}: {capacity} models of {size} parameters: {error.strerror}") from None
        self._released: list[int] = []
        self._next = 0

    def take(self) -> int:
        """A row nobody uses, its content undefined; RunError when there is none left."""
        if self._released:
            return heapq.heappop(self._released)
        if self._next == self.capacity:
            raise RunError(f"{self.path}: all {self.capacity} models are in use")
        self._next += 1
        return self._next - 1

    def release(self, row: int) -> None:
        heapq.heappush(self._released, row)

    @property
    def in_use(self) -> int:
        return self._next - len(self._released)

    def row(self, index: int) -> Vector:
        """A view of one model, shape (size,): what is written to it every process sees."""
        view: Vector = self._rows[index]
        return view

    def store(self, model: Vector) -> int:
        """Copy a model into a row of its own; returns the row."""
        index = self.take()
        self._rows[index] = model
        return index
