"""Weights of models in an aggregation: by data size, all the same, or as known when it arrives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roambench.contract.orders import Vector
from roambench.vectors import RunningMean, Weights


def data_size_weights(samples: Sequence[int] | Weights) -> Weights:
    """n_m / (n_1 + n_2 + ...), HierFAVG's weights; float64 of shape (models,).

    Raises ValueError if there is no model, a count is negative, or no device has a sample.
    """
    counts = np.asarray(samples, dtype=np.float64)
    if counts.ndim != 1 or counts.size == 0:
        raise ValueError("data-size weights need at least one model's sample count")
    if (counts < 0).any():
        raise ValueError(f"sample counts cannot be negative: {list(samples)}")
    total = float(np.sum(counts))
    if total == 0.0:
        raise ValueError("data-size weights need at least one sample")
    weights: Weights = counts / total
    return weights


def equal_weights(models: int) -> Weights:
    """1 / models for each: the plain mean; float64 of shape (models,). ValueError if there is no model."""
    if models < 1:
        raise ValueError("a plain mean needs at least one model")
    return np.full(models, 1.0 / models, dtype=np.float64)


class Folding:
    """One aggregation of models as they arrive: one accumulator, no list.

    The order of `add` fixes the bits: callers add ascending by device.
    """

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
