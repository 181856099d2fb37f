"""A training worker: one thread, one warm model, jobs from its line to the controller until that ends."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO

import numpy as np

from roambench.contract.orders import Vector
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.task_trainer import TaskTrainer


class TrainingWorker:
    """Carries out jobs one after the other; models are rows of the run's file."""

    def __init__(self, setting: WorkerSetting) -> None:
        self._trainer = TaskTrainer(
            setting.learning,
            np.load(setting.images_path, mmap_mode="r"),
            np.load(setting.labels_path, mmap_mode="r"),
            np.load(setting.parts_path, mmap_mode="r"),
            np.load(setting.offsets_path),
        )
        self._rows = ModelRows(
            Path(setting.models_path),
            setting.model_size,
            setting.model_capacity,
            precision=setting.learning.precision,
        )

    def carry_out(self, job: TrainingJob) -> TrainingOutcome:
        """Train, write the model into its row and return the outcome."""
        outcome, trained = self._trainer.carry_out(
            job,
            self._rows.row(job.ap_row),
            self._model(job.own_row),
            self._model(job.global_row),
            self._model(job.previous_row),
            self._model(job.velocity_row),
        )
        if trained is None:
            return outcome
        refused = self._rows.accept(job.out_row, trained.vector)
        if job.velocity_out_row >= 0 and trained.velocity is not None:
            refused = refused or self._rows.accept(job.velocity_out_row, trained.velocity)
        return TrainingOutcome(refused) if refused else outcome

    def _model(self, row: int) -> Vector | None:
        return None if row < 0 else self._rows.row(row)


def serve(worker: TrainingWorker, jobs: IO[bytes], answers: IO[bytes]) -> None:
    """Say that it is ready, then answer one line with one line."""
    answers.write(b"{}\n")
    answers.flush()
    for line in jobs:
        outcome = worker.carry_out(TrainingJob.of(json.loads(line)))
        answers.write(json.dumps(asdict(outcome), separators=(",", ":")).encode() + b"\n")
        answers.flush()
