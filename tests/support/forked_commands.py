"""`roambench` as a command in a process, forked of one that has read what all commands read.

As a sweep forks its points: a small run on virtual devices takes 2 s of CPU time, one that loads torch itself
takes 5. For tests of what a command does. How it starts (`python -m`, the script, what it imports, which
signals it is given) is a matter for `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TextIO

from roambench.cli.main import main
from roambench.fleet import agent_fork_server, fork_server_process
from roambench.study.sweep.pool import _MEETING, _POINT, _TRAINING

_SUPPORT, _ROOT = str(Path(__file__).parent), Path(__file__).parents[2]
#: All but grpc, of which nothing can be forked.
_LOADED = (
    *(_POINT, *_MEETING, *_TRAINING, *agent_fork_server.READER, *agent_fork_server.ORDERED),
    *("roambench.agent.orders.trainer_process", "roambench.fleet.agent_fork_server"),
    *("roambench.fleet.answers", "roambench.fleet.local_agents", "roambench.fleet.order_giver"),
    *("roambench.mobility.walks.city", "roambench.learning.datasets.digits", "roambench.report.console"),
    *("pandas", "forked_commands", "warm_caches"),
)


class Command:
    """A command in progress or done, with what tests use of a `subprocess.Popen`.

    It prints to the open file `out`, and its errors behind what `errors` holds. `env` is its whole
    environment; None: that of this process. `script`: it is this Python file instead of `roambench`.
    """

    def __init__(
        self,
        words: Sequence[str],
        cwd: Path,
        out: int,
        errors: Path,
        env: Mapping[str, str] | None = None,
        script: Path | None = None,
    ) -> None:
        self.args = [str(script or "roambench"), *words]
        self.returncode: int | None = None
        # A server beside it, in its folder, forks what it asks for: a run's workers, a sweep's points.
        place = {"folder": str(cwd), "environ": dict(os.environ if env is None else env)}
        command = {"words": words, "errors": str(errors), "script": str(script or "")}
        with (
            errors.open("ab") as log,
            _forked(server(), place, log.fileno()) as orders,
        ):
            orders.recv(1024)  # its process id
            self._link = _forked(orders, command, out, orders.fileno())
        self.pid = int(json.loads(self._link.recv(1024))["pid"])

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        if self.returncode is None and select.select([self._link], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The same at its end; TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._link], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(json.loads(self._link.recv(1024))["status"])
            self._link.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextmanager
def started(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[tuple[Command, TextIO, Path]]:
    """The command in progress, what it prints, and the file of its errors; it is killed at the end."""
    with tempfile.TemporaryDirectory() as kept:
        errors, (ours, theirs) = Path(kept, "errors"), os.pipe()
        with os.fdopen(ours, encoding="utf-8") as out:
            try:
                command = Command(words, cwd, theirs, errors, env)
            finally:
                os.close(theirs)
            try:
                yield command, out, errors
            finally:
                command.kill()
                command.wait()


def roambench(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command at its end; what it printed went through a pipe."""
    with started(*words, cwd=cwd, env=env) as (command, out, errors):
        printed, status = out.read(), command.wait()
        return subprocess.CompletedProcess(command.args, status, printed, errors.read_text("utf-8"))


def forked(argument: str) -> int:
    """Called in a forked process, which becomes the server of one command, or that command."""
    order = json.loads(argument)
    return _command(**order) if "words" in order else _own_server(**order)


def _own_server(folder: str, environ: Mapping[str, str]) -> int:
    with Path(os.devnull).open("ab") as nothing:  # what a command printed is at its end before its server is
        for file in (1, 2):
            os.dup2(nothing.fileno(), file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    of_modules = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:] = [*of_modules, *(one for one in sys.path if one not in (_SUPPORT, str(_ROOT)))]
    return fork_server_process.main([])


def _command(words: Sequence[str], errors: str, script: str) -> int:
    with Path(os.devnull).open() as nothing, Path(errors).open("ab") as log:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    sys.argv = [script or "roambench", *words]
    try:
        if script:
            sys.path.insert(0, str(Path(script).parent))
            runpy.run_path(script, run_name="__main__")
        else:
            main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


@cache
def server() -> socket.socket:
    """The line to the process of which all is forked; it starts when it is first asked for."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", fork_server_process.__name__, *_LOADED],
            stdin=theirs.fileno(),
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": _SUPPORT, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _forked(orders: socket.socket, argument: Mapping[str, object], log: int, *own: int) -> socket.socket:
    """The line to a process that is forked; it asks `own` for processes."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    order = {
        "module": __name__,
        "argument": json.dumps(argument),
        "tells_end": bool(own),
        "may_fork": bool(own),
    }
    with theirs:
        socket.send_fds(orders, [json.dumps(order).encode()], [theirs.fileno(), log, *own])
    return ours
