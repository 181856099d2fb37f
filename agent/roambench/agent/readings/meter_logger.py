"""An agent without a controller: reads one meter, spools what it says, and drains that to InfluxDB.

It needs neither grpc nor torch, so it fits on the smallest board, or many of them on one host beside its
meters.
"""

from __future__ import annotations

import asyncio
import os
import signal
from importlib.metadata import version
from pathlib import Path

from roambench.agent.readings.meter_reader import read_meter
from roambench.agent.readings.run_context import RunContext
from roambench.agent.readings.stores import Stores
from roambench.agent.reporter import Reporter
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.last_signals import run_to_its_end
from roambench.contract.records import Reading, RecordKind
from roambench.contract.session import AgentWord
from roambench.meters.protocol import MeterItem
from roambench.spool.gate import Gate
from roambench.spool.spool import Spool

_FLUSH_S = 20.0


class _Alone:
    """The ports of an agent without phases and without a controller: what they get is dropped."""

    def emit(self, word: AgentWord) -> None:
        """Send nothing."""

    def take(self, item: MeterItem) -> None:
        """Note nothing."""

    def spooled(self, reading: Reading) -> None:
        """Note nothing."""


def log_meter(settings: AgentSettings) -> int:
    """Log until SIGTERM or Ctrl-C; returns the exit status. MeterError if the port cannot be opened."""
    return run_to_its_end(_log(settings))


async def _log(settings: AgentSettings) -> int:
    folder, stopped, alone = Path(settings.state_dir), asyncio.Event(), _Alone()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    clock = DeviceClock(settings.epoch_ns, settings.time_scale, settings.ahead_ns)
    spool = Spool(folder / "spool.sqlite", consumers=settings.stores)
    RunContext(spool, clock, settings.meter.driver).begin(settings.run)
    reporter = Reporter(settings.device, clock, spool, alone)
    started = f"pid {os.getpid()}, version {version('roambench')}, meter logger"
    reporter.note(EventKind.AGENT_STARTED, started)
    stores = Stores(settings, spool, clock, Gate(), reporter)
    tasks = [
        asyncio.create_task(read_meter(settings.meter, clock, spool, folder, alone), name="meter"),
        asyncio.create_task(spool.keep_synced(), name="spool sync"),
        *stores.start(),
    ]
    stopping = asyncio.create_task(stopped.wait(), name="stop")
    done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
    errors = [task.exception() for task in done if task is not stopping]
    for task in (*tasks, stopping):
        task.cancel()
    await asyncio.gather(*tasks, stopping, return_exceptions=True)
    reporter.note(EventKind.AGENT_STOPPING, "")
    spool.append(RecordKind.EVENT, stores.state_event(clock.now_ns()).to_bytes())
    await stores.flush(_FLUSH_S)
    await stores.aclose()
    spool.close()
    for error in errors:
        if error is not None:
            raise error
    return 0
