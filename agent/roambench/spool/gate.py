"""Keeps drains quiet while something is measured that their traffic would disturb."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """Open or shut; whoever sends does it inside `passing`, and waits there while the gate is shut."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._opened.set()
        self._still = asyncio.Event()
        self._still.set()
        self._passing = 0

    @property
    def is_open(self) -> bool:
        """Whether one may pass."""
        return self._opened.is_set()

    def open(self) -> None:
        """Let all pass who wait."""
        self._opened.set()

    async def shut(self, patience_s: float) -> bool:
        """Let nobody pass any more; True once nothing is on its way, False if that took `patience_s`."""
        self._opened.clear()
        try:
            async with asyncio.timeout(patience_s):
                await self._still.wait()
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """A context for one pass; waits until the gate is open."""
        # Whoever waited here may find the gate shut again by the time it runs.
        while not self._opened.is_set():
            await self._opened.wait()
        self._passing += 1
        self._still.clear()
        try:
            yield
        finally:
            self._passing -= 1
            if not self._passing:
                self._still.set()
