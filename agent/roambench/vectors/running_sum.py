"""The sum of weighted models that come one at a time: one accumulator, and no model is kept."""

from __future__ import annotations

import numpy as np

from roambench.contract.orders import Vector
from roambench.vectors.sums import add_scaled, common_size


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
