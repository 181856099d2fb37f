"""The pool of training workers: whoever is free takes the next job; one that dies is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roambench.contract.errors import FleetError
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting

#: A job that killed this many workers is answered instead of being tried again.
ATTEMPTS: Final = 3


class TrainingWorkers:
    """`count` processes of one thread each; two with one thread do 1.7-2.6 times the work of one with two."""

    def __init__(self, setting: WorkerSetting, folder: Path, count: int) -> None:
        self._setting_path = folder / "workers.json"
        self._setting_path.write_text(setting.to_json())
        self._log_path = folder / "workers.log"
        self._count = count
        self._workers: list[asyncio.subprocess.Process] = []

    @property
    def process_ids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    async def start(self) -> None:
        """Start all and wait until they are warm; FleetError says what one of them could not load."""
        starting = await asyncio.gather(*(self._spawn() for _ in range(self._count)), return_exceptions=True)
        self._workers = [worker for worker in starting if isinstance(worker, asyncio.subprocess.Process)]
        failures = [failure for failure in starting if isinstance(failure, BaseException)]
        if failures:
            await self.stop()
            raise failures[0]

    async def train(self, jobs: Sequence[TrainingJob]) -> list[TrainingOutcome]:
        """One outcome per job, in the order given, whichever worker did it and however often one died."""
        waiting = deque(enumerate(jobs))
        tries = [0] * len(jobs)
        outcomes: list[TrainingOutcome | None] = [None] * len(jobs)

        async def pull(place: int) -> None:
            while waiting:
                index, job = waiting.popleft()
                outcome = await self._ask(self._workers[place], job)
                if outcome is not None:
                    outcomes[index] = outcome
                    continue
                tries[index] += 1
                if tries[index] < ATTEMPTS:
                    waiting.append((index, job))
                else:
                    outcomes[index] = TrainingOutcome(refused=f"{ATTEMPTS} workers died over it")
                self._workers[place] = await self._spawn()

        try:
            async with asyncio.TaskGroup() as pulling:
                for place in range(min(self._count, len(jobs))):
                    pulling.create_task(pull(place))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [outcome for outcome in outcomes if outcome is not None]

    async def stop(self) -> None:
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.close()
        for worker in self._workers:
            try:
                await asyncio.wait_for(worker.wait(), 5.0)
            except TimeoutError:
                worker.kill()
                await worker.wait()
        self._workers = []

    async def _ask(self, worker: asyncio.subprocess.Process, job: TrainingJob) -> TrainingOutcome | None:
        """The worker's answer, or None if it died (what it wrote to the job's row will be overwritten)."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(ConnectionError):
            worker.stdin.write(job.to_line())
            await worker.stdin.drain()
            line = await worker.stdout.readline()
            if line.endswith(b"\n"):
                return TrainingOutcome(**json.loads(line))
        worker.stdin.close()
        await worker.wait()
        return None

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self._log_path.open("ab") as log:
            worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "roambench.fleet.simulated.worker",
                str(self._setting_path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        assert worker.stdout is not None
        if await worker.stdout.readline() != b"{}\n":
            await worker.wait()
            tail = self._log_path.read_text(errors="replace").strip().splitlines()[-1:]
            raise FleetError(f"a training worker cannot start: {' '.join(tail) or 'it said nothing'}")
        return worker
