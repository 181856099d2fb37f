"""`roambench meter read`: a live table on a terminal, lines where there is none, JSON for programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag
from roambench.meters.catalogue import open_meter, why_silent
from roambench.meters.frames.counts import LineCounts
from roambench.meters.protocol import Meter, MeterItem
from roambench.runner.screen import screen

#: Rows of the live table.
SHOWN: Final = 12


async def show(driver: str, port: str, seconds: float | None, *, as_json: bool) -> None:
    """Print readings until `seconds` are over or Ctrl-C; MeterError if there was not one.

    A person at the keyboard is no boot loop: the port is opened without the latch.
    """
    meter = open_meter(driver, port, DeviceClock(), reopen_allowed=True)
    console = screen()
    printer: _Printer
    if as_json:
        printer = _Json()
    elif console.is_terminal:
        printer = _LiveTable(console, port)
    else:
        printer = _Lines()
    readings = 0
    with printer:
        async with contextlib.aclosing(meter), contextlib.aclosing(_until(meter, seconds)) as items:
            async for item in items:
                readings += isinstance(item, Reading)
                printer.item(item)
                stale = isinstance(item, AgentEvent) and item.kind == EventKind.METER_STALE
                if stale and driver == "replay":
                    break  # the transcript is at its end
    counts = getattr(meter, "counts", None)
    if isinstance(counts, LineCounts):
        printer.counts(counts)
    if not readings:
        raise MeterError(f"meter {port}: not one reading came; is it a {driver}? {why_silent(driver)}")


async def _until(meter: Meter, seconds: float | None) -> AsyncGenerator[MeterItem, None]:
    """The meter's items until time is over or a person interrupts."""
    await meter.open()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    stopping = asyncio.create_task(stop.wait())
    deadline = None if seconds is None else loop.time() + seconds
    try:
        while not stop.is_set():
            coming = asyncio.ensure_future(meter.__anext__())
            wait_s = None if deadline is None else max(0.0, deadline - loop.time())
            await asyncio.wait({coming, stopping}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
                return
            try:
                yield coming.result()
            except StopAsyncIteration:
                return
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)


class _Printer:
    """The form in which items are shown."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def item(self, item: MeterItem) -> None:
        raise NotImplementedError

    def counts(self, counts: LineCounts) -> None:
        print(f"lines: {counts.text()}")


class _Lines(_Printer):
    """One line each; events go to standard error."""

    def item(self, item: MeterItem) -> None:
        if isinstance(item, Reading):
            print("  ".join(cell for cell in _cells(item) if cell), flush=True)
        else:
            print(f"{item.kind}: {item.detail}", file=sys.stderr, flush=True)


class _Json(_Printer):
    """One object per line: {"reading": ...}, {"event": ...}, at the end {"counts": ...}."""

    def item(self, item: MeterItem) -> None:
        if isinstance(item, AgentEvent):
            values: dict[str, Any] = {
                "event": item.kind,
                "monotonic_ns": item.monotonic_ns,
                "detail": item.detail,
            }
        else:
            fields = {k: v for k, v in asdict(item).items() if not (isinstance(v, float) and math.isnan(v))}
            values = {"reading": {**fields, "flags": int(item.flags)}}
        print(json.dumps(values), flush=True)

    def counts(self, counts: LineCounts) -> None:
        print(json.dumps({"counts": asdict(counts)}))


class _LiveTable(_Printer):
    """The newest readings, and the mean of all; at most ten times a second, however fast the meter."""

    def __init__(self, console: Console, port: str) -> None:
        self._port = port
        self._newest: deque[Reading] = deque(maxlen=SHOWN)
        self._state = "opening"
        self._count = 0
        self._sum_w = 0.0
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=10)

    def __enter__(self) -> None:
        self._live.start(refresh=True)

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def item(self, item: MeterItem) -> None:
        if isinstance(item, Reading):
            self._newest.append(item)
            self._count += 1
            self._sum_w += item.watts
        elif item.kind != EventKind.METER_DESCRIBED:
            self._state = f"{item.kind}: {item.detail}" if item.detail != self._port else item.kind

    def _table(self) -> Table:
        mean = f"{self._sum_w / self._count:.3f} W mean of {self._count}" if self._count else "no reading yet"
        table = Table(title=f"{self._port}: {mean}", caption=self._state)
        for heading in ("s", "V", "A", "W", "flags"):
            table.add_column(heading, justify="left" if heading == "flags" else "right", min_width=8)
        for reading in self._newest:
            table.add_row(*_cells(reading))
        return table


def _cells(reading: Reading) -> tuple[str, ...]:
    flags = ReadingFlag(reading.flags)
    return (
        f"{reading.monotonic_ns * 1e-9:.3f}",
        f"{reading.volts:.3f}",
        f"{reading.amps:.3f}",
        f"{reading.watts:.3f}",
        " ".join(flag.name.lower() for flag in ReadingFlag if flag and flag in flags and flag.name),
    )
