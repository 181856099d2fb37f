"""Lives at given levels for given times, so that a meter can tell what each part of the agent costs; one duty
at a time, a new one ends the one before."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Protocol

from roambench.agent.readings.host_metrics import HostWatch
from roambench.agent.reporter import Notebook
from roambench.agent.session.control_link import ControlLink
from roambench.agent.session.quiet import Quiet
from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DUTY_OVER, LONGEST_BLOCK_S, MOST_BLOCKS, DutyLevel
from roambench.contract.events import EventKind
from roambench.contract.session import DutySchedule


class Levels(Protocol):
    """Port to what lives at a level."""

    async def live_at(self, level: DutyLevel) -> None:
        """Live at `level` from now on."""
        ...


class Duty:
    """Makes `levels` live at one level after the other; `notebook` keeps when."""

    def __init__(self, clock: DeviceClock, levels: Levels, notebook: Notebook) -> None:
        self._clock = clock
        self._levels = levels
        self._notebook = notebook

    async def carry_out(self, levels: Sequence[DutyLevel], block_s: float) -> None:
        """One block after the other on a fixed grid, then everything runs again, also when cancelled."""
        start_ns = self._clock.now_ns()
        try:
            for block, level in enumerate(levels):
                await self._clock.sleep_until_ns(start_ns + round(block * block_s * 1e9))
                await self._levels.live_at(level)
                self._notebook.note(EventKind.DUTY_BEGAN, level.value)
            await self._clock.sleep_until_ns(start_ns + round(len(levels) * block_s * 1e9))
            self._notebook.note(EventKind.DUTY_BEGAN, DUTY_OVER)
        finally:
            await self._levels.live_at(DutyLevel.STREAMING)


class DutyRunner:
    """Takes the controller's duties."""

    def __init__(
        self, clock: DeviceClock, link: ControlLink, quiet: Quiet, host: HostWatch, notebook: Notebook
    ) -> None:
        self._clock = clock
        self._link = link
        self._quiet = quiet
        self._host = host
        self._notebook = notebook
        self._duty: asyncio.Task[None] | None = None

    def take(self, schedule: DutySchedule) -> None:
        """Begin a duty; ValueError says what is wrong with it."""
        levels, block_s = duty_from(schedule)
        if self._duty is not None:
            self._duty.cancel()
        duty = Duty(self._clock, self, self._notebook)
        self._duty = asyncio.create_task(duty.carry_out(levels, block_s), name="duty")

    async def end(self) -> None:
        """Cancel the schedule that is running, and wait until it has stopped."""
        if self._duty is not None:
            self._duty.cancel()
            await asyncio.gather(self._duty, return_exceptions=True)

    async def live_at(self, level: DutyLevel) -> None:
        """Read the meter alone, or hold the session as well, or send records, too."""
        self._host.hushed = level is DutyLevel.READER
        if level is DutyLevel.READER:
            self._link.rest(f"duty: {level}")
        else:
            self._link.wake()
        await self._quiet.rest(level is not DutyLevel.STREAMING)


def duty_from(schedule: DutySchedule) -> tuple[tuple[DutyLevel, ...], float]:
    """Levels and seconds per block; ValueError says what is wrong with them."""
    if not 1 <= len(schedule.levels) <= MOST_BLOCKS:
        raise ValueError(f"a duty has 1 to {MOST_BLOCKS} blocks, got {len(schedule.levels)}")
    if not (math.isfinite(schedule.block_s) and 0.0 < schedule.block_s <= LONGEST_BLOCK_S):
        raise ValueError(f"a block lasts up to {LONGEST_BLOCK_S:.0f} s, got {schedule.block_s}")
    return tuple(DutyLevel(level) for level in schedule.levels), schedule.block_s
