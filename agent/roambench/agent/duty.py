"""Lives at given levels for given times, so that a meter can tell what each part of the agent costs."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DUTY_OVER, LONGEST_BLOCK_S, MOST_BLOCKS, DutyLevel
from roambench.contract.events import EventKind
from roambench.wire.v1 import control_pb2 as wire


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


def duty_from(message: wire.Duty) -> tuple[tuple[DutyLevel, ...], float]:
    """Levels and seconds per block of a message; ValueError says what is wrong with it."""
    if not 1 <= len(message.levels) <= MOST_BLOCKS:
        raise ValueError(f"a duty has 1 to {MOST_BLOCKS} blocks, got {len(message.levels)}")
    if not (math.isfinite(message.block_s) and 0.0 < message.block_s <= LONGEST_BLOCK_S):
        raise ValueError(f"a block lasts up to {LONGEST_BLOCK_S:.0f} s, got {message.block_s}")
    return tuple(DutyLevel(level) for level in message.levels), message.block_s
