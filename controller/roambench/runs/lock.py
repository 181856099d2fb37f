"""One writer per run folder: an advisory lock that the kernel drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.runs.database import naming

_TRIES: Final = 1000
_PAUSE_S: Final = 0.02


class WriterLock:
    """Holds `path` locked until `release`; the file carries the holder's process id, for people."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with naming(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _locked(descriptor):
            os.close(descriptor)
            raise RunError(
                f"{path.parent}: process {holder(path) or 'unknown'} is writing this run; "
                "wait for it, stop it, or choose another name"
            )
        self._descriptor = descriptor
        with naming(path):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others write the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _locked(descriptor: int) -> bool:
    """Take the lock, unless a writer has it. A process that asks whether it is held (`is_held`) shares it for
    a moment, on a busy machine for longer: those are waited for."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a writer does not share it
        except BlockingIOError:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_PAUSE_S)
    return False


def is_held(path: Path) -> bool:
    """Return whether a live process (this one included) writes the run."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(path: Path) -> str:
    """The process that holds the lock, as its file names it."""
    try:
        return path.read_text(errors="replace").strip()[:20]
    except OSError:
        return ""
