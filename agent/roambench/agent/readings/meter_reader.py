"""Takes what a meter says into the spool. A thread hears it and does nothing else, so that a line's stamp
never waits for the agent's other work.

Lines are stamped when they are read. An event loop that also keeps records waits for the disk now and then
(a new write-ahead log, pages the kernel wants written first): for seconds on a busy SD card. Lines that came
meanwhile all got the stamp of the end of the wait, and the seconds before it were a hole in the readings.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from roambench.agent.background import why
from roambench.agent.settings import MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import RoambenchError, SpoolError, error_text
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.meters.catalogue import open_meter
from roambench.meters.protocol import Meter, MeterItem

_RETRY_S: Final = 10.0


class RecordSink(Protocol):
    """Port to where records are kept: a spool."""

    def append(self, kind: RecordKind, payload: bytes) -> int:
        """Keep a record; return its number."""
        ...


class MeterListener(Protocol):
    """Port to those who want to know what the meter says."""

    def take(self, item: MeterItem) -> None:
        """Note a reading or an event that is about to be spooled."""
        ...

    def spooled(self, reading: Reading) -> None:
        """Note a reading that is in the spool."""
        ...


async def keep_reading(
    settings: MeterSettings,
    clock: DeviceClock,
    spool: RecordSink,
    folder: Path,
    listener: MeterListener,
    unavailable: Callable[[AgentEvent], None],
) -> None:
    """Read until cancelled, and look again for a meter that is away; each new fault is reported once.

    A driver that fails leaves this meter without readings, and nothing else.
    """
    reported = ""
    while True:
        try:
            await read_meter(settings, clock, spool, folder, listener)
        except SpoolError:
            raise
        except Exception as error:
            reason = _reason(error, settings.driver)
            if reason != reported:
                reported = reason
                unavailable(AgentEvent(EventKind.METER_UNAVAILABLE, clock.now_ns(), reason))
        await asyncio.sleep(_RETRY_S)


def _reason(error: Exception, driver: str) -> str:
    if isinstance(error, RoambenchError):
        return str(error)
    return why(error) if isinstance(error, OSError) else f"meter {driver} fails: {error_text(error)}"


async def read_meter(
    settings: MeterSettings,
    clock: DeviceClock,
    spool: RecordSink,
    folder: Path,
    listener: MeterListener,
) -> None:
    """Spool readings and events until cancelled.

    They are stamped in another thread, and come here when the running loop has time for them.

    Raises MeterError when the port cannot be opened. `folder` keeps the latch of a meter that may be opened
    only once per boot.
    """
    meter = open_meter(
        settings.driver,
        settings.port,
        clock,
        reopen_allowed=settings.reopen_allowed,
        latch=folder / "meter.latch",
    )
    witness = None
    if settings.witness:  # in proofs only
        from roambench.agent.readings.witness import Witness

        witness = Witness(folder / "witness.txt")
    try:
        async with contextlib.aclosing(meter_items(meter)) as items:
            async for item in items:
                listener.take(item)
                if isinstance(item, Reading):
                    if witness is not None:
                        witness.before(item)
                    seq = spool.append(RecordKind.READING, item.to_bytes())
                    if witness is not None:
                        witness.after(seq)
                    listener.spooled(item)
                else:
                    spool.append(RecordKind.EVENT, item.to_bytes())
    finally:
        if witness is not None:
            witness.close()


@dataclass(frozen=True, slots=True)
class _End:
    """The meter says no more; `error` is why, unless it was closed."""

    error: BaseException | None = None


async def meter_items(meter: Meter) -> AsyncGenerator[MeterItem, None]:
    """Yield the items of `meter` in order; raises what it raises. When this is closed, the meter is closed as
    well.

    The meter lives in the thread's own event loop: only code there may touch it.
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
        with contextlib.suppress(RuntimeError):  # our loop is closed, and does not wait
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
