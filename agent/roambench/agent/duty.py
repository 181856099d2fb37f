"""Lives at given levels for given times, so that a meter can tell what each part of the agent costs."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DUTY_OVER, LONGEST_BLOCK_S, MOST_BLOCKS, DutyLevel
from roambench.contract.events import EventKind
from roambench.contract.session import DutySchedule


class Duty:
    """`enter` makes the agent live at a level; `note(kind, detail)` keeps an event in the spool."""

    def __init__(
        self,
        clock: DeviceClock,
        enter: Callable[[DutyLevel], Awaitable[None]],
        note: Callable[[EventKind, str], None],
    ) -> None:
        self._clock = clock
        self._enter = enter
        self._note = note

    async def carry_out(self, levels: Sequence[DutyLevel], block_s: float) -> None:
        """One block after the other on a fixed grid, then everything runs again, also when cancelled."""
        start_ns = self._clock.now_ns()
        try:
            for block, level in enumerate(levels):
                await self._clock.sleep_until_ns(start_ns + round(block * block_s * 1e9))
                await self._enter(level)
                self._note(EventKind.DUTY_BEGAN, level.value)
            await self._clock.sleep_until_ns(start_ns + round(len(levels) * block_s * 1e9))
            self._note(EventKind.DUTY_BEGAN, DUTY_OVER)
        finally:
            await self._enter(DutyLevel.STREAMING)


def duty_from(schedule: DutySchedule) -> tuple[tuple[DutyLevel, ...], float]:
    """Levels and seconds per block; ValueError says what is wrong with them."""
    if not 1 <= len(schedule.levels) <= MOST_BLOCKS:
        raise ValueError(f"a duty has 1 to {MOST_BLOCKS} blocks, got {len(schedule.levels)}")
    if not (math.isfinite(schedule.block_s) and 0.0 < schedule.block_s <= LONGEST_BLOCK_S):
        raise ValueError(f"a block lasts up to {LONGEST_BLOCK_S:.0f} s, got {schedule.block_s}")
    return tuple(DutyLevel(level) for level in schedule.levels), schedule.block_s
