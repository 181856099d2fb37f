"""Meters that hang on the controller's own machine: their words are records of the boards that they power.

The readings have this machine's stamps; the analysis lays them over the boards' phases by the clock probes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from roambench.agent.readings.meter_reader import keep_reading
from roambench.agent.readings.run_context import RunContext
from roambench.agent.settings import MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError, reason_of
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.fleet.grpc_fleet import GrpcFleet
from roambench.meters.ports import with_option
from roambench.meters.protocol import MeterItem
from roambench.runs.folder import RunFolder
from roambench.runs.measured.clocks import CONTROLLER_HOST
from roambench.spool.consumer import Record
from roambench.spool.drain import Drain
from roambench.spool.spool import CONTROLLER, Spool

_FLUSH_S: Final = 10.0
#: Seconds for a meter to be opened and to say what it is.
_PATIENCE_S: Final = 20.0


def is_read_here(port: str) -> bool:
    """True for a port whose option `reader` names the controller."""
    _, _, options = port.partition("?")
    return f"reader={CONTROLLER_HOST}" in options.split("&")


def here(meter: MeterSettings) -> MeterSettings:
    """The meter with that option."""
    return replace(meter, port=with_option(meter.port, "reader", CONTROLLER_HOST))


@dataclass(slots=True)
class _HostMeter:
    """One meter, by the name of the board that it powers."""

    device: str
    spool: Spool
    say: Callable[[str], None]
    known: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, item: MeterItem) -> None:
        """Note that the meter has said something."""
        self.known.set()

    def spooled(self, reading: Reading) -> None:
        """Note nothing."""

    async def lasting(self, work: Coroutine[None, None, None]) -> None:
        """Do work that goes on for as long as the run; say that an error has ended it."""
        try:
            await work
        except Exception as error:
            why = reason_of(error)
            self.say(f"{self.device}: its meter is read no more: {why}")
            self.known.set()

    def unavailable(self, event: AgentEvent) -> None:
        """Say and keep why it cannot be read."""
        self.say(f"{self.device}: {event.detail}")
        self.spool.append(RecordKind.EVENT, event.to_bytes())
        self.known.set()


@asynccontextmanager
async def meters_read_here(
    meters: Mapping[str, MeterSettings],
    folder: RunFolder,
    clock: DeviceClock,
    fleet: GrpcFleet,
    say: Callable[[str], None],
    latches: Path | None = None,
) -> AsyncIterator[None]:
    """Read `meters`, by the boards that they power, for as long as the context lasts. `latches`: where
    those of meters lie that are the same in every run."""
    async with AsyncExitStack() as ending:
        opened = [
            await ending.enter_async_context(_reading(name, settings, folder, clock, fleet, say, latches))
            for name, settings in meters.items()
        ]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.gather(*(meter.known.wait() for meter in opened))
        except TimeoutError:
            silent = ", ".join(meter.device for meter in opened if not meter.known.is_set())
            raise FleetError(f"{silent}: the meter cannot be opened here in {_PATIENCE_S:g} s") from None
        yield


@asynccontextmanager
async def _reading(
    device: str,
    settings: MeterSettings,
    folder: RunFolder,
    clock: DeviceClock,
    fleet: GrpcFleet,
    say: Callable[[str], None],
    latches: Path | None,
) -> AsyncIterator[_HostMeter]:
    place = folder.path / "meters" / device
    place.mkdir(parents=True, exist_ok=True)
    spool = Spool(place / "spool.sqlite")
    info = folder.info
    RunContext(spool, clock, settings.driver).begin(info.run_id, info.fleet, info.system)

    async def send(records: list[Record]) -> int:
        return await fleet.store(device, spool.uuid_of(records[0][0]), records)

    meter = _HostMeter(device, spool, say)
    drain = Drain(
        spool.consumers[CONTROLLER], send, trouble=lambda why: say(f"{device}: {why}") if why else None
    )
    latch = place if latches is None else latches / device
    reading = keep_reading(settings, clock, spool, latch, meter, meter.unavailable)
    works = (reading, spool.keep_synced(), drain.run())
    tasks = [asyncio.create_task(meter.lasting(work), name=f"meter of {device}") for work in works]
    try:
        yield meter
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await drain.flush(_FLUSH_S)
        spool.close()
