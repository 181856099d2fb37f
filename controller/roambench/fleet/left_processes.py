"""Processes that a controller waits for: its own, and those of a controller that died."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from roambench.contract.stillness import LOOK_S, Stillness, cpu_s_of


class LeftProcesses:
    """The processes that have a file open, besides this one."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._stillness = Stillness()
        self._looked_s = time.monotonic()

    def hang(self, patience_s: float) -> bool:
        """Return whether they have been still for `patience_s`. To be asked again and again; it looks once a
        second."""
        now_s = time.monotonic()
        if now_s - self._looked_s < min(LOOK_S, patience_s):
            return False
        self._looked_s = now_s
        return self._stillness.seconds(_cpu_s_of_holders(self._path)) > patience_s


def _cpu_s_of_holders(path: Path) -> dict[int, float]:
    """CPU seconds so far of each process of ours that has the file open, by process id."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(Path(file.path) == path for file in process.open_files()):
                used = process.cpu_times()
                found[process.pid] = used.user + used.system
    return found


def cpu_s_of_descendants(pid: int) -> dict[int, float]:
    """CPU-seconds so far of all processes that come from this one, by process id."""
    with contextlib.suppress(psutil.Error, OSError):
        return {child.pid: cpu_s_of(child.pid) for child in psutil.Process(pid).children(recursive=True)}
    return {}
