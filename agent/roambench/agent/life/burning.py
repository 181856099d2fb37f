"""Computing on purpose: a load that a person's meter, or a comparison with its neighbours', can see."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

from roambench.agent.board_load import BoardLoad
from roambench.contract.device_time import DeviceClock

MOST_BURN_S: Final = 600.0
#: Says that it is there, and reads seconds of the monotonic clock, which all processes share: start, end,
#: period (0: no rests).
_BURN: Final = """
import sys, time
print(flush=True)
start, end, period = map(float, sys.stdin.readline().split())
now = time.monotonic()
if now < start:
    time.sleep(start - now)
while (now := time.monotonic()) < end:
    into = (now - start) % period if period else 0.0
    if period and into >= period / 2:
        time.sleep(min(period - into, end - now))
"""
#: Host seconds until processes that are there have read what to do.
_LEAD_S: Final = 0.5
_SHORTEST_PERIOD_S: Final = 2.0


@dataclass(slots=True)
class Burner:
    """One burn at a time. An emulated board draws what `load` says that it computes."""

    clock: DeviceClock
    load: BoardLoad
    _busy: str = ""

    async def burn(self, words: list[str]) -> dict[str, Any]:
        """Compute as `burn SECONDS [CORES [PERIOD]]` asks: when it began and ended, and its turns, by the
        agent's clock, ns. ValueError for other words, or while one is on; RuntimeError where none can be."""
        seconds, cores, period_s = _burn_words(words)
        if self._busy:
            raise ValueError(f"burn: {self._busy} already")
        self._busy = f"burning {cores} cores for {seconds:.0f} s"
        burners: list[asyncio.subprocess.Process] = []
        try:
            for _ in range(cores):
                burner = await _started()
                burners.append(burner)
                await _is_there(burner)
            start_s = time.monotonic() + (_LEAD_S if period_s else 0.0)
            began_ns = self.clock.now_ns()
            for burner in burners:
                _tell(burner, f"{start_s} {start_s + seconds} {period_s}\n")
            if not period_s:
                self.load.burn(float(cores))
            edges_ns = await self._turns(start_s, seconds, period_s, cores)
        finally:
            for burner in burners:
                if burner.returncode is None:
                    burner.kill()
                await asyncio.shield(burner.wait())
            self.load.burn(0.0)
            self._busy = ""
        ended_ns = self.clock.now_ns()
        return {"ok": True, "cores": cores, "began_ns": began_ns, "ended_ns": ended_ns, "edges_ns": edges_ns}

    async def _turns(self, start_s: float, seconds: float, period_s: float, cores: int) -> list[int]:
        """Wait for the end of a burn; when it began, rested, began again and so on, by the agent's clock."""
        if not period_s:
            await asyncio.sleep(seconds)
            return []
        half_s = period_s / 2
        edges_ns = []
        for turn in range(math.ceil(seconds / half_s)):
            await asyncio.sleep(max(0.0, start_s + turn * half_s - time.monotonic()))
            late_ns = round((time.monotonic() - start_s - turn * half_s) * 1e9)
            # A real board's processes turned on time.
            edges_ns.append(self.clock.now_ns() - (0 if self.load.is_emulated else late_ns))
            self.load.burn(float(cores) if turn % 2 == 0 else 0.0)
        await asyncio.sleep(max(0.0, start_s + seconds - time.monotonic()))
        return edges_ns


async def _started() -> asyncio.subprocess.Process:
    """Executed, not forked: a fork of a process that holds grpc hangs."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", _BURN, stdin=pipe, stdout=pipe)


async def _is_there(burner: asyncio.subprocess.Process) -> None:
    """Wait until it says so, however long a slow card takes to read Python."""
    assert burner.stdout is not None
    if not await burner.stdout.readline():
        raise RuntimeError("burn: a process that was to compute ended at once")


def _tell(burner: asyncio.subprocess.Process, times: str) -> None:
    assert burner.stdin is not None
    burner.stdin.write(times.encode())
    burner.stdin.close()


def _burn_words(words: list[str]) -> tuple[float, int, float]:
    try:
        seconds = float(words[0])
        cores = int(words[1]) if len(words) > 1 else os.cpu_count() or 1
        period_s = float(words[2]) if len(words) > 2 else 0.0
    except (IndexError, ValueError):
        raise ValueError("burn: expected SECONDS, SECONDS CORES, or SECONDS CORES PERIOD") from None
    if not (math.isfinite(seconds) and 0.0 < seconds <= MOST_BURN_S):
        raise ValueError(f"burn: expected 0 to {MOST_BURN_S:.0f} s, got {words[0]}")
    if not 1 <= cores <= 64:
        raise ValueError(f"burn: expected 1 to 64 cores, got {cores}")
    if period_s and not _SHORTEST_PERIOD_S <= period_s <= MOST_BURN_S:
        limits = f"{_SHORTEST_PERIOD_S:g} to {MOST_BURN_S:g}"
        raise ValueError(f"burn: expected a period of {limits} s, got {words[2]}")
    return seconds, cores, period_s
