"""Runs a program's file in a separate process: `python -P program_host.py FILE MODE MEMORY_BYTES HIDDEN`.

Frames go to and fro over what were standard input and output: a letter, the length (8 bytes, big endian) and
the body; the first has the settings. What the program prints goes to standard error. MODE "answer": each
call is answered. MODE "run": the file's `run(pipe, settings)` says what comes when. HIDDEN: a JSON list of
paths that it cannot read or write.

Nothing but the standard library is imported here: the interpreter may be another one than roambench's.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import resource
import signal
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Final

SETTINGS: Final = b"S"
CALL: Final = b"C"
READY: Final = b"R"
ANSWER: Final = b"A"
REFUSAL: Final = b"E"
#: Of a frame: its letter and the length of its body.
HEADER_BYTES: Final = 9
MOST_REFUSAL_BYTES: Final = 2000
#: More processes of one user than there are when the program begins.
_MOST_PROCESSES: Final = 64
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
#: Landlock's calls, the same on all processors, its rights (to write and to read files, and to move them
#: between folders), and its scope of signals.
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_WRITE, _READ, _MOVE = 1 << 1, 1 << 2, 1 << 13
_SIGNALS = 1 << 1
_LEAST_ABI: Final = 2  # the first that knows _MOVE
_SIGNALS_ABI: Final = 6
#: The kernel that runs out of memory ends a program before who started it.
_ENDED_FIRST: Final = "1000"
#: As trainers are: the reader of a meter comes before them.
_NICER: Final = 5


class Pipe:
    """Frames from and to the process that started this one; several threads may send."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer = reader, writer
        self._turn = threading.Lock()

    def receive(self) -> tuple[bytes, bytes] | None:
        """The letter and the body of the next frame; None at the end."""
        header = self._reader.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return None
        return header[:1], self._reader.read(int.from_bytes(header[1:], "big"))

    def send(self, letter: bytes, body: bytes) -> None:
        """Send a frame."""
        with self._turn:
            self._writer.write(letter + len(body).to_bytes(8, "big"))
            self._writer.write(body)
            self._writer.flush()


def why(error: BaseException) -> bytes:
    """An error in a sentence, as a refusal has it: its type, its text, and the line of code it came from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    where = f" ({Path(code.co_filename).name}:{trace.tb_lineno})" if trace is not None and code else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text}{where}".encode()[:MOST_REFUSAL_BYTES]


def answer_calls(pipe: Pipe, load: Callable[[], Callable[[bytes], bytes]]) -> None:
    """Load the program, say so, and answer calls until there are no more."""
    try:
        answer = load()
    except (Exception, SystemExit) as error:  # of the user's own code
        pipe.send(REFUSAL, why(error))
        return
    pipe.send(READY, b"")
    while (frame := pipe.receive()) is not None:
        try:
            body = answer(frame[1])
        except (Exception, SystemExit) as error:
            pipe.send(REFUSAL, why(error))
        else:
            pipe.send(ANSWER, body)


def _limit(memory_bytes: int) -> None:
    """Bound what this process, and each that it forks, may take. It does not outlive who started it, and what
    it forks is its own to the end: a process whose parent has ended becomes its child."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Path("/proc/self/oom_score_adj").write_text(_ENDED_FIRST)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    mine = sum(_is_mine(entry) for entry in os.scandir("/proc") if entry.name.isdigit())
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = _threads_beside(mine)
    if most == resource.RLIM_INFINITY or wanted < most:
        resource.setrlimit(resource.RLIMIT_NPROC, (wanted, most))


def landlock_abi() -> int:
    """The version of the kernel's Landlock; 0 and less: there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1))


def confines() -> bool:
    """Return whether `confine` does anything under this kernel."""
    return landlock_abi() >= _LEAST_ABI


def confine(hidden: list[str]) -> None:
    """Keep this process, and all that it starts, from processes outside: it can neither trace nor, from Linux
    6.12 on, signal them. Keep it from files at and below `hidden`, too, whose owner it runs as. All else is
    named, as of now: what is made later in a folder above one of them is kept away, too. A kernel without
    Landlock confines nothing."""
    abi = landlock_abi()
    if abi < _LEAST_ABI:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    everything = _WRITE | _READ | _MOVE
    # Rights to files, to the network, and scopes: older kernels take those that they do not know as zeros.
    about = struct.pack("=QQQ", everything, 0, _SIGNALS if abi >= _SIGNALS_ABI else 0)
    rules = libc.syscall(_CREATE, about, ctypes.c_size_t(len(about)), 0)
    for path in _beside([os.path.realpath(path) for path in hidden]) if hidden else ("/",):
        try:
            place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            continue
        rights = everything if Path(path).is_dir() else _WRITE | _READ
        libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0)
        os.close(place)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if rules < 0 or libc.syscall(_RESTRICT, rules, 0) != 0:
        raise OSError(ctypes.get_errno(), f"a program cannot be confined (files: {', '.join(hidden)})")
    os.close(rules)


def _beside(hidden: list[str]) -> list[str]:
    """All that is in the folders above the hidden paths, but these themselves."""
    found, waiting = list[str](), ["/"]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if any(path.startswith(f"{entry.path}/") for path in hidden) and not entry.is_symlink():
                waiting.append(entry.path)
            elif entry.path not in hidden and not entry.is_symlink():
                found.append(entry.path)
    return found


def _threads_beside(processes: int) -> int:
    """The kernel counts threads: a usual process has some."""
    return processes * 16 + _MOST_PROCESSES


def _is_mine(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat().st_uid == os.getuid()
    except OSError:
        return False


def _loaded(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("roambench_program", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Run the file that the command line names."""
    file, mode, memory_bytes, hidden = sys.argv[1:]
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _limit(int(memory_bytes))
    confine(json.loads(hidden))
    pipe = Pipe(reader, writer)
    frame = pipe.receive()
    if frame is None:
        return
    settings: dict[str, Any] = json.loads(frame[1])
    if mode == "answer":
        os.nice(_NICER)
        answer_calls(pipe, lambda: _loaded(file).load(settings, Path.cwd()))
    else:
        _loaded(file).run(pipe, settings)


if __name__ == "__main__":
    main()
