"""All that an agent reads and keeps: its meter, its board, its phases, and their way to the stores."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

from roambench.agent.background import Work
from roambench.agent.board_load import BoardLoad
from roambench.agent.readings.host_metrics import HostWatch
from roambench.agent.readings.meter_reader import keep_reading
from roambench.agent.readings.meter_watch import MeterWatch
from roambench.agent.readings.neighbour import NeighbourMeter
from roambench.agent.readings.run_context import RunContext
from roambench.agent.readings.stores import ControllerStore, Stores
from roambench.agent.readings.timeline import PhaseFollower, PhaseTimeline
from roambench.agent.readings.unsent import Unsent
from roambench.agent.reporter import Reporter
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.meters.protocol import MeterItem
from roambench.spool.gate import Gate
from roambench.spool.spool import Spool

#: Records of no run that are kept for a later fetch: an hour of readings.
KEPT_BETWEEN_RUNS: Final = 3600
_TIDY_PERIOD_S: Final = 60.0


class QuietGate(PhaseFollower, Protocol):
    """Port to the silence of measured phases (`agent.session.quiet`)."""

    @property
    def gate(self) -> Gate:
        """The gate that every drain passes."""
        ...


class AgentMeter:
    """Reads and keeps for one agent. `quiet`, the board's metrics and `load` follow its phases; `drain_of`
    takes a board's name and the spool of its records, and makes their way to the controller."""

    def __init__(
        self,
        settings: AgentSettings,
        clock: DeviceClock,
        spool: Spool,
        reporter: Reporter,
        quiet: QuietGate,
        drain_of: Callable[[str, Spool], ControllerStore],
        load: BoardLoad,
    ) -> None:
        self._folder = Path(settings.state_dir)
        self.settings = settings
        self.clock = clock
        self.spool = spool
        self.reporter = reporter
        self.context = RunContext(spool, clock, settings.meter.driver if settings.meter.port else "")
        self.unsent = Unsent(self._folder / "unsent", spool)
        self.watch = MeterWatch()
        self.stores = Stores(settings, spool, clock, quiet.gate, reporter, drain_of(settings.device, spool))
        self.neighbours = tuple(
            NeighbourMeter(name, settings, clock, reporter, quiet.gate, drain_of)
            for name in settings.neighbours
        )
        self.host = HostWatch(settings.host, clock, spool, emulated=settings.emulation is not None)
        self.timeline = PhaseTimeline(
            settings.device, self.context.boot_id, clock, self._folder, spool, (quiet, self.host, load)
        )

    def works(self) -> dict[str, Work]:
        """By name, what goes on for as long as the agent lives."""
        works: dict[str, Work] = {}
        if self.settings.meter.port:  # first: dialling takes its time, and what is not read is lost
            works["meter"] = self._read
        for neighbour in self.neighbours:
            works |= neighbour.works()
        works["spool sync"] = self.spool.keep_synced
        works["host metrics"] = self.host.run
        if not self.settings.run:
            works["tidy"] = self._tidy
        return works | self.stores.works()

    def take(self, item: MeterItem) -> None:
        """Note a reading or an event of the meter."""
        self.watch.take(item)

    def spooled(self, reading: Reading) -> None:
        """Note a sign of life."""
        self.timeline.alive(reading.monotonic_ns)

    async def settled(self) -> None:
        """Return when the meter's state is known, so that all of what follows is measured."""
        if self.settings.meter.port:
            await self.watch.settled.wait()
        for neighbour in self.neighbours:
            await neighbour.watch.settled.wait()

    @property
    def parts(self) -> tuple[AgentMeter | NeighbourMeter, ...]:
        """The board's own, and one for each neighbour's meter."""
        return (self, *self.neighbours)

    def begin_life(self, run: str) -> None:
        """Begin the agent's records in `run` (empty: in none, where nothing is a phase)."""
        for part in self.parts:
            part.context.begin(run, self.settings.bench, self.settings.system)
            if part.spool.damage:
                self.reporter.report_and_log(EventKind.SPOOL_DAMAGED, part.spool.damage)
        if run:
            self._begin_phases()

    def enter(self, run: str, bench: str, system: str) -> None:
        """Begin a run's records; older ones are none of it."""
        self.unsent.set_aside()
        self.context.begin(run, bench, system)
        self._begin_phases()
        for event in self.watch.repeated(self.clock.now_ns()):
            self.spool.append(RecordKind.EVENT, event.to_bytes())
        for neighbour in self.neighbours:
            neighbour.enter(run, bench, system)

    def end_run(self) -> None:
        """End the run's records: what comes after belongs to no run."""
        for part in self.parts:
            part.context.end_run()

    def set_aside(self, keep: int = 0) -> None:
        """Take all but the newest `keep` records of each spool out of its queue, as `Unsent` does."""
        for part in self.parts:
            part.unsent.set_aside(keep)

    @property
    def unsent_runs(self) -> dict[str, int]:
        """Bytes of the records that are set aside, by run."""
        sizes = Counter[str]()
        for part in self.parts:
            sizes.update(part.unsent.runs())
        return dict(sizes)

    async def flush(self, timeout_s: float, *, waits_for_controller: bool = True) -> None:
        """Empty the spools into their stores, at once, as far as the time reaches."""
        stores = (part.stores for part in self.parts)
        await asyncio.gather(
            *(one.flush(timeout_s, waits_for_controller=waits_for_controller) for one in stores)
        )

    @property
    def left(self) -> dict[str, int]:
        """Numbers of records that stores have yet to get, by their names; empty when they all have all."""
        left = Counter[str]()
        for part in self.parts:
            left.update(part.stores.left)
        return dict(left)

    def work_for_controller(self, drain_period_s: float) -> None:
        """Drain to the run's controller, and report to it what a person must mend."""
        for part in self.parts:
            part.stores.controller_is_there(drain_period_s)
            if part.spool.damage:
                self.reporter.pass_on(EventKind.SPOOL_DAMAGED, part.spool.damage)
            for trouble in part.stores.troubles:
                self.reporter.pass_on(EventKind.STORE_REFUSES, trouble)

    def sign_off(self, reason: str) -> None:
        """Keep the last records of a run, or of this life."""
        self.timeline.close()
        self.host.follow(Phase.IDLE)
        self.reporter.note(EventKind.AGENT_STOPPING, reason)
        self.spool.append(RecordKind.EVENT, self.stores.state_event(self.clock.now_ns()).to_bytes())

    async def close(self) -> None:
        """Close the connection to InfluxDB, if there is one, and all of the neighbours' meters."""
        await self.stores.aclose()
        for neighbour in self.neighbours:
            await neighbour.close()

    def _begin_phases(self) -> None:
        """One stamp for both: an AGENT_STARTED inside a phase would mean that the agent died in it."""
        about = f"pid {os.getpid()}, version {version('roambench')}"
        event = AgentEvent(EventKind.AGENT_STARTED, self.timeline.resume(), about)
        self.spool.append(RecordKind.EVENT, event.to_bytes())

    async def _read(self) -> None:
        await keep_reading(self.settings.meter, self.clock, self.spool, self._folder, self, self._unavailable)

    def _unavailable(self, event: AgentEvent) -> None:
        self.reporter.report_and_log(EventKind.METER_UNAVAILABLE, event.detail)
        self.take(event)

    async def _tidy(self) -> None:
        while True:
            if not self.context.run_id:
                self.set_aside(KEPT_BETWEEN_RUNS)
            await asyncio.sleep(_TIDY_PERIOD_S)
