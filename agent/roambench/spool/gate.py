"""Keeps drains quiet while something is measured that their traffic would disturb."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

#: Host seconds that a pass which is broken off may take to end.
_END_S: Final = 1.0


class Gate:
    """Open or shut; every sender sends inside `passing`, and waits there while the gate is shut."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._opened.set()
        self._still = asyncio.Event()
        self._still.set()
        self._passing: set[asyncio.Timeout] = set()

    @property
    def is_open(self) -> bool:
        """Return whether one may pass."""
        return self._opened.is_set()

    def open(self) -> None:
        """Let all pass who wait."""
        self._opened.set()

    async def shut(self, patience_s: float) -> bool:
        """Let no sender pass any more; True once nothing is on its way. What still is after `patience_s` is
        broken off; False where even that does not end it."""
        self._opened.clear()
        if await self._is_still(patience_s):
            return True
        for limit in self._passing:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
        return await self._is_still(_END_S)

    async def _is_still(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self._still.wait()
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """A context for one pass; waits until the gate is open. TimeoutError: the pass was broken off."""
        # One that waited here may find the gate shut again by the time it runs.
        while not self._opened.is_set():
            await self._opened.wait()
        self._still.clear()
        limit = asyncio.timeout(None)
        self._passing.add(limit)
        try:
            async with limit:
                yield
        finally:
            self._passing.discard(limit)
            if not self._passing:
                self._still.set()
