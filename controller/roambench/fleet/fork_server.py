"""The other end of the fork server: asks for processes and holds the line to each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

#: Host seconds in which a process that was killed has let go of all that it held.
_MOMENT_S: Final = 2.0
_LOOK_S: Final = 0.01
#: Seconds to end in. Who is killed then is merely slow, perhaps, but nothing of it is wanted any more.
_PATIENCE_S: Final = 5.0

#: How a process asks the server that was forked from it for others, or, if it was forked itself, and may, the
#: one that forked it.
inherited: socket.socket | None = None
#: Sums do not depend on the number of cores, and no thread is there when a process is forked.
ONE_THREAD: Final = MappingProxyType({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A process of the fork server and the line to it, which is its standard input."""

    pid: int
    answers: asyncio.StreamReader
    orders: asyncio.StreamWriter

    async def ask(self, lines: Sequence[bytes]) -> list[bytes] | None:
        """Its answers to lines, all with their line ends; None if it died."""
        with contextlib.suppress(ConnectionError):
            self.orders.write(b"".join(lines))
            await self.orders.drain()
            answers = [await self.answers.readline() for _ in lines]
            if answers[-1].endswith(b"\n"):
                return answers
        self.orders.close()
        return None

    async def ended(self) -> int | None:
        """The exit status of one that was asked for with `tells_end`, negative for a signal; None where the
        server that would tell it was killed."""
        status = None
        with contextlib.suppress(ConnectionError):
            while status is None and (line := await self.answers.readline()):
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    status = int(json.loads(line)["status"])
        self.orders.close()
        return status

    async def end(self) -> None:
        """Let it finish what it does and end; kill it if that takes long: its work is not awaited."""
        with contextlib.suppress(ConnectionError):
            self.close_input()
            try:
                await asyncio.wait_for(self.answers.read(), _PATIENCE_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
        self.orders.close()

    def close_input(self) -> None:
        """Its standard input is at an end; what it says can still be read."""
        with contextlib.suppress(OSError):
            self.orders.write_eof()


class ForkServer:
    """Starts with the first process that is asked for, has `modules` loaded, and prints into `log_path`; one
    that was killed is replaced. A process that was forked itself, and may, asks the one that it came from.
    It may be asked in one event loop after the other."""

    def __init__(self, modules: Sequence[str], log_path: Path) -> None:
        self._modules = modules
        self.log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = inherited
        self._lines: list[asyncio.StreamWriter] = []

    async def fork(
        self,
        module: str,
        argument: str,
        log_path: Path,
        *,
        tells_end: bool = False,
        may_fork: bool = False,
        holds: Sequence[int] = (),
    ) -> ForkedProcess | None:
        """A process that runs `forked(argument)` of the module; None if it or the server died at once.

        `tells_end`: the server tells how it ended. `may_fork`: it may ask the server for processes itself.
        `holds`: at most one open file that it keeps open, such as one that is locked as long as it lives.
        """
        self._ensure()
        assert self._orders is not None
        ours, theirs = socket.socketpair()
        answers, orders = await asyncio.open_unix_connection(sock=ours)
        self._lines = [line for line in self._lines if not line.is_closing()] + [orders]
        order = {"module": module, "argument": argument, "tells_end": tells_end, "may_fork": may_fork}
        with theirs, log_path.open("ab") as log, contextlib.suppress(OSError):
            own = [self._orders.fileno()] if may_fork else []
            files = [theirs.fileno(), log.fileno(), *own, *holds]
            # One that has died shows at the first line.
            socket.send_fds(self._orders, [json.dumps(order).encode()], files)
        with contextlib.suppress(ConnectionError):
            born = await answers.readline()
            if born.endswith(b"\n"):
                return ForkedProcess(int(json.loads(born)["pid"]), answers, orders)
        orders.close()
        return None

    async def has_died(self) -> bool:
        """By a signal, that is: one that ended by itself would do so again. The place of an inherited one is
        taken by another server."""
        if self._orders is not None and not await _is_left(self._orders):
            return False
        if self._process is None:
            self._orders = None
            return True
        return (
            await _status(self._process) < 0
        )  # its end of the line is closed: it ends, however slow that is

    async def end(self) -> None:
        """Let the process end, and wait for it, however slow that is: it ends with its last child, and all
        that were forked here end with their lines, those whose asker was cancelled before it had them, too.
        An inherited one goes on for the others."""
        self.let_go()
        if self._process is None or self._orders is None:
            return
        self._orders.close()
        await _status(self._process)
        self._process = self._orders = None

    def let_go(self) -> None:
        """Close the lines to all that were forked in this event loop, which end with them."""
        for line in self._lines:
            line.close()
        self._lines = []

    def leave(self, *, awaited: bool) -> None:
        """Let the process end outside of an event loop, and wait for it if that is `awaited`."""
        if self._process is None or self._orders is None:
            return
        self._orders.close()
        if awaited:
            self._process.wait()
        self._process = self._orders = None

    def _ensure(self) -> None:
        if self._orders is not None and (self._process is None or self._process.poll() is None):
            return
        if self._orders is not None:
            self._orders.close()
        self._orders, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs, self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "roambench.fleet.fork_server_process", *self._modules],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env={**os.environ, **ONE_THREAD},
            )


async def _status(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a process, once it has ended."""
    while (status := process.poll()) is None:  # noqa: ASYNC110 - it may be asked in several event loops
        await asyncio.sleep(_LOOK_S)
    return status


async def _is_left(orders: socket.socket) -> bool:
    """True once no process holds the other end. A process that is being killed lets go of it a moment later
    than of the lines that it has."""
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    with contextlib.suppress(OSError), orders.dup() as end:  # closed meanwhile: no process asks it any more
        loop.add_reader(end, gone.set)
        try:
            await asyncio.wait_for(gone.wait(), _MOMENT_S)
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(end)
    return True
