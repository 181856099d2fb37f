"""Processes that a controller which died left behind: a run that goes on waits for them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

import psutil

_LOOK_S: Final = 1.0


class LeftProcesses:
    """The processes that have a file open, besides this one. One that a busy machine lets wait is not taken
    for one that hangs: it uses CPU time whenever it gets some."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._cpu_s: dict[int, float] = {}  # by process
        self._since_s = self._looked_s = time.monotonic()

    def hang(self, patience_s: float) -> bool:
        """Whether for `patience_s` none of them ended, none came and none used any CPU time. To be asked
        again and again; it looks once a second."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= min(_LOOK_S, patience_s):
            self._looked_s = now_s
            cpu_s = _cpu_s_of_holders(self._path)
            if cpu_s != self._cpu_s:
                self._cpu_s, self._since_s = cpu_s, now_s
        return now_s - self._since_s > patience_s


def _cpu_s_of_holders(path: Path) -> dict[int, float]:
    """CPU seconds so far of each process of ours that has the file open, by process id."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(Path(file.path) == path for file in process.open_files()):
                used = process.cpu_times()
                found[process.pid] = used.user + used.system
    return found
