"""A training worker: one thread, one warm model, jobs from standard input until it ends.

python -m roambench.fleet.simulated.worker SETTING.json
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO

import numpy as np

from roambench.contract.errors import RoambenchError
from roambench.contract.orders import Vector
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.learning.learner import Learner
from roambench.learning.malloc import keep_freed_memory
from roambench.learning.shards import Shard
from roambench.learning.training import single_threaded


class TrainingWorker:
    """Carries out jobs one after the other; a job that cannot be done is an answer that says so."""

    def __init__(self, setting: WorkerSetting) -> None:
        single_threaded()
        keep_freed_memory()
        self._learner = Learner(setting.learning)
        self._images = np.load(setting.images_path, mmap_mode="r")
        self._labels = np.load(setting.labels_path, mmap_mode="r")
        self._parts = np.load(setting.parts_path, mmap_mode="r")
        self._offsets = np.load(setting.offsets_path)
        self._rows = ModelRows(Path(setting.models_path), setting.model_size, setting.model_capacity)
        self._learner.warm_up()

    def carry_out(self, job: TrainingJob) -> TrainingOutcome:
        try:
            result = self._learner.train(
                self._shard(job.device),
                self._rows.row(job.ap_row),
                self._model(job.own_row),
                self._model(job.global_row),
                local_epochs=job.local_epochs,
                seed=job.seed,
                start_rule=job.start_rule,
                objective=job.objective,
            )
        except (RoambenchError, ValueError, RuntimeError) as error:
            return TrainingOutcome(refused=str(error)[:500] or type(error).__name__)
        self._rows.row(job.out_row)[:] = result.vector
        return TrainingOutcome(
            "",
            result.samples,
            result.sgd_steps,
            result.mean_loss,
            result.mean_squared_loss,
            result.cpu_s,
        )

    def _shard(self, device: int) -> Shard:
        chosen = self._parts[self._offsets[device] : self._offsets[device + 1]]
        return Shard(np.asarray(self._images[chosen]), np.asarray(self._labels[chosen]))

    def _model(self, row: int) -> Vector | None:
        return None if row < 0 else self._rows.row(row)


def serve(worker: TrainingWorker, jobs: IO[bytes], answers: IO[bytes]) -> None:
    """Say that it is ready, then answer one line with one line."""
    answers.write(b"{}\n")
    answers.flush()
    for line in jobs:
        outcome = worker.carry_out(TrainingJob(**json.loads(line)))
        answers.write(json.dumps(asdict(outcome), separators=(",", ":")).encode() + b"\n")
        answers.flush()


def main(arguments: list[str]) -> int:
    # Ctrl-C reaches the whole process group; the controller ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    path = Path(arguments[0])
    try:
        worker = TrainingWorker(WorkerSetting.from_json(path.read_text(), str(path)))
    except (RoambenchError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    serve(worker, sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
