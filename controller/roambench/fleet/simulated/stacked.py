"""The stacked backend: one process that trains many devices' models as one batch, for GPUs.

Runs that meet in a folder share its process: trainings that wait at the same time are one batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import FleetError
from roambench.contract.json_values import from_values
from roambench.fleet.simulated.job import StackedSetting, TrainingJob, TrainingOutcome
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry

#: A batch of jobs that killed the process this often ends the run.
ATTEMPTS: Final = 3
#: The environment's name for the folder in which runs meet.
_MEETING: Final = "ROAMBENCH_STACKED_FOLDER"
_LOOK_S: Final = 0.05
#: Processes that were started here for all runs of a meeting: they end with the last of these.
_STARTED: Final[list[subprocess.Popen[bytes]]] = []


@contextlib.contextmanager
def shared_in(folder: Path) -> Iterator[None]:
    """Let the runs of all processes that are started here train in one process, which logs into `folder`."""
    os.environ[_MEETING] = str(folder.absolute())
    try:
        yield
    finally:
        del os.environ[_MEETING]


class StackedTrainer:
    """A run's line to the process of the folder in which it meets others; `folder` where it is alone.

    A process that dies is started again, and the whole batch of jobs repeated, then apart from others'.
    """

    def __init__(self, setting: StackedSetting, folder: Path) -> None:
        self._setting = setting
        self._is_alone = _MEETING not in os.environ
        self._folder = Path(os.environ.get(_MEETING, folder))
        self._log_path = self._folder / "stacked.log"
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._process: subprocess.Popen[bytes] | None = None  # if it was started here
        self.process_id = 0

    async def start(self) -> None:
        """Wait until it has tried the model; FleetError says what it cannot load, stack or find."""
        for _ in range(ATTEMPTS):
            try:
                reader, writer = self._line = await self._connected()
            except OSError as error:
                raise FleetError(
                    f"{self._folder}: the stacked backend cannot start: {error.strerror}"
                ) from None
            with contextlib.suppress(ConnectionError):
                writer.write(self._setting.to_json().encode() + b"\n")
                if answer := await _answer(reader):
                    if "failed" in answer:
                        await self.stop()
                        raise FleetError(f"the stacked backend cannot start: {answer['failed']}")
                    self.process_id = int(answer["pid"])
                    return
            await self.stop()
        raise FleetError(f"the stacked backend cannot start: {self._last_words()}")

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        """One outcome per job, in the order given. FleetError if the memory does not hold a stack."""
        deaths = 0
        while jobs and deaths < ATTEMPTS:
            began, outcomes = await self._ask(jobs, alone=deaths > 0)
            if outcomes is not None:
                for index, outcome in enumerate(outcomes):
                    on_outcome(index, outcome)
                return outcomes
            deaths += began  # else it died over another run's
            await self.stop()
            await self.start()
        if not jobs:
            return []
        raise FleetError(
            f"the stacked backend died {ATTEMPTS} times over {len(jobs)} trainings (simulated.stack = "
            f"{self._setting.stack}): {self._last_words()}"
        )

    async def stop(self) -> None:
        """Close the line; with its last one the process ends, its work is not awaited."""
        line, self._line = self._line, None
        if line is not None:
            line[1].close()
        process, self._process = self._process, None
        if process is not None and self._is_alone:
            process.kill()
            await asyncio.to_thread(process.wait)

    async def _ask(
        self, jobs: Sequence[TrainingJob], *, alone: bool
    ) -> tuple[bool, list[TrainingOutcome] | None]:
        """Return whether they were begun, and the answers, or None if the process died (what it wrote to rows
        will be overwritten)."""
        assert self._line is not None
        reader, writer = self._line
        began = False
        with contextlib.suppress(ConnectionError):
            head = json.dumps({"jobs": len(jobs), "alone": alone}).encode()
            writer.write(head + b"\n" + b"".join(job.to_line() for job in jobs))
            await writer.drain()
            if await _answer(reader) is None:
                return began, None
            began, outcomes = True, []
            for _ in jobs:
                answer = await _answer(reader)
                if answer is None:
                    return began, None
                if "failed" in answer:
                    raise FleetError(f"the stacked backend: {answer['failed']}")
                outcomes.append(from_values(TrainingOutcome, answer, "stacked backend", finite=False))
            return began, outcomes
        return began, None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A line to the process, which is started where there is none."""
        here = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            address = f"/proc/self/fd/{here}/stacked.socket"  # a socket's own path may have 107 bytes
            while True:
                ours = socket.socket(socket.AF_UNIX)
                with contextlib.suppress(FileNotFoundError, ConnectionError):
                    ours.connect(address)
                    return await asyncio.open_unix_connection(sock=ours)
                self._process = _started(self._folder, address, ours)
                if self._process is not None:
                    return await asyncio.open_unix_connection(sock=ours)
                ours.close()
                await asyncio.sleep(_LOOK_S)  # another starts it, or it ends
        finally:
            os.close(here)

    def _last_words(self) -> str:
        tail = self._log_path.read_text(errors="replace").strip().splitlines()[-1:]
        return " ".join(tail) or "it said nothing"


def _started(folder: Path, address: str, ours: socket.socket) -> subprocess.Popen[bytes] | None:
    """Start the process and connect to it; None where there is one or another run starts it.

    It holds its log locked as long as it lives, and ends with its last line: this one is there before it is.
    """
    with (folder / "stacked.log").open("ab") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        with contextlib.suppress(FileNotFoundError):
            (folder / "stacked.socket").unlink()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen(256)
            ours.connect(address)
            process = subprocess.Popen(
                [sys.executable, "-m", "roambench.fleet.simulated.stacked_worker", str(folder)],
                stdin=listening.fileno(),
                stdout=log,
                stderr=log,
                # Threads that spin while they wait take the cores from the runs: 8 times as long.
                env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
                start_new_session=True,  # it may outlive the run that starts it
            )
    _STARTED[:] = [one for one in _STARTED if one.poll() is None] + [process]
    return process


async def _answer(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """A line's JSON; None if there will be none."""
    line = await reader.readline()
    return dict(json.loads(line)) if line.endswith(b"\n") else None
