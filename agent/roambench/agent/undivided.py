"""Work for a thread that nobody may leave half done behind: who is cancelled waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def undivided(work: Callable[P, T], *words: P.args, **more: P.kwargs) -> T:
    """`asyncio.to_thread`; where it is cancelled, the thread is done before the cancellation goes on."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *words, **more))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
