"""Takes what a meter says into the spool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from roambench.agent.meter_thread import meter_items
from roambench.agent.settings import MeterSettings
from roambench.agent.witness import Witness
from roambench.contract.device_time import DeviceClock
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.meters.catalogue import open_meter
from roambench.spool.spool import Spool


async def read_meter(
    settings: MeterSettings,
    clock: DeviceClock,
    spool: Spool,
    folder: Path,
    alive: Callable[[int], None],
    received: Callable[[Reading | AgentEvent], None],
) -> None:
    """Spool readings and events until cancelled; `alive` gets the stamp of every reading, `received` all.

    They are stamped in a thread of their own, and come here when the running loop has time for them.

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
    witness = Witness(folder / "witness.txt") if settings.witness else None
    try:
        async with contextlib.aclosing(meter_items(meter)) as items:
            async for item in items:
                received(item)
                if isinstance(item, Reading):
                    if witness is not None:
                        witness.before(item)
                    seq = spool.append(RecordKind.READING, item.to_bytes())
                    if witness is not None:
                        witness.after(seq)
                    alive(item.monotonic_ns)
                else:
                    spool.append(RecordKind.EVENT, item.to_bytes())
    finally:
        if witness is not None:
            witness.close()
