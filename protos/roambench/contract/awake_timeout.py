"""Waiting that a process which stood still itself holds against no other process.

A process that is stopped (SIGSTOP, a frozen container) or gets no CPU hears nothing. When it goes on, its
timers are due at once, before it has read what arrived meanwhile. Time is therefore counted in short slices,
each of which counts once however long it lasted.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

#: Host seconds that are counted at a time.
_SLICE_S: Final = 0.5
#: A slice that ends so much later than it should: the process stood still.
_STOOD_STILL_S: Final = 2.0
#: Host seconds that are left at least after that: what waits is read, and who was cut off has dialled again.
_CATCH_UP_S: Final = 20.0


class AwakeTimeout:
    """Work as `asyncio.timeout(limit_s)`: TimeoutError in its body after `limit_s` host seconds in which this
    process ran, and after it stood still not before it has caught up.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = self._left_s = limit_s
        self._due_s = self._slice_s = 0.0
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    def restart(self) -> None:
        """From now on it is `limit_s` again."""
        self._left_s = self._limit_s

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._count()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def _count(self) -> None:
        loop = asyncio.get_running_loop()
        self._slice_s = min(_SLICE_S, max(0.0, self._left_s))
        self._due_s = loop.time() + self._slice_s
        self._timer = loop.call_at(self._due_s, self._counted)

    def _counted(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._left_s -= self._slice_s
        if now_s - self._due_s > _STOOD_STILL_S:
            self._left_s = max(self._left_s, _CATCH_UP_S)
        if self._left_s > 0.0:
            self._count()
        else:
            self._timeout.reschedule(now_s)
