"""Telling a process that hangs from one that a slow or busy machine lets wait, or that was stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Host seconds for which no process of ours does nothing unless it hangs. The longest wait without a turn of
#: the loop is an agent's for an InfluxDB that is slow: 5 s to connect, 20 s to answer.
STILL_S: Final = 60.0
#: Host seconds between two looks: what a look costs is nothing then.
LOOK_S: Final = 1.0


class AwakeTime:
    """Host seconds since it was made or restarted, for a process that looks again and again: what lies
    between two looks counts as twice LOOK_S at most. In more of it this process itself stood still."""

    def __init__(self) -> None:
        self._looked_s, self._awake_s = time.monotonic(), 0.0

    def restart(self) -> None:
        """Begin at 0 again."""
        self._looked_s, self._awake_s = time.monotonic(), 0.0

    def seconds(self) -> float:
        """Those so far."""
        now_s = time.monotonic()
        self._awake_s += min(2.0 * LOOK_S, now_s - self._looked_s)
        self._looked_s = now_s
        return self._awake_s


class Stillness:
    """The time for which some processes have done nothing: none came, none ended, none used any CPU time.
    Time in which the one that looks stood still does not count: they may have been stopped with it.

    Of a clock alone a slow machine fakes it. Here a process that has work is never still: it uses CPU time
    whenever it gets some.
    """

    def __init__(self) -> None:
        self._cpu_s: Mapping[int, float] = {}
        self._still = AwakeTime()

    def seconds(self, cpu_s: Mapping[int, float]) -> float:
        """Host seconds since `cpu_s`, the CPU-seconds so far by process id, was another."""
        if cpu_s != self._cpu_s:
            self._cpu_s = dict(cpu_s)
            self._still.restart()
        return self._still.seconds()


def cpu_s_of(pid: int) -> float:
    """CPU-seconds that the process has used, from /proc; 0 where there is none."""
    try:
        # Behind the name, which may hold anything: user and system time are the 12th and 13th field.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
