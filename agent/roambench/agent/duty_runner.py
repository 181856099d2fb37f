"""Takes the controller's duties: one at a time, a new one ends the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from roambench.agent.control_link import ControlLink
from roambench.agent.duty import Duty, duty_from
from roambench.agent.quiet import Quiet
from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DutyLevel
from roambench.contract.events import EventKind
from roambench.contract.session import DutySchedule


class DutyRunner:
    """`note(kind, detail)` keeps an event in the spool."""

    def __init__(
        self, clock: DeviceClock, link: ControlLink, quiet: Quiet, note: Callable[[EventKind, str], None]
    ) -> None:
        self._clock = clock
        self._link = link
        self._quiet = quiet
        self._note = note
        self._duty: asyncio.Task[None] | None = None
        self.level = DutyLevel.STREAMING

    def take(self, schedule: DutySchedule) -> None:
        """Begin a duty; ValueError says what is wrong with it."""
        levels, block_s = duty_from(schedule)
        if self._duty is not None:
            self._duty.cancel()
        duty = Duty(self._clock, self._live_at, self._note)
        self._duty = asyncio.create_task(duty.carry_out(levels, block_s), name="duty")

    async def end(self) -> None:
        """Cancel the schedule that is running, and wait until it has stopped."""
        if self._duty is not None:
            self._duty.cancel()
            await asyncio.gather(self._duty, return_exceptions=True)

    async def _live_at(self, level: DutyLevel) -> None:
        self.level = level
        if level is DutyLevel.READER:
            self._link.rest(f"duty: {level}")
        else:
            self._link.wake()
        await self._quiet.rest(level is not DutyLevel.STREAMING)
