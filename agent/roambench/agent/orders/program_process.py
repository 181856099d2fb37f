"""The other end of a program's process: started with limits, asked over a pipe, ended as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from roambench.agent.orders import program_host
from roambench.agent.orders.program_host import HEADER_BYTES, MOST_REFUSAL_BYTES, READY, REFUSAL, SETTINGS

#: Of what a program prints.
_MOST_LOG_BYTES: Final = 2**20
_PIECE_BYTES: Final = 2**16
_LOOK_S: Final = 0.01  # how often it is seen whether a killed process has ended
#: In the environment of a program and of what it starts.
_MARK: Final = "ROAMBENCH_PROGRAM"
_SWEEPS: Final = 20  # a process may fork while it is looked for
_TICK_S: Final = 1.0 / os.sysconf("SC_CLK_TCK")
#: Paths that no program of this process may read.
_hidden: list[str] = []


@contextlib.contextmanager
def hidden_from_programs(paths: Iterable[Path]) -> Iterator[None]:
    """Keep those files, and what is below those folders, from all programs that are started in the body."""
    before = len(_hidden)
    _hidden.extend(str(path) for path in paths)
    try:
        yield
    finally:
        del _hidden[before:]


class ProgramEnded(Exception):
    """The process ended, or answered what is no answer and was ended."""


class ProgramProcess:
    """A running program. No frame of more than `most_bytes` is kept."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, most_bytes: int, mark: str) -> None:
        self._process = process
        self._most_bytes = most_bytes
        self._mark = f"{_MARK}={mark}".encode()
        self._last = b""
        self._killed = False
        self._log = asyncio.create_task(self._keep_log(log), name="program's log")

    @classmethod
    async def start(
        cls,
        file: Path,
        mode: str,
        settings: str,
        *,
        python: str,
        folder: Path,
        log: Path,
        memory_bytes: int,
        most_bytes: int,
        hidden: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> ProgramProcess:
        """Start the program in `file` with `folder` as its current one; what it prints is kept in `log`; it
        cannot read what is `hidden`. It has the variables of this process and those of `environment`. OSError
        where the interpreter cannot be started."""
        folder.mkdir(parents=True, exist_ok=True)
        mark = uuid.uuid4().hex
        process = await asyncio.create_subprocess_exec(
            python or sys.executable,
            "-P",
            str(Path(program_host.__file__).resolve()),
            str(file.resolve()),
            mode,
            str(memory_bytes),
            json.dumps([*_hidden, *hidden]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **(environment or {}), _MARK: mark},
            start_new_session=True,
        )
        made = cls(process, log, most_bytes, mark)
        await made.send(SETTINGS, settings.encode())
        return made

    @property
    def is_alive(self) -> bool:
        """Return whether the process runs and was not killed."""
        return not self._killed and self._process.returncode is None

    @property
    def cpu_s(self) -> float:
        """Processor seconds of the process so far, to the nanosecond, and of its children that ended, to a
        clock tick: as the kernel has them, not as the program says. ProgramEnded where it has ended."""
        pid = self._process.pid
        try:
            own_s = time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of that process
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            raise ProgramEnded("its program ended") from None
        return own_s + (int(fields[13]) + int(fields[14])) * _TICK_S

    @property
    def rss_bytes(self) -> int:
        """Resident memory of the process; 0: it has ended."""
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGESIZE")

    async def ask(self, letter: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Send a frame and return the next one that comes. ProgramEnded if none does."""
        await self.send(letter, body)
        return await self.receive()

    async def send(self, letter: bytes, body: bytes) -> None:
        """Send a frame."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # it has ended: what is received says so
            self._process.stdin.write(letter + len(body).to_bytes(8, "big"))
            self._process.stdin.write(body)
            await self._process.stdin.drain()

    async def receive(self) -> tuple[bytes, bytes]:
        """The letter and the body of the next frame. ProgramEnded where there is none: of one that is too
        long nothing is kept, and the process is ended."""
        assert self._process.stdout is not None
        try:
            header = await self._process.stdout.readexactly(HEADER_BYTES)
            letter, length = header[:1], int.from_bytes(header[1:], "big")
            most_bytes = {READY: 0, REFUSAL: MOST_REFUSAL_BYTES}.get(letter, self._most_bytes)
            if length > most_bytes:
                await self.end()
                raise ProgramEnded(f"its program sent {length:,} bytes, expected {most_bytes:,} at most")
            return letter, await self._process.stdout.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.kill()
            raise ProgramEnded(await self._end_in_words()) from None

    def kill(self) -> None:
        """End the process and what it forked, also out of its session."""
        self._killed = True
        lives, pid = self._process.returncode is None, self._process.pid
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if lives:
                os.kill(pid, signal.SIGSTOP)  # what it forked is its own, or becomes so, until it has ended
        _end_forked(self._mark, pid if lives else 0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    async def end(self) -> None:
        """End the process and what it forked, and wait for that."""
        self.kill()
        self._process._transport.close()  # type: ignore[attr-defined]  # our ends of its pipes: no public way
        await self._exit_status()
        self._log.cancel()

    async def _exit_status(self) -> int:
        """Not `wait`, which first waits for the end of all pipes: the end of a full one is never read,
        and a child that escaped holds it open."""
        while self._process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        return self._process.returncode

    async def _end_in_words(self) -> str:
        status = await self._exit_status()
        await asyncio.wait({self._log}, timeout=1.0)
        ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        last = self._last.decode(errors="replace").strip().rpartition("\n")[2]
        return f"its program ended ({ended})" + (f": {last[:200]}" if last else "")

    async def _keep_log(self, path: Path) -> None:
        """Write down what is printed, the first of it, and remember the last."""
        assert self._process.stderr is not None
        with path.open("ab") as log:
            while piece := await self._process.stderr.read(_PIECE_BYTES):
                self._last = (self._last + piece)[-1000:]
                if log.tell() < _MOST_LOG_BYTES:
                    log.write(piece)
                    log.flush()


def _end_forked(mark: bytes, pid: int) -> None:
    """End all descendants of process `pid` (0: none), and all that were started with the mark in their
    environment, but not `pid` itself."""
    for _ in range(_SWEEPS):
        parents: dict[int, int] = {}
        found = set[int]()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(folder.name)] = int(parent)
                    if mark in (folder / "environ").read_bytes():
                        found.add(int(folder.name))
        for each in parents:
            line = [each]
            while (above := parents.get(line[-1], 0)) and pid not in line:
                line.append(above)
            if pid and line[-1] == pid:
                found.add(each)
        for each in found - {pid}:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)
        if not found - {pid}:
            return
