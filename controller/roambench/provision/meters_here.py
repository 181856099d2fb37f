"""Meters of boards that hang on another machine: on this one, which reads them for a proof or a check, or on
another host, whose agent is asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from roambench.agent.readings.meter_reader import keep_reading
from roambench.agent.readings.meter_watch import MeterWatch
from roambench.contract.device_time import DeviceClock
from roambench.contract.records import Reading, RecordKind
from roambench.meters.protocol import MeterItem
from roambench.provision.agent_asks import ask_agent, ask_readings, series_of
from roambench.provision.bench import CONTROLLER_READER, Bench, Host
from roambench.provision.meter_steps import PowerSeries
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import open_link

#: The folder of a bench's state with the latches of the meters that this machine reads.
METERS: Final = "meters"


@dataclass(slots=True)
class HeardMeter:
    """Words of a meter, on this machine's monotonic clock; nothing is kept on disk."""

    clock: DeviceClock = field(default_factory=DeviceClock)
    watch: MeterWatch = field(default_factory=MeterWatch)

    def append(self, kind: RecordKind, payload: bytes) -> int:
        """Keep nothing."""
        return 0

    def take(self, item: MeterItem) -> None:
        """Note a reading or an event."""
        self.watch.take(item)

    def spooled(self, reading: Reading) -> None:
        """Note nothing."""

    def status(self) -> dict[str, Any]:
        """Status, in the form in which an agent gives that of its meter."""
        return self.watch.status(self.clock.now_ns())

    def answer(self, seconds: float) -> dict[str, Any]:
        """Readings of the last `seconds`, in the form in which an agent says them."""
        now_ns = self.clock.now_ns()
        return {"now_ns": now_ns, **self.watch.since(now_ns - round(seconds * 1e9))}

    def readings(self, seconds: float) -> tuple[float, PowerSeries]:
        """The clock now, and what the meter said in the last `seconds`, without what is inconsistent or
        off."""
        answer = self.answer(seconds)
        return answer["now_ns"] * 1e-9, series_of(answer)


@dataclass(frozen=True, slots=True)
class AskedMeter:
    """The meter of `board` that hangs on another host, whose agent is asked. Where that does not answer, the
    meter is unavailable."""

    bench: Bench
    board: Host

    def status(self) -> dict[str, Any]:
        """Status, in the form in which an agent gives its meter's."""
        reader = self.bench.host(self.board.reader)
        try:
            with open_link(self.bench, reader) as link:
                found = ask_agent(link, "status").get("neighbours")
        except HostError as error:
            return {"state": "unavailable", "detail": str(error), "last": None}
        if not isinstance(found, dict) or not isinstance(status := found.get(self.board.name), dict):
            detail = f"the agent of {reader.name} does not read it: roambench fleet provision"
            return {"state": "unavailable", "detail": detail, "last": None}
        return status

    def readings(self, seconds: float) -> tuple[float, PowerSeries]:
        """The reader's clock now, and what the meter said in the last `seconds`, without what is inconsistent
        or off."""
        try:
            with open_link(self.bench, self.bench.host(self.board.reader)) as link:
                return ask_readings(link, seconds, self.board)
        except HostError:
            return 0.0, PowerSeries(np.empty(0), np.empty(0))


def meter_elsewhere(bench: Bench, board: Host) -> AskedMeter | None:
    """Its meter, if that hangs on another host."""
    return None if board.reader in (board.name, CONTROLLER_READER) else AskedMeter(bench, board)


@contextmanager
def meters_here(bench: Bench, hosts: Sequence[Host]) -> Iterator[Mapping[str, HeardMeter]]:
    """By the names of their boards those of `hosts`' meters that hang on this machine, read while the
    context lasts."""
    heard = {host.name: HeardMeter() for host in hosts if host.reader == CONTROLLER_READER}
    if not heard:
        yield heard
        return

    async def read() -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, meter in heard.items():
                folder = bench.state_dir / METERS / name
                settings = bench.host(name).meter.settings
                tasks.create_task(keep_reading(settings, meter.clock, meter, folder, meter, meter.take))

    def live() -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_of(task))

    loop = asyncio.new_event_loop()
    task = loop.create_task(read(), name="meters of boards")
    thread = threading.Thread(target=live, name="meters of boards", daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        with suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


async def _of(task: asyncio.Task[None]) -> None:
    await task
