"""One control group per host: to know what it computes, and to end all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
#: Of the old layout we need those that hold processes and count their CPU time; of the new there is one.
_OLD = ("systemd", "unified", "cpuacct")


def _hierarchies() -> list[Path]:
    return [_ROOT / name for name in _OLD if (_ROOT / name / "cgroup.procs").exists()] or [_ROOT]


class ControlGroup:
    """The group `name` (a path below our own) in every hierarchy."""

    def __init__(self, name: str) -> None:
        self._folders = [hierarchy / "roambench-hosts" / name for hierarchy in _hierarchies()]

    def make(self) -> None:
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def doors(self) -> list[Path]:
        """Writing a process id into each of these files moves it here."""
        return [folder / "cgroup.procs" for folder in self._folders]

    def cpu_s(self) -> float:
        """CPU seconds that everything in it has used."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                return int((folder / "cpuacct.usage").read_text()) * 1e-9
            with contextlib.suppress(OSError):
                first = (folder / "cpu.stat").read_text().splitlines()[0]
                return int(first.split()[1]) * 1e-6
        return 0.0

    def busy_threads(self) -> int:
        """How many threads compute or wait for a processor now: a board of their own would run them."""
        states = []
        for pid in self._members():
            threads: list[Path] = []
            with contextlib.suppress(OSError):  # it ended meanwhile
                threads = list(Path(f"/proc/{pid}/task").iterdir())
            for thread in threads:
                with contextlib.suppress(OSError, IndexError):
                    states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
        return states.count("R")

    def kill(self) -> None:
        """SIGKILL to all in it until nobody is left; then it is removed."""
        deadline_s = time.monotonic() + 60.0
        while pids := self._members():
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{self._folders[0]}: {sorted(pids)} do not die")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        for folder in self._folders:
            for inner, _, _ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):
                    Path(inner).rmdir()

    def _members(self) -> set[int]:
        pids: set[int] = set()
        for folder in self._folders:
            for inner, _, _ in os.walk(folder):  # passes over groups that its init removes meanwhile
                with contextlib.suppress(OSError):
                    pids |= {int(word) for word in Path(inner, "cgroup.procs").read_text().split()}
        return pids
