"""The process that trains stacks: all trainings that wait when it becomes free are one batch.

python -m roambench.fleet.simulated.stacked_worker FOLDER

Its standard input is a listening socket, in the folder `stacked.socket`. A run's line: its setting, answered
with the process or why that cannot be; then heads and as many jobs as they say, answered with an empty object
when they are begun and an outcome per job, or one failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
import torch

from roambench.contract.errors import FleetError, RoambenchError, reason_of
from roambench.contract.json_values import from_json
from roambench.contract.link_codecs import NOT_CODED
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
#: Of runs with an equal one, trainings go into one stack.
Key = tuple[object, ...]


class StackedRun:
    """One run's files, and the learner that it shares with those of its `key`."""

    def __init__(self, setting: StackedSetting, learners: WeakValueDictionary[Key, StackedLearner]) -> None:
        worker = setting.worker
        self.setting = setting
        # What travels, and how, is no matter of training.
        learning = replace(worker.learning, codecs=NOT_CODED, shard="")
        self.key: Key = (learning, setting.stack, setting.device, setting.compute)
        learner = learners.get(self.key)
        if learner is None:
            learner = learners[self.key] = StackedLearner(
                learning,
                stack=setting.stack,
                device=computing_device(setting.device, setting.compute),
                autocast=setting.compute == "bfloat16",
            )
        self.learner = learner
        self._batch_size = learning.batch_size
        self._images = np.load(worker.images_path, mmap_mode="r")
        self._labels = np.load(worker.labels_path, mmap_mode="r")
        self._parts = np.load(worker.parts_path, mmap_mode="r")
        self._offsets = np.load(worker.offsets_path)
        self.rows = ModelRows(
            Path(worker.models_path),
            worker.model_size,
            worker.model_capacity,
            precision=learning.precision,
        )

    def task(self, job: TrainingJob) -> StackedTask | str:
        """The training that a job asks for, or why it cannot be done."""
        shard, global_model = self._shard(job.device), self._model(job.global_row)
        inputs = StartInputs(
            self.rows.row(job.ap_row),
            self._model(job.own_row),
            self.learner.head,
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
        return None if row < 0 else self.rows.row(row)


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


def carry_out(work: Sequence[tuple[StackedRun, TrainingJob]]) -> list[TrainingOutcome]:
    """Write the models of runs with one `key` to their rows; one outcome per job, in the order given. One
    that cannot be done is an answer that says so."""
    first = work[0][0]
    computing_device(first.setting.device, first.setting.compute)  # for all of torch
    portion = max(_PORTION, first.setting.stack)
    outcomes: list[TrainingOutcome] = []
    for start in range(0, len(work), portion):
        part = work[start : start + portion]
        tasks = [run.task(job) for run, job in part]
        trained = iter(first.learner.train([task for task in tasks if isinstance(task, StackedTask)]))
        for (run, job), task in zip(part, tasks, strict=True):
            result = task if isinstance(task, str) else next(trained)
            if isinstance(result, TrainingResult):
                result = run.rows.accept(job.out_row, result.vector) or result
            outcomes.append(_outcome(result))
    return outcomes


@dataclass(frozen=True, slots=True)
class _Request:
    """Jobs of one run. `alone`: the process died over them."""

    run: StackedRun
    jobs: list[TrainingJob]
    alone: bool
    writer: asyncio.StreamWriter

    def say(self, *answers: dict[str, object]) -> None:
        if not self.writer.is_closing():
            lines = (json.dumps(answer, separators=(",", ":")).encode() + b"\n" for answer in answers)
            self.writer.write(b"".join(lines))


class StackedServer:
    """Serves the lines of runs until the last one ends."""

    def __init__(self, folder: Path) -> None:
        self._socket_path = folder / "stacked.socket"
        self._learners: WeakValueDictionary[Key, StackedLearner] = WeakValueDictionary()
        self._pending: list[_Request] = []  # in the order of their coming
        self._runs: list[StackedRun] = []
        self._lines = 0
        self._trainings = self._stacks = 0  # so far
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)  # so that lines are heard while it trains

    async def serve(self, listening: socket.socket) -> None:
        """Train what waits, stack by stack."""
        async with await asyncio.start_unix_server(self._heard, sock=listening):
            while True:
                await self._wake.wait()
                self._wake.clear()
                while requests := self._taken():
                    for request in requests:
                        request.say({})
                    await self._in_thread(requests)

    def _taken(self) -> list[_Request]:
        """Take the request that has waited longest, and those that train with it."""
        if not self._pending:
            return []
        first = self._pending[0]
        taken = [
            request
            for request in self._pending
            if request is first or not (request.alone or first.alone or request.run.key != first.run.key)
        ]
        self._pending = [request for request in self._pending if request not in taken]
        return taken

    async def _in_thread(self, requests: list[_Request]) -> None:
        """Answer all; where one of several makes them fail, each is tried alone. A run that has gone is left
        out: its rows may be others' to write."""
        requests = [request for request in requests if not request.writer.is_closing()]
        if not requests:
            return
        work = [(request.run, job) for request in requests for job in request.jobs]
        threads = min(os.cpu_count() or 1, sum(run.setting.threads for run in self._runs))

        def trained() -> list[TrainingOutcome] | str:
            torch.set_num_threads(max(1, threads))
            try:
                return carry_out(work)
            except torch.OutOfMemoryError as error:
                return f"the stack does not fit into the memory of the GPU: lower simulated.stack ({error})"
            except Exception as error:  # of a user's model or loss, too: other runs go on
                return reason_of(error)

        learner = requests[0].run.learner
        trainings, stacks = learner.trainings, learner.stacks
        found = await asyncio.get_running_loop().run_in_executor(self._thread, trained)
        self._trainings += learner.trainings - trainings
        self._stacks += learner.stacks - stacks
        if isinstance(found, str):
            if len(requests) == 1:
                requests[0].say({"failed": found})
                return
            for request in requests:
                await self._in_thread([request])
            return
        outcomes = iter(found)
        for request in requests:
            request.say(*(asdict(next(outcomes)) for _ in request.jobs))

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A run's line, from its setting to its end."""
        self._lines += 1
        run: StackedRun | None = None
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                text = await reader.readuntil()
                run = await self._opened(text, writer)
                while run is not None:
                    head = json.loads(await reader.readuntil())
                    jobs = [
                        from_json(TrainingJob, await reader.readuntil(), "job") for _ in range(head["jobs"])
                    ]
                    self._pending.append(_Request(run, jobs, head["alone"], writer))
                    self._wake.set()
        finally:
            self._lines -= 1
            if not self._lines:
                self._socket_path.unlink(missing_ok=True)
                print(f"{self._trainings} trainings in {self._stacks} stacks", flush=True)
                os._exit(0)  # what it trains no run wants
            writer.close()
            self._pending = [request for request in self._pending if request.writer is not writer]
            if run is not None:
                self._runs.remove(run)
                # After what it trains now.
                await asyncio.get_running_loop().run_in_executor(self._thread, run.rows.leave)

    async def _opened(self, text: bytes, writer: asyncio.StreamWriter) -> StackedRun | None:
        def opened() -> StackedRun | str:
            try:
                return StackedRun(StackedSetting.from_json(text.decode(), "setting"), self._learners)
            except Exception as error:  # of a user's model, too: other runs go on
                return reason_of(error)

        run = await asyncio.get_running_loop().run_in_executor(self._thread, opened)
        failed = isinstance(run, str)
        writer.write(json.dumps({"failed": run} if failed else {"pid": os.getpid()}).encode() + b"\n")
        if isinstance(run, str):
            return None
        self._runs.append(run)
        return run


def _outcome(result: TrainingResult | str) -> TrainingOutcome:
    if isinstance(result, str):
        return TrainingOutcome(refused=result[:500])
    return TrainingOutcome(
        "", result.samples, result.sgd_steps, result.mean_loss, result.mean_squared_loss, result.cpu_s
    )


def main(arguments: list[str]) -> int:
    """The process that trains many devices as one batch; it ends with the last run's line."""
    # Ctrl-C and a hang-up reach the whole process group; runs end their lines themselves.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    keep_freed_memory()
    asyncio.run(StackedServer(Path(arguments[0])).serve(socket.socket(fileno=0)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
