"""The exact median of more numbers than are kept: each value once, with how often it came."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.mobility.trace import FloatColumn

_HELD: Final = 1_000_000


class Tally:
    """Numbers by value. Its memory grows with the distinct ones: places, or a GPS's few decimals."""

    def __init__(self) -> None:
        self._values: list[FloatColumn] = []
        self._counts: list[npt.NDArray[np.int64]] = []
        self._held = 0
        self._limit = _HELD

    def add(self, values: FloatColumn) -> None:
        """Count values, shape (n,)."""
        distinct, counts = np.unique(values, return_counts=True)
        self._values.append(distinct)
        self._counts.append(counts.astype(np.int64))
        self._held += len(distinct)
        if self._held > self._limit:
            self._merge()
            self._limit = max(_HELD, 2 * self._held)

    def median(self) -> float:
        """Median of all that was added, as numpy.median gives it; ValueError for nothing."""
        self._merge()
        values, until = self._values[0], np.cumsum(self._counts[0])
        if not len(values):
            raise ValueError("no median of nothing")
        total = int(until[-1])
        middle = values[np.searchsorted(until, ((total - 1) // 2, total // 2), side="right")]
        return float(np.mean(middle))

    def _merge(self) -> None:
        values = np.concatenate([np.empty(0), *self._values])
        counts = np.concatenate([np.empty(0, np.int64), *self._counts])
        distinct, at = np.unique(values, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, at, counts)
        self._values, self._counts, self._held = [distinct], [sums], len(distinct)
