"""Hears a meter in a thread of its own, so that a line's stamp never waits for what else the agent does.

Lines are stamped when they are read. An event loop that also keeps records waits for the disk now and then
(a new write-ahead log, pages the kernel wants written first): for seconds on a busy SD card. Lines that came
meanwhile all got the stamp of the end of the wait, and the seconds before it were a hole in the readings.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from roambench.meters.protocol import Meter, MeterItem


@dataclass(frozen=True, slots=True)
class _End:
    """The meter says no more; `error` is why, unless it was closed."""

    error: BaseException | None = None


async def hear(meter: Meter) -> AsyncGenerator[MeterItem, None]:
    """Yield the items of `meter` in order; raises what it raises. When this is closed, the meter is closed as
    well.

    The meter lives in the thread's own event loop: nobody else may touch it.
    """
    ours = asyncio.get_running_loop()
    items: asyncio.Queue[MeterItem | _End] = asyncio.Queue()
    ended = asyncio.Event()

    async def listen() -> None:
        async with contextlib.aclosing(meter):
            async for item in meter:
                ours.call_soon_threadsafe(items.put_nowait, item)

    async def listened() -> None:
        await listening

    def live() -> None:
        end = _End()
        try:
            with asyncio.Runner(loop_factory=lambda: theirs) as runner:
                runner.run(listened())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            end = _End(error)
        with contextlib.suppress(RuntimeError):  # our loop is closed: nobody waits any more
            ours.call_soon_threadsafe(items.put_nowait, end)
            ours.call_soon_threadsafe(ended.set)

    theirs = asyncio.new_event_loop()
    listening = theirs.create_task(listen(), name="listening")
    threading.Thread(target=live, name="meter", daemon=True).start()
    try:
        while not isinstance(item := await items.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            theirs.call_soon_threadsafe(listening.cancel)
        await ended.wait()
