"""Commands of ours that tests start without paying for torch's import each time.

    python warm_starts.py FILLER     the process that forks them; its standard input is a Unix socket

Where `WarmStarts.fork_exec` stands for the standard library's, `roambench`, `python -m roambench...` and
tests/local/drive.py are forked from a process that holds torch and its like, and load roambench themselves.
One of them is a process of its own and a child of whoever started it; when the start returns it has the
command line, folder, environment, standard files, handed-down files, session and signals that were asked for.
It is killed, ends and is waited for as a command is. What it starts is warm, too. Every other start is a real
one: other programs and modules, and what `_can` does not promise.

It differs in what an importer sees (torch is there already), in its memory (pages that it shares count less)
and in the hash of its strings (one for all): a test of starting or of memory has to start it really.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

#: The command as users have it.
_SCRIPT: Final = str(Path(sys.executable).with_name("roambench"))
_DRIVE: Final = str(Path(__file__).parents[1] / "local" / "drive.py")
#: What may be started warm, and of it what starts processes itself.
_STARTERS: Final = (_SCRIPT, _DRIVE, "roambench.controller.cli", "roambench.controller.sweep.point_process")
_MODULES: Final = (
    *_STARTERS,
    "roambench.agent.agent_fork_server",
    "roambench.fleet.simulated.stacked_worker",
    "roambench.fleet.simulated.worker_fork_server_process",
)
#: Loaded before the forks. grpc is not among it: forked children of a process that holds it hang.
_HEAVY: Final = (
    "torch",
    "cryptography.x509",
    "pyarrow.compute",
    "pyarrow.parquet",
    "rich.console",
    "scipy.linalg",
    "scipy.sparse.csgraph",
    "scipy.spatial",
    "scipy.special",
    "typer",
)
#: Names of the environment that are read while Python or these start: they have to say what they said then.
_READ_AT_START: Final = ("PYTHON", "OMP_", "OPENBLAS_", "MKL_", "LD_", "MALLOC_", "TORCH", "LANG", "LC_")
_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_FILLER: Final = "." * 16384  # room for command lines
_IGNORABLE: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT)
_MESSAGE_BYTES: Final = 1 << 17
_REAL: Final = subprocess._fork_exec  # type: ignore[attr-defined]
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_ENVIRONMENT: Final = dict(os.environ)  # the warm process's; after a fork the environment is the command's


@dataclass(frozen=True)
class _Request:
    words: list[str]  # the script or the module, and what follows it
    folder: str
    environment: dict[str, str]
    files: list[int]  # the numbers that the files sent along shall have
    session: bool
    ignored: list[int]  # signals

    def may_be_warm(self) -> bool:
        """Whether the environment is the one that the warm process was started in, where that matters."""
        there, wanted = (
            {
                name: value
                for name, value in environment.items()
                if name.startswith(_READ_AT_START) and name not in ("PYTHONPATH", *_ONE_THREAD)
            }
            for environment in (_ENVIRONMENT, self.environment)
        )
        threads = {self.environment.get(name, "1") for name in _ONE_THREAD}
        return there == wanted and threads == {"1"} and Path(self.folder).is_dir()


class WarmStarts:
    """The starter's end. `fork_exec` takes the place of the function of that name of `subprocess`."""

    def __init__(self, orders: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self._orders = orders
        self._process = process
        self._turn = threading.Lock()

    @classmethod
    def begun(cls) -> WarmStarts:
        """With a new warm process; it ends when this one does or closes."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**_ENVIRONMENT, **dict.fromkeys(_ONE_THREAD, "1")}
        with theirs:
            process = subprocess.Popen([sys.executable, __file__, _FILLER], stdin=theirs, env=environment)
        return cls(ours, process)

    def close(self) -> None:
        """End the warm process; what was started lives on."""
        self._orders.close()
        if self._process is not None:
            self._process.wait()

    def fork_exec(self, *asked: Any) -> int:
        """The process id of the new child: as `_posixsubprocess.fork_exec`, which does what this cannot."""
        request = _can(*asked)
        if request is None or not request.may_be_warm():
            return int(_REAL(*asked))
        ends = (asked[6], asked[9], asked[11])  # the child's standard files; -1: as its starter's
        files = [number if end == -1 else end for number, end in enumerate(ends)]
        files += [*request.files[3:], asked[13]]  # the last is closed when the child is what was asked for
        with self._turn:
            try:
                socket.send_fds(self._orders, [json.dumps(astuple(request)).encode()], files)
                pid = int(self._orders.recv(64) or 0)
            except OSError:
                pid = 0
        return pid or int(_REAL(*asked))


def _can(*asked: Any) -> _Request | None:
    """What a warm process is asked for, or None where the start has to be a real one."""
    (words, _, close_others, kept, folder, environment, *_) = asked
    error_pipe, session, group, gid, gids, uid, umask, before = *asked[13:14], *asked[15:22]
    words = [os.fsdecode(word) for word in words]
    usual = (
        close_others and group == -1 and (gid, gids, uid, before) == (None, None, None, None) and umask < 0
    )
    if not usual or platform.machine() != "x86_64":
        return None
    if words[:2] == [sys.executable, "-m"]:
        words = words[2:]
    elif words[:2] == [sys.executable, _DRIVE]:
        words = words[1:]
    elif words[0] != _SCRIPT:
        return None
    if words[0] not in _MODULES or len(" ".join(words)) > 16000:
        return None
    pairs = os.environb.items() if environment is None else (entry.split(b"=", 1) for entry in environment)
    ignored = [number for number in _IGNORABLE if signal.getsignal(number) == signal.SIG_IGN]
    passed = [number for number in kept if number != error_pipe]
    return _Request(
        words,
        str(Path.cwd() / os.fsdecode(folder or "")),
        {os.fsdecode(name): os.fsdecode(value) for name, value in pairs},
        [0, 1, 2, *passed],
        bool(session),
        [int(number) for number in ignored],
    )


def _serve(orders: socket.socket) -> NoReturn:
    """Fork what is asked for until nobody can ask any more."""
    for number in _IGNORABLE:
        signal.signal(number, signal.SIG_IGN)
    pid = -1
    with contextlib.suppress(ConnectionError):
        while True:
            message, files, _, _ = socket.recv_fds(orders, _MESSAGE_BYTES, 250)
            if not message:
                break
            pid = _forked_for_parent()
            if pid == 0:
                break
            for number in files:
                os.close(number)
            orders.send(str(max(pid, 0)).encode())
    if pid != 0:
        os._exit(0)
    orders.close()
    _become(_Request(*json.loads(message)), files)


def _forked_for_parent() -> int:
    """As os.fork(), but the child is not ours: it is a child of our parent. -1: it did not work."""
    parent, settid, cleartid = 0x8000, 0x1000000, 0x200000  # CLONE_...
    own_id = ctypes.c_void_p()  # where the C library keeps the thread's id
    if _LIBC.prctl(40, ctypes.byref(own_id)) != 0:  # PR_GET_TID_ADDRESS
        return -1
    flags, none = ctypes.c_long(parent | settid | cleartid | signal.SIGCHLD), ctypes.c_void_p()
    api = ctypes.pythonapi
    api.PyOS_BeforeFork()
    # 56: clone. By a PyDLL, which keeps the interpreter's lock as a fork does.
    pid = int(ctypes.PyDLL(None).syscall(ctypes.c_long(56), flags, none, none, own_id, none))
    (api.PyOS_AfterFork_Child if pid == 0 else api.PyOS_AfterFork_Parent)()
    return pid


def _become(request: _Request, files: list[int]) -> NoReturn:
    """Be the command."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request.ignored:
        signal.signal(number, signal.SIG_IGN)
    if request.session:
        os.setsid()
    begun = max(request.files) + 1
    _hold([*request.files, begun], files)
    os.chdir(request.folder)
    before = os.environ.get("PYTHONPATH")
    os.environ.clear()
    os.environ.update(request.environment)
    base = sys.path[1 + len(before.split(os.pathsep) if before else []) :]
    told = request.environment.get("PYTHONPATH")
    named, *words = request.words
    script = named in (_SCRIPT, _DRIVE)
    first = str(Path(named).parent) if script else request.folder
    sys.path[:] = [
        first,
        *(str(Path(path).absolute()) for path in (told.split(os.pathsep) if told else [])),
        *base,
    ]
    importlib.invalidate_caches()
    if named in _STARTERS:
        _warm_others()
    sys.orig_argv[:] = [sys.executable, *([] if script else ["-m"]), *request.words]
    sys.argv[:] = [named, *words]
    _show(sys.orig_argv)
    os.close(begun)
    if script:
        runpy.run_path(named, run_name="__main__")
    else:
        runpy.run_module(named, run_name="__main__", alter_sys=True)
    sys.exit()


def _hold(numbers: list[int], files: list[int]) -> None:
    """Have these open files under these numbers, standard ones among them, and no others."""
    import fcntl

    beyond = max((*numbers, *files)) + 1
    for number, copy in zip(
        numbers, [fcntl.fcntl(file, fcntl.F_DUPFD, beyond) for file in files], strict=True
    ):
        os.dup2(copy, number)
    low = 3
    for number in sorted(numbers[3:]):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _warm_others() -> None:
    """What this process starts is forked from one that is warm as this one is, and ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        _hold([0, 1, 2, 3], [nothing, nothing, nothing, theirs.detach()])
        _serve(socket.socket(fileno=3))
    theirs.close()
    subprocess._fork_exec = WarmStarts(ours).fork_exec  # type: ignore[attr-defined]


def _show(words: list[str]) -> None:
    """Have the kernel say these as our command line."""
    stat = Path("/proc/self/stat").read_text()
    begin, end = map(int, stat.rsplit(")", 1)[1].split()[45:47])
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, line, len(line))
    _LIBC.prctl(35, 9, ctypes.c_ulong(begin + len(line)), 0, 0)  # its end; without the right, zeroes follow


def main() -> NoReturn:
    """The warm process."""
    for name in _HEAVY:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=os.dup(0)))


if __name__ == "__main__":
    from warm_starts import main as by_its_name  # what comes on the line names this module

    by_its_name()
