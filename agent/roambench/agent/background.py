"""Work beside an agent's event loop: chores that nobody waits for, a thread's work that nobody may halve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Chores:
    """The tasks that nobody waits for: each goes on until it is done or the agent ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Carry `work` out."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel what is not done."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def undivided(work: Callable[P, T], *words: P.args, **more: P.kwargs) -> T:
    """`asyncio.to_thread` for work that nobody may leave half done: where it is cancelled, the thread is done
    before the cancellation goes on."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *words, **more))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
