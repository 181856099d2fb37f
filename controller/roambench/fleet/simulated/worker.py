"""A training worker: one thread, one warm model, jobs from its line to the controller until that ends.

Its trainer carries out a job wherever the models come from: the same in every process that trains.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import RoambenchError
from roambench.contract.json_values import from_json, plain
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import Vector
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.learning.batches import Batches
from roambench.learning.learner import Learner
from roambench.learning.malloc import keep_freed_memory
from roambench.learning.shards import Images, Labels, Shard
from roambench.learning.training import TrainingResult, single_threaded

Places = npt.NDArray[np.int64]
#: Of devices' data that passed the model's first layers already.
_MOST_PREPARED_BYTES: Final = 32 * 1024 * 1024
_MESSAGE_BYTES: Final = 1 << 16


class TaskTrainer:
    """One warm thread with the training set. `parts` holds every device's indices one after the other,
    `offsets` where each device's begin (one more entry than devices)."""

    def __init__(
        self, learning: LearningSpec, images: Images, labels: Labels, parts: Places, offsets: Places
    ) -> None:
        single_threaded()
        keep_freed_memory()
        self._learner = Learner(learning)
        self._images, self._labels = images, labels
        self._parts, self._offsets = parts, offsets
        self._prepared: dict[int, Batches] = {}
        self._room_bytes = _MOST_PREPARED_BYTES
        self._learner.warm_up(self._shard(0))

    def carry_out(
        self,
        job: TrainingJob,
        ap_model: Vector,
        own_model: Vector | None,
        global_model: Vector | None,
        previous_model: Vector | None,
        velocity: Vector | None = None,
        kept: Vector | None = None,
    ) -> tuple[TrainingOutcome, TrainingResult | None]:
        """The outcome and what was trained; a job that cannot be done is an outcome that says so."""
        try:
            result = self._learner.train(
                self._data(job.device),
                job.training,
                ap_model,
                own_model,
                global_model,
                previous_model,
                velocity=velocity,
                keeps_velocity=job.velocity_out_row >= 0,
                kept=kept,
            )
        except (RoambenchError, ValueError, RuntimeError) as error:
            return TrainingOutcome(refused=str(error)[:500] or type(error).__name__), None
        outcome = TrainingOutcome(
            "",
            result.samples,
            result.sgd_steps,
            result.mean_loss,
            result.mean_squared_loss,
            result.cpu_s,
        )
        return outcome, result

    def _data(self, device: int) -> Shard | Batches:
        """The device's data, prepared once as far as there is room."""
        if (known := self._prepared.get(device)) is not None:
            return known
        shard = self._shard(device)
        if self._room_bytes <= 0 or (made := self._learner.prepared(shard)) is None:
            return shard
        self._prepared[device] = made
        self._room_bytes -= made.nbytes
        return made

    def _shard(self, device: int) -> Shard:
        chosen = self._parts[self._offsets[device] : self._offsets[device + 1]]
        return Shard(np.asarray(self._images[chosen]), np.asarray(self._labels[chosen]))


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
            self._model(job.kept_row),
        )
        if trained is None:
            return outcome
        refused = self._rows.accept(job.out_row, trained.vector)
        if job.velocity_out_row >= 0 and trained.velocity is not None:
            refused = refused or self._rows.accept(job.velocity_out_row, trained.velocity)
        if job.kept_out_row >= 0 and trained.kept is not None:
            whole = np.zeros(self._rows.size, trained.kept.dtype)
            whole[: trained.kept.size] = trained.kept
            refused = refused or self._rows.accept(job.kept_out_row, whole)
        return TrainingOutcome(refused) if refused else outcome

    def _model(self, row: int) -> Vector | None:
        return None if row < 0 else self._rows.row(row)


def serve(worker: TrainingWorker, link: socket.socket) -> None:
    """Say that it is ready, then answer one line with one line: those that came together, together."""
    link.sendall(b"{}\n")
    rest = b""
    while came := link.recv(_MESSAGE_BYTES):
        *lines, rest = (rest + came).split(b"\n")
        answers = b""
        for line in lines:
            outcome = worker.carry_out(from_json(TrainingJob, line, "job"))
            answers += json.dumps(outcome, default=plain, separators=(",", ":")).encode() + b"\n"
        link.sendall(answers)


def forked(setting_path: str) -> int:
    """Be a worker with the setting in this file until its line to the controller, standard input, ends."""
    try:
        setting = WorkerSetting.from_json(Path(setting_path).read_text(), setting_path)
        with socket.socket(fileno=os.dup(0)) as link:
            serve(TrainingWorker(setting), link)
    except ConnectionError:
        pass  # the controller is gone
    except (RoambenchError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
