"""Aggregation of models as they arrive, where what each counts is known then: one accumulator, no list."""

from __future__ import annotations

import numpy as np

from roambench.contract.orders import Vector
from roambench.vectors import RunningMean, Weights


class Folding:
    """One aggregation in progress. The order of `add` fixes the bits: callers add ascending by device."""

    def __init__(self) -> None:
        self._mean = RunningMean()
        self._shares: list[float] = []

    def add(self, model: Vector, share: float) -> None:
        """Fold in a flat model that counts `share`; it is not kept. ValueError for a negative share."""
        self._mean.add(model, share)
        self._shares.append(share)

    def close(self) -> tuple[Vector, Weights]:
        """The mean, and share / sum of shares of every model added. ValueError if all shares are 0."""
        mean = self._mean.mean()
        shares = np.array(self._shares, dtype=np.float64)
        weights: Weights = shares / np.sum(shares)
        return mean, weights
