"""Whole runs on virtual devices in this process, stopped after so many batches of records.

Their trainer costs nothing: it mixes all models that a job names with noise of its seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from rich.console import Console

from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry
from roambench.rounds.records import RoundRecord
from roambench.runner import one_run
from roambench.runner.one_run import ProgressJournal
from roambench.runner.places import simulated

QUIET = Console(quiet=True)


class Mixing:
    """A `Trainer`: the mean of the job's models, and noise; the velocity is what the noise adds up to."""

    def __init__(self, rows: ModelRows) -> None:
        self._rows = rows

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        outcomes = []
        for index, job in enumerate(jobs):
            read = [self._rows.row(row) for row in job.read_rows if row >= 0]
            noise = np.random.default_rng(job.training.seed).normal(size=self._rows.size).astype(np.float32)
            if job.velocity_row >= 0:
                noise += 0.5 * self._rows.row(job.velocity_row)
            if job.velocity_out_row >= 0:
                self._rows.write(job.velocity_out_row, noise)
            self._rows.write(job.out_row, np.mean(read, axis=0) + np.float32(0.01) * noise)
            outcomes.append(TrainingOutcome("", 20, 2, 1.0, 1.0))
            on_outcome(index, outcomes[-1])
        return outcomes


class Cut(KeyboardInterrupt):
    pass


class CutShort(ProgressJournal):
    """Stops the run when so many batches of records were written."""

    left = -1

    def extend(self, records: Sequence[RoundRecord]) -> None:
        super().extend(records)
        CutShort.left -= 1
        if CutShort.left == 0:
            raise Cut


def cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this process train so, and stop when `CutShort.left` batches were written (-1: never)."""
    monkeypatch.setattr(simulated, "make_trainer", lambda section, setting, rows, folder: Mixing(rows))
    monkeypatch.setattr(one_run, "ProgressJournal", CutShort)
    CutShort.left = -1
