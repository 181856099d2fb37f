"""The controller's end of the worker fork server: asks for workers and holds the line to each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import FleetError

_PATIENCE_S: Final = 5.0
#: Workers that are killed before they are warm are tried again so often.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class WorkerLink:
    """A worker process and the line on which it takes jobs and answers."""

    pid: int
    answers: asyncio.StreamReader
    jobs: asyncio.StreamWriter

    async def ask(self, line: bytes) -> bytes | None:
        """The worker's answer to a job, both with their line ends; None if it died."""
        with contextlib.suppress(ConnectionError):
            self.jobs.write(line)
            await self.jobs.drain()
            answer = await self.answers.readline()
            if answer.endswith(b"\n"):
                return answer
        self.jobs.close()
        return None

    async def end(self) -> None:
        """Let it finish what it does and end; kill it if that takes long."""
        with contextlib.suppress(ConnectionError):
            self.jobs.write_eof()
            try:
                await asyncio.wait_for(self.answers.read(), _PATIENCE_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
        self.jobs.close()


class WorkerForkServer:
    """Starts with the first worker that is asked for; one that was killed is replaced."""

    def __init__(self, setting_path: Path, log_path: Path) -> None:
        self._setting_path = setting_path
        self._log_path = log_path
        self._process: asyncio.subprocess.Process | None = None
        self._orders: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def fork(self) -> WorkerLink:
        """A warm worker. FleetError says what it could not load."""
        for _ in range(_ATTEMPTS):
            await self._ensure()
            said = self._output()
            link = await self._child()
            if link is not None:
                return link
            if not await self._has_died() and self._output() != said:
                break  # it says what is wrong, and would again; one that was killed says nothing
        tail = self._output().decode(errors="replace").strip().splitlines()[-1:]
        raise FleetError(f"a training worker cannot start: {' '.join(tail) or 'it said nothing'}")

    async def end(self) -> None:
        """Let the process end, and wait for it."""
        if self._process is None or self._orders is None:
            return
        self._orders.close()
        try:
            await asyncio.wait_for(self._process.wait(), _PATIENCE_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._process = self._orders = None

    async def _child(self) -> WorkerLink | None:
        assert self._orders is not None
        ours, theirs = socket.socketpair()
        answers, jobs = await asyncio.open_unix_connection(sock=ours)
        with theirs, contextlib.suppress(OSError):  # a fork server that has died shows at the first line
            socket.send_fds(self._orders, [b"w"], [theirs.fileno()])
        born, warm = await answers.readline(), await answers.readline()
        if warm != b"{}\n":
            jobs.close()
            return None
        return WorkerLink(int(json.loads(born)["pid"]), answers, jobs)

    def _output(self) -> bytes:
        return self._log_path.read_bytes()

    async def _has_died(self) -> bool:
        """By a signal, that is: one that ended by itself would do so again."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 0.2)
        return self._process.returncode is not None and self._process.returncode < 0

    async def _ensure(self) -> None:
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            if self._orders is not None:
                self._orders.close()
            self._orders, theirs = socket.socketpair()
            with theirs, self._log_path.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "roambench.fleet.simulated.worker_fork_server_process",
                    str(self._setting_path),
                    stdin=theirs.fileno(),
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
