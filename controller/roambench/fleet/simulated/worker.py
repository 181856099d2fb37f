"""A training worker: one thread, one warm model, jobs from its line to the controller until that ends.

Its trainer carries out a job wherever the models come from: the same in every process that trains.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import RoambenchError, reason_of
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

#: Of a job: the AP's, the device's own, the global and the previous AP's model, the velocity, what is kept.
Models = tuple[Vector, Vector | None, Vector | None, Vector | None, Vector | None, Vector | None]
Done = tuple[TrainingOutcome, TrainingResult | None]
Places = npt.NDArray[np.int64]
#: Of devices' data that passed the model's first layers already.
_MOST_PREPARED_BYTES: Final = 32 * 1024 * 1024
_MESSAGE_BYTES: Final = 1 << 16
#: Of what is trained at once: more would leave the processor's cache, and larger models gain nothing.
_MOST_STACKED_BYTES: Final = 4 << 20
_MODELS_EACH: Final = 4  # itself, its gradient, its velocity, an anchor


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
        self._same_bits: dict[tuple[object, int], bool] = {}  # of trainings at once, by length and samples
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
    ) -> Done:
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
        except Exception as error:  # a user's model may raise anything
            return TrainingOutcome(refused=reason_of(error)[:500]), None
        return _outcome(result), result

    def carry_out_alike(self, jobs: Sequence[TrainingJob], models: Sequence[Models]) -> list[Done]:
        """The same of several jobs, those of one length at once as far as the model allows: `models` are
        those that `carry_out` takes. The first of each length and number of samples are also trained one by
        one: where the bits are not the same on this processor, they are never trained at once."""
        done: dict[int, Done] = {}
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, (job, found) in enumerate(zip(jobs, models, strict=True)):
            data, training = self._data(job.device), job.training
            if isinstance(data, Batches) and self._learner.stacks(training.objective):
                have = [model is None for model in (found[2], found[4])]
                steps = self._learner.steps(training, data.samples)
                alike = (training.objective, *steps, job.velocity_out_row < 0, *have)
                if self._same_bits.get((alike, data.samples), True):
                    groups.setdefault(alike, []).append(index)
        for alike, group in groups.items():
            largest = max(
                data.nbytes for index in group if isinstance(data := self._data(jobs[index].device), Batches)
            )
            most = _MOST_STACKED_BYTES // (
                largest + _MODELS_EACH * self._learner.layout.size * models[0][0].itemsize
            )
            for start in range(0, len(group), most) if most > 1 else ():
                if len(some := group[start : start + most]) > 1:
                    done |= self._at_once(alike, some, jobs, models)
        return [
            done.get(index) or self.carry_out(job, *found)
            for index, (job, found) in enumerate(zip(jobs, models, strict=True))
        ]

    def _at_once(
        self,
        alike: tuple[object, ...],
        group: Sequence[int],
        jobs: Sequence[TrainingJob],
        models: Sequence[Models],
    ) -> dict[int, Done]:
        """Outcomes of the group, by place; without those that fail, which tell why when they train alone."""
        batches = [data for index in group if isinstance(data := self._data(jobs[index].device), Batches)]
        try:
            results = self._learner.train_alike(
                batches,
                [jobs[index].training for index in group],
                [models[index][:4] for index in group],
                [models[index][4] for index in group],
                keeps_velocity=jobs[group[0]].velocity_out_row >= 0,
            )
        except Exception:
            return {}
        done, known = dict[int, Done](), set(self._same_bits)
        for index, mine, result in zip(group, batches, results, strict=True):
            kind = alike, mine.samples
            if result is not None and kind in known:
                done[index] = _outcome(result), result
            elif result is not None:
                _, alone = done[index] = self.carry_out(jobs[index], *models[index])
                same = self._same_bits.get(kind, True) and _bits(alone) == _bits(result)
                self._same_bits[kind] = same
        return done

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

    def carry_out(self, jobs: Sequence[TrainingJob]) -> list[TrainingOutcome]:
        """Train, write the models into their rows and return the outcomes."""
        models: list[Models] = [
            (
                self._rows.row(job.ap_row),
                self._model(job.own_row),
                self._model(job.global_row),
                self._model(job.previous_row),
                self._model(job.velocity_row),
                self._model(job.kept_row),
            )
            for job in jobs
        ]
        done = self._trainer.carry_out_alike(jobs, models)
        return [self._written(job, *found) for job, found in zip(jobs, done, strict=True)]

    def _written(
        self, job: TrainingJob, outcome: TrainingOutcome, trained: TrainingResult | None
    ) -> TrainingOutcome:
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


def _outcome(result: TrainingResult) -> TrainingOutcome:
    return TrainingOutcome(
        "", result.samples, result.sgd_steps, result.mean_loss, result.mean_squared_loss, result.cpu_s
    )


def _bits(result: TrainingResult | None) -> object:
    """All of a result but the time that it took."""
    if result is None:
        return None
    velocity = b"" if result.velocity is None else result.velocity.tobytes()
    return result.vector.tobytes(), velocity, result.mean_loss, result.mean_squared_loss


def serve(worker: TrainingWorker, link: socket.socket) -> None:
    """Say that it is ready, then answer one line with one line: those that came together, together."""
    link.sendall(b"{}\n")
    rest = b""
    while came := link.recv(_MESSAGE_BYTES):
        *lines, rest = (rest + came).split(b"\n")
        answers = b""
        for outcome in worker.carry_out([from_json(TrainingJob, line, "job") for line in lines]):
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
    except Exception as error:  # of a user's model, too
        if not isinstance(error, RoambenchError):
            traceback.print_exception(error)
        print(reason_of(error), file=sys.stderr)  # the last line is what the run says
        return 1
    return 0
