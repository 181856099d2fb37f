"""The pool of training workers: a free one takes the next job; one that dies is replaced."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roambench.contract.errors import FleetError
from roambench.contract.json_values import from_json
from roambench.fleet.fork_server import ForkedProcess, ForkServer
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry

_WORKER: Final = "roambench.fleet.simulated.worker"
#: A job that killed this many workers is answered instead of being tried again.
ATTEMPTS: Final = 3
#: Workers that are killed before they are warm are tried again so often.
_STARTS: Final = 3
#: Jobs that a worker gets in one message: of small ones, handing over is as much work as the training.
_MOST_AT_ONCE: Final = 32


class TrainingWorkers:
    """`count` processes of one thread each; two with one thread do 1.7-2.6 times the work of one with two."""

    def __init__(self, setting: WorkerSetting, folder: Path, count: int) -> None:
        self._setting_path = folder / "workers.json"
        self._setting_path.write_text(setting.to_json())
        self._folder = folder
        self._fork_server = ForkServer([_WORKER], folder / "workers.log")
        self._count = count
        self._workers: list[ForkedProcess] = []

    @property
    def process_ids(self) -> list[int]:
        """The processes that train."""
        return [worker.pid for worker in self._workers]

    async def start(self) -> None:
        """Start all and wait until they are warm; FleetError says what one of them could not load."""
        forking = (self._fork(place) for place in range(self._count))
        starting = await asyncio.gather(*forking, return_exceptions=True)
        self._workers = [worker for worker in starting if isinstance(worker, ForkedProcess)]
        failures = [failure for failure in starting if isinstance(failure, BaseException)]
        if failures:
            await self.stop()
            raise failures[0]

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        """One outcome per job, in the order given, whichever worker did it and however often one died."""
        waiting = deque(enumerate(jobs))
        tries = [0] * len(jobs)
        outcomes: list[TrainingOutcome | None] = [None] * len(jobs)

        async def pull(place: int) -> None:
            while waiting:
                most, taken = self._at_once(len(waiting)), [waiting.popleft()]
                while len(taken) < most and not tries[taken[0][0]] and not tries[waiting[0][0]]:
                    taken.append(waiting.popleft())
                answers = await self._workers[place].ask([job.to_line() for _, job in taken])
                if answers is None:  # over one of them: each is tried alone; its row will be written over
                    self._workers[place] = await self._fork(place)
                for number, (index, job) in enumerate(taken):
                    if answers is None:
                        tries[index] += 1
                        if tries[index] < ATTEMPTS:
                            waiting.append((index, job))
                            continue
                        outcome = TrainingOutcome(refused=f"{ATTEMPTS} workers died over it")
                    else:
                        outcome = from_json(TrainingOutcome, answers[number], "worker", finite=False)
                    outcomes[index] = outcome
                    on_outcome(index, outcome)

        try:
            async with asyncio.TaskGroup() as pulling:
                for place in range(min(self._count, len(jobs))):
                    pulling.create_task(pull(place))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [outcome for outcome in outcomes if outcome is not None]

    def _at_once(self, waiting: int) -> int:
        """The number of jobs for a worker to take: few enough that all end together."""
        return max(1, min(_MOST_AT_ONCE, waiting if self._count == 1 else waiting // (4 * self._count)))

    async def stop(self) -> None:
        """End all workers."""
        await asyncio.gather(*(worker.end() for worker in self._workers))
        self._workers = []
        await self._fork_server.end()

    async def _fork(self, place: int) -> ForkedProcess:
        """A warm worker for this place. FleetError says what it could not load, or that it was killed."""
        log = self._folder / f"worker-{place + 1}.log"
        logs = (log, self._fork_server.log_path)
        for _ in range(_STARTS):
            before = [_printed(path) for path in logs]
            worker = await self._fork_server.fork(_WORKER, str(self._setting_path), log)
            if worker is not None:
                if await worker.answers.readline() == b"{}\n":
                    return worker
                worker.orders.close()
            if await self._fork_server.has_died():
                continue
            for path, known in zip(logs, before, strict=True):
                # It says what is wrong, and would again; one that was killed says nothing.
                if lines := _printed(path)[len(known) :].split("\n")[:-1]:
                    raise FleetError(f"a training worker cannot start: {lines[-1]}; see {path}")
        raise FleetError(
            f"a training worker cannot start: it was killed {_STARTS} times before it was ready; expected "
            f"memory enough (`dmesg` names what the kernel killed): fewer simulated.workers need less; see "
            f"{log}"
        )


def _printed(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""
