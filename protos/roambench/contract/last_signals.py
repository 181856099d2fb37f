"""The end of a process that asyncio tells of its signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` as `asyncio.run` does, for work that handles SIGTERM or SIGINT by `add_signal_handler`: when
    it has ended, both are ignored while the loop is closed.

    asyncio closes the pipe that signals are written to before it takes their handlers away; one that comes
    in between is a complaint of the interpreter on stderr.
    """

    async def ending() -> T:
        try:
            return await work
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)

    return asyncio.run(ending())
