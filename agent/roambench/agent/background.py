"""Work beside an agent's event loop: what must last, chores without a waiter, a thread's undivided work.

Open files, room on a disk, inodes, memory: a board may run out of each, and has it again later. No work of an
agent ends for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, ParamSpec, TypeVar

from roambench.contract.errors import RoambenchError
from roambench.contract.shortages import SHORTAGES

#: Host seconds until work that failed is begun again.
AGAIN_S: Final = 5.0
#: What fails again after so long is told again.
_TOLD_FOR_S: Final = 600.0

#: Gets a sentence about what the agent cannot do now, and why.
Lacks = Callable[[str], None]
P = ParamSpec("P")
T = TypeVar("T")


def why(error: OSError) -> str:
    """An OSError in a few words, with the file's name if it has one, and what helps."""
    told = error.strerror or str(error) or type(error).__name__
    named = f"{told}: {error.filename}" if error.filename else told
    return f"{named}; {SHORTAGES[error.errno]}" if error.errno in SHORTAGES else named


async def lasting(name: str, work: Callable[[], Awaitable[None]], lacks: Lacks) -> None:
    """Carry out `work`; begin it again, after a pause, where an OSError ended it. The same one is told once
    in ten minutes. Errors that are roambench's own, and mistakes, go to the caller."""
    told, told_s = "", 0.0
    while True:
        try:
            await work()
            return
        except RoambenchError:
            raise
        except OSError as error:
            if why(error) != told or time.monotonic() - told_s > _TOLD_FOR_S:
                told, told_s = why(error), time.monotonic()
                lacks(f"{name}: {told}")
        await asyncio.sleep(AGAIN_S)


class Chores:
    """Tasks without a waiter: each goes on until it is done or the agent ends. `lacks` is told of
    one that an OSError ended."""

    def __init__(self, lacks: Lacks = print) -> None:
        self._lacks = lacks
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Carry `work` out."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, OSError):
            self._lacks(f"{getattr(task.get_coro(), '__qualname__', 'a chore')}: {why(error)}")
        else:
            loop = task.get_loop()
            loop.call_exception_handler({"message": "a chore failed", "exception": error, "task": task})

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
