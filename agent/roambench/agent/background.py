"""Work beside an agent's event loop: what must last, chores without a waiter, a thread's undivided work.

Open files, room on a disk, inodes, memory: a board may run out of each, and has it again later. No work of an
agent ends for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, ParamSpec, Protocol, TypeVar

from roambench.contract.errors import RoambenchError
from roambench.contract.shortages import SHORTAGES

#: Host seconds until work that failed is begun again.
AGAIN_S: Final = 5.0
#: Host seconds after which a failure that goes on is reported again.
_REPORTED_FOR_S: Final = 600.0

#: Work that can be begun again; it goes on until it is cancelled.
Work = Callable[[], Awaitable[None]]
P = ParamSpec("P")
T = TypeVar("T")


class Lacking(Protocol):
    """Port to the agent's reports (`agent.reporter`)."""

    def lacks(self, detail: str) -> None:
        """Report what the agent cannot do now, and why."""
        ...


def why(error: OSError) -> str:
    """An OSError in a few words, with the file's name if it has one, and what helps."""
    reason = error.strerror or str(error) or type(error).__name__
    named = f"{reason}: {error.filename}" if error.filename else reason
    return f"{named}; {SHORTAGES[error.errno]}" if error.errno in SHORTAGES else named


async def lasting(name: str, work: Work, reporter: Lacking) -> None:
    """Carry out `work`; begin it again, after a pause, where an OSError ended it. The same error is reported
    once in ten minutes. Errors that are roambench's own, and mistakes, go to the caller."""
    reported, reported_s = "", 0.0
    while True:
        try:
            await work()
            return
        except RoambenchError:
            raise
        except OSError as error:
            if why(error) != reported or time.monotonic() - reported_s > _REPORTED_FOR_S:
                reported, reported_s = why(error), time.monotonic()
                reporter.lacks(f"{name}: {reported}")
        await asyncio.sleep(AGAIN_S)


class Chores:
    """Tasks without a waiter: each goes on until it is done or the agent ends. `reporter` gets the reason of
    one that an OSError ended."""

    def __init__(self, reporter: Lacking) -> None:
        self._reporter = reporter
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
            self._reporter.lacks(f"{getattr(task.get_coro(), '__qualname__', 'a chore')}: {why(error)}")
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
    """`asyncio.to_thread` for work that may not stay half done: where it is cancelled, the thread is done
    before the cancellation goes on."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *words, **more))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
