"""The weighted mean of models that come one at a time: one accumulator, and no model is kept."""

from __future__ import annotations

import math

import numpy as np

from roambench.contract.orders import Vector
from roambench.vectors.sums import add_scaled, common_size


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
