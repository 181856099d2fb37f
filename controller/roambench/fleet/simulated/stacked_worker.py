"""The process that trains stacks: batches of jobs from standard input, an empty line ends each.

python -m roambench.fleet.simulated.stacked_worker SETTING.json
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Final

import numpy as np
import torch

from roambench.contract.errors import FleetError, RoambenchError
from roambench.contract.json_values import from_json
from roambench.contract.orders import Vector
from roambench.fleet.simulated.job import StackedSetting, TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.stacked_learner import StackedLearner, StackedTask
from roambench.learning.malloc import keep_freed_memory
from roambench.learning.shards import Shard
from roambench.learning.start_models import StartInputs, start_model
from roambench.learning.training import TrainingResult

#: Jobs that are made ready at a time: their start models and images are in memory together.
_PORTION: Final = 256


class StackedWorker:
    """Carries out any number of jobs; one that cannot be done is an answer that says so."""

    def __init__(self, setting: StackedSetting) -> None:
        worker = setting.worker
        self._batch_size = worker.learning.batch_size
        self._learner = StackedLearner(
            worker.learning,
            stack=setting.stack,
            device=computing_device(setting.device, setting.compute),
            autocast=setting.compute == "bfloat16",
        )
        self._portion = max(_PORTION, setting.stack)
        self._images = np.load(worker.images_path, mmap_mode="r")
        self._labels = np.load(worker.labels_path, mmap_mode="r")
        self._parts = np.load(worker.parts_path, mmap_mode="r")
        self._offsets = np.load(worker.offsets_path)
        self._rows = ModelRows(
            Path(worker.models_path),
            worker.model_size,
            worker.model_capacity,
            precision=worker.learning.precision,
        )

    def carry_out(self, jobs: Sequence[TrainingJob]) -> list[TrainingOutcome]:
        """Writes the models to their rows; one outcome per job, in the order given."""
        outcomes: list[TrainingOutcome] = []
        for start in range(0, len(jobs), self._portion):
            outcomes += self._carry_out(jobs[start : start + self._portion])
        return outcomes

    def _carry_out(self, jobs: Sequence[TrainingJob]) -> list[TrainingOutcome]:
        tasks = [self._task(job) for job in jobs]
        trained = iter(self._learner.train([task for task in tasks if isinstance(task, StackedTask)]))
        outcomes = []
        for job, task in zip(jobs, tasks, strict=True):
            result = task if isinstance(task, str) else next(trained)
            if isinstance(result, TrainingResult):
                result = self._rows.accept(job.out_row, result.vector) or result
            outcomes.append(_outcome(result))
        return outcomes

    def _task(self, job: TrainingJob) -> StackedTask | str:
        """The training that a job asks for, or why it cannot be done."""
        shard, global_model = self._shard(job.device), self._model(job.global_row)
        inputs = StartInputs(
            self._rows.row(job.ap_row),
            self._model(job.own_row),
            self._learner.head,
            global_model,
            self._model(job.previous_row),
        )
        try:
            start = start_model(job.training.start_rule, inputs)
        except (RoambenchError, ValueError) as error:
            return str(error)
        training = job.training
        steps = training.sgd_steps(len(shard.labels), self._batch_size)
        return StackedTask(shard, start, global_model, training.objective, steps, training.seed)

    def _shard(self, device: int) -> Shard:
        chosen = self._parts[self._offsets[device] : self._offsets[device + 1]]
        return Shard(np.asarray(self._images[chosen]), np.asarray(self._labels[chosen]))

    def _model(self, row: int) -> Vector | None:
        return None if row < 0 else self._rows.row(row)


def computing_device(wanted: str, compute: str) -> str:
    """Torch's name of it, with torch set for it: no TF32 unless asked. FleetError if there is none."""
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise FleetError('simulated.device = "cuda": torch finds no GPU here')
    chosen = "cuda" if there and wanted != "cpu" else "cpu"
    if compute == "tf32" and chosen == "cpu":
        raise FleetError('simulated.precision = "tf32": torch finds no GPU here')
    torch.backends.cuda.matmul.allow_tf32 = compute == "tf32"
    torch.backends.cudnn.allow_tf32 = compute == "tf32"
    torch.backends.cudnn.deterministic = True
    return chosen


def serve(worker: StackedWorker, lines: IO[bytes], answers: IO[bytes]) -> None:
    """Say that it is ready, then answer each batch of lines with one line per job, or with one failure."""
    answers.write(b"{}\n")
    answers.flush()
    for jobs in _batches(lines):
        try:
            outcomes = [asdict(outcome) for outcome in worker.carry_out(jobs)]
        except torch.OutOfMemoryError as error:
            reason = f"the stack does not fit into the memory of the GPU: lower simulated.stack ({error})"
            outcomes = [{"failed": reason}]
        except (RoambenchError, RuntimeError, ValueError, OSError) as error:
            outcomes = [{"failed": str(error) or type(error).__name__}]
        for outcome in outcomes:
            answers.write(json.dumps(outcome, separators=(",", ":")).encode() + b"\n")
        answers.flush()


def _batches(lines: IO[bytes]) -> Iterator[list[TrainingJob]]:
    jobs: list[TrainingJob] = []
    for line in lines:
        if line != b"\n":
            jobs.append(from_json(TrainingJob, line, "job"))
            continue
        yield jobs
        jobs = []


def _outcome(result: TrainingResult | str) -> TrainingOutcome:
    if isinstance(result, str):
        return TrainingOutcome(refused=result[:500])
    return TrainingOutcome(
        "", result.samples, result.sgd_steps, result.mean_loss, result.mean_squared_loss, result.cpu_s
    )


def main(arguments: list[str]) -> int:
    """The process that trains many devices as one batch; returns its exit status."""
    # Ctrl-C and a hang-up reach the whole process group; the controller ends its processes itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    path = Path(arguments[0])
    try:
        setting = StackedSetting.from_json(path.read_text(), str(path))
        torch.set_num_threads(setting.threads)
        keep_freed_memory()
        worker = StackedWorker(setting)
    except (RoambenchError, OSError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    serve(worker, sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    atexit.register(gc.freeze)  # else the end looks through all that torch left: 0.4 s
    sys.exit(main(sys.argv[1:]))
