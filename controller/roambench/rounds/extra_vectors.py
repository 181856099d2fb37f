"""Named vectors that travel behind every model of a run, and how they are merged; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from roambench.contract.extra_vectors import Merge
from roambench.contract.orders import Vector
from roambench.vectors import Weights, weighted_mean


@dataclass(frozen=True, slots=True)
class ExtraVectors:
    """The layout of what travels: a flat model of `model_size` entries, then each of `merges`' vectors with
    `length` entries, the model's trained parameters. Without `merges` it is the model alone."""

    model_size: int = 0
    length: int = 0
    merges: Mapping[str, Merge] = field(default_factory=dict)
    devices: int = 0  # of the experiment

    @property
    def size(self) -> int:
        """Entries of what travels."""
        return self.model_size + self.length * len(self.merges)

    def first(self, model: Vector) -> Vector:
        """Return what the first download has: the model, and vectors of zeros."""
        if not self.merges:
            return model
        return np.concatenate([model, np.zeros(self.size - self.model_size, model.dtype)])

    def model(self, travelled: Vector) -> Vector:
        """The model of what travelled, a view."""
        return travelled[: self.model_size] if self.merges else travelled

    def named(self, travelled: Sequence[Vector]) -> dict[str, list[Vector]]:
        """The vectors of what travelled by name, in the order given; views."""
        return {
            name: [one[self._place(number)] for one in travelled] for number, name in enumerate(self.merges)
        }

    def at_edge(self, model: Vector, before: Vector, came: Sequence[Vector], weights: Weights) -> Vector:
        """Return what an AP has after an aggregation of what `came`: its new `model`, and for MEAN the mean
        of the vectors by the models' weights, for SUM what it had before plus their sum over all devices."""
        if not self.merges:
            return model
        share = np.full(len(came), 1.0 / self.devices)
        return self._with(model, before, came, weights, [1.0, *share])

    def in_cloud(self, model: Vector, before: Vector, came: Sequence[Vector], weights: Weights) -> Vector:
        """Return what the cloud has after an aggregation of its APs: for SUM, what every AP added is
        added."""
        if not self.merges:
            return model
        return self._with(model, before, came, weights, [1.0 - len(came), *[1.0] * len(came)])

    def _with(
        self, model: Vector, before: Vector, came: Sequence[Vector], weights: Weights, scales: Sequence[float]
    ) -> Vector:
        pieces = [model]
        for number, merge in enumerate(self.merges.values()):
            place = self._place(number)
            vectors = [one[place] for one in came]
            if merge is Merge.SUM:
                pieces.append(weighted_mean([before[place], *vectors], np.asarray(scales, np.float64)))
            else:
                pieces.append(weighted_mean(vectors, weights))
        return np.concatenate(pieces)

    def _place(self, number: int) -> slice:
        start = self.model_size + number * self.length
        return slice(start, start + self.length)


#: What travels where a local algorithm has no vectors.
MODEL_ALONE: Final = ExtraVectors()
