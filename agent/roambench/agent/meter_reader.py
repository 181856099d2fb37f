"""Takes what a meter says into the spool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from roambench.agent.meter_thread import hear
from roambench.agent.settings import MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.line_file import mend_last_line
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.meters.catalogue import open_meter
from roambench.spool.spool import Spool


class Witness:
    """A second, independent notebook of every reading, for proofs that the spool and its drains lose nothing.

    A plain text file, handed to the kernel line by line: "+ns,volts,amps,watts,wh,flags,meter_ms" before the
    reading is spooled, "=seq" after it. A "+" without its "=" is what was in hand when the process died.
    """

    def __init__(self, path: Path) -> None:
        mend_last_line(path)
        self._file: TextIO = path.open("a", buffering=1, encoding="ascii")

    def before(self, reading: Reading) -> None:
        values = (reading.volts, reading.amps, reading.watts, reading.watt_hours)
        numbers = ",".join(repr(value) for value in values)
        self._file.write(f"+{reading.monotonic_ns},{numbers},{int(reading.flags)},{reading.meter_ms}\n")

    def after(self, seq: int) -> None:
        self._file.write(f"={seq}\n")

    def close(self) -> None:
        self._file.close()


async def read_meter(
    settings: MeterSettings,
    clock: DeviceClock,
    spool: Spool,
    folder: Path,
    alive: Callable[[int], None] = lambda ns: None,
    heard: Callable[[Reading | AgentEvent], None] = lambda item: None,
) -> None:
    """Spool readings and events until cancelled; `alive` hears the stamp of every reading, `heard` all.

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
        async with contextlib.aclosing(hear(meter)) as items:
            async for item in items:
                heard(item)
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
