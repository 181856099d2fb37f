"""An agent without a controller: reads one meter, spools what it says, and drains that to InfluxDB.

It needs neither grpc nor torch, so it fits on the smallest board, or many of them on one host beside its
meters.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path

from roambench.agent.meter_reader import read_meter
from roambench.agent.settings import AgentSettings
from roambench.agent.stores import Stores
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.last_signals import run_to_its_end
from roambench.contract.records import AgentEvent, RecordKind
from roambench.spool.gate import Gate
from roambench.spool.record_context import following
from roambench.spool.spool import Spool

_SYNC_PERIOD_S = 1.0
_FLUSH_S = 20.0


def log_meter(settings: AgentSettings) -> int:
    """Log until SIGTERM or Ctrl-C; returns the exit status. MeterError if the port cannot be opened."""
    return run_to_its_end(MeterLogger(settings).run())


class MeterLogger:
    """The reading half of an agent."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._folder = Path(settings.state_dir)
        self._clock = DeviceClock(settings.epoch_ns, settings.time_scale, settings.ahead_ns)
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Log until SIGTERM or SIGINT; returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        settings, clock = self._settings, self._clock
        spool = Spool(self._folder / "spool.sqlite", consumers=settings.stores)
        context = following(
            spool.context,
            boot_id=self._boot_id,
            clock=clock,
            meter=settings.meter.driver,
            run=settings.run,
        )
        spool.begin_context(context, clock.now_ns())

        def note(kind: EventKind, detail: str) -> None:
            spool.append(RecordKind.EVENT, AgentEvent(kind, clock.now_ns(), detail).to_bytes())

        def report(kind: EventKind, detail: str) -> None:
            text = f"{time.strftime('%F %T')} {settings.device}: {kind}: {detail}"
            print(text, file=sys.stderr, flush=True)
            note(kind, detail)

        note(EventKind.AGENT_STARTED, f"pid {os.getpid()}, version {version('roambench')}, meter logger")
        stores = Stores(settings, spool, clock, Gate(), report)
        tasks = [
            asyncio.create_task(
                read_meter(settings.meter, clock, spool, self._folder, _ignored, _ignored), name="meter"
            ),
            asyncio.create_task(_keep_synced(spool), name="spool sync"),
            *stores.start(),
        ]
        stopping = asyncio.create_task(self._stopping.wait(), name="stop")
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        errors = [task.exception() for task in done if task is not stopping]
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, stopping, return_exceptions=True)
        note(EventKind.AGENT_STOPPING, "")
        spool.append(RecordKind.EVENT, stores.state_event(clock.now_ns()).to_bytes())
        await stores.flush(_FLUSH_S)
        await stores.aclose()
        spool.close()
        for error in errors:
            if error is not None:
                raise error
        return 0


def _ignored(item: object) -> None:
    """Without phases and a controller nobody asks what the meter said last."""


async def _keep_synced(spool: Spool) -> None:
    while True:
        await asyncio.sleep(_SYNC_PERIOD_S)
        await asyncio.to_thread(spool.sync)
