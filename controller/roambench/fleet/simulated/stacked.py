"""The stacked backend: one process that trains many devices' models as one batch, for GPUs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roambench.contract.errors import FleetError
from roambench.contract.json_values import from_values
from roambench.fleet.simulated.job import StackedSetting, TrainingJob, TrainingOutcome
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry

#: A batch of jobs that killed the process this often ends the run.
ATTEMPTS: Final = 3


class StackedTrainer:
    """The process is started again when it dies, and repeats the whole batch of jobs."""

    def __init__(self, setting: StackedSetting, folder: Path) -> None:
        self._setting = setting
        self._setting_path = folder / "stacked.json"
        self._setting_path.write_text(setting.to_json())
        self._log_path = folder / "stacked.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int:
        """The process that trains."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Wait until it has tried the model; FleetError says what it cannot load, stack or find."""
        environment = {**os.environ, "OMP_NUM_THREADS": str(self._setting.threads)}
        with self._log_path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "roambench.fleet.simulated.stacked_worker",
                str(self._setting_path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        self._process = process
        assert process.stdout is not None
        if await process.stdout.readline() != b"{}\n":
            await self.stop()
            raise FleetError(f"the stacked backend cannot start: {self._last_words()}")

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        """One outcome per job, in the order given. FleetError if the memory does not hold a stack."""
        if not jobs:
            return []
        for _ in range(ATTEMPTS):
            outcomes = await self._ask(jobs)
            if outcomes is not None:
                for index, outcome in enumerate(outcomes):
                    on_outcome(index, outcome)
                return outcomes
            await self.stop()
            await self.start()
        raise FleetError(
            f"the stacked backend died {ATTEMPTS} times over {len(jobs)} trainings (simulated.stack = "
            f"{self._setting.stack}): {self._last_words()}"
        )

    async def stop(self) -> None:
        """Kill the process: its work is not awaited."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _ask(self, jobs: Sequence[TrainingJob]) -> list[TrainingOutcome] | None:
        """The answers, or None if the process died (what it wrote to rows will be overwritten)."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        outcomes = []
        with contextlib.suppress(ConnectionError):
            process.stdin.write(b"".join(job.to_line() for job in jobs) + b"\n")
            await process.stdin.drain()
            for _ in jobs:
                line = await process.stdout.readline()
                if not line.endswith(b"\n"):
                    return None
                answer = json.loads(line)
                if "failed" in answer:
                    raise FleetError(f"the stacked backend: {answer['failed']}")
                outcomes.append(from_values(TrainingOutcome, answer, "stacked backend", finite=False))
            return outcomes
        return None

    def _last_words(self) -> str:
        tail = self._log_path.read_text(errors="replace").strip().splitlines()[-1:]
        return " ".join(tail) or "it said nothing"
