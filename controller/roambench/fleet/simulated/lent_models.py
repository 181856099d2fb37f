"""Rows of a run's models in an object store, each once and only as long as a job still needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from roambench.contract.orders import Vector
from roambench.fleet.simulated.job import TrainingJob
from roambench.fleet.simulated.model_rows import ModelRows


class LentModels:
    """`put` stores a model and returns its reference, which frees it when nobody holds it any more."""

    def __init__(self, rows: ModelRows, jobs: Sequence[TrainingJob], put: Callable[[Vector], Any]) -> None:
        self._rows = rows
        self._put = put
        self._uses = Counter(row for job in jobs for row in set(_needed(job)))
        self._lent: dict[int, Any] = {}

    def lend(self, row: int) -> Any:
        """The reference of a row; None for the row that stands for no model."""
        if row < 0:
            return None
        if row not in self._lent:
            self._lent[row] = self._put(np.array(self._rows.row(row)))
        return self._lent[row]

    def done(self, job: TrainingJob) -> None:
        """This job has its outcome: what nobody else needs is given up."""
        for row in set(_needed(job)):
            self._uses[row] -= 1
            if not self._uses[row]:
                self._lent.pop(row, None)


def _needed(job: TrainingJob) -> tuple[int, ...]:
    return tuple(row for row in job.read_rows if row >= 0)
