"""The meter of another board, where it hangs on this one: read here, kept and stored as that board's records.

The readings have this board's stamps; the analysis lays them over the other one's phases by the clock probes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from roambench.agent.background import Work
from roambench.agent.readings.meter_reader import keep_reading
from roambench.agent.readings.meter_watch import MeterWatch
from roambench.agent.readings.run_context import RunContext
from roambench.agent.readings.stores import ControllerStore, Stores
from roambench.agent.readings.unsent import Unsent
from roambench.agent.reporter import Reporter
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.meters.protocol import MeterItem
from roambench.spool.gate import Gate
from roambench.spool.spool import Spool


class NeighbourMeter:
    """Reads the meter of the board `name` into a separate spool. Its drains pass the reader's `gate`."""

    def __init__(
        self,
        name: str,
        settings: AgentSettings,
        clock: DeviceClock,
        reporter: Reporter,
        gate: Gate,
        drain_of: Callable[[str, Spool], ControllerStore],
    ) -> None:
        """`settings`: the reader's, which name the meter; `drain_of` is asked as `AgentMeter`'s."""
        self.name = name
        self._meter = settings.neighbours[name]
        self._clock = clock
        self._reporter = reporter
        self._folder = Path(settings.state_dir) / "neighbours" / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self.spool = spool = Spool(self._folder / "spool.sqlite", consumers=settings.stores)
        self.context = RunContext(spool, clock, self._meter.driver)
        self.unsent = Unsent(self._folder / "unsent", spool, board=name)
        self.watch = MeterWatch()
        named = replace(settings, device=name, meter=self._meter)
        self.stores = Stores(named, spool, clock, gate, reporter, drain_of(name, spool))

    def works(self) -> dict[str, Work]:
        """By name, what goes on for as long as the agent lives."""
        works = {"meter": self._read, "spool sync": self.spool.keep_synced, **self.stores.works()}
        return {f"{work} of {self.name}": run for work, run in works.items()}

    def enter(self, run: str, bench: str, system: str) -> None:
        """Begin a run's records; older ones are none of it."""
        self.unsent.set_aside()
        self.context.begin(run, bench, system)
        for event in self.watch.repeated(self._clock.now_ns()):
            self.spool.append(RecordKind.EVENT, event.to_bytes())

    def take(self, item: MeterItem) -> None:
        """Note a reading or an event of the meter."""
        self.watch.take(item)

    def spooled(self, reading: Reading) -> None:
        """Note nothing: it is no sign of the other board's life."""

    async def close(self) -> None:
        """Close its stores and its spool."""
        await self.stores.aclose()
        self.spool.close()

    async def _read(self) -> None:
        await keep_reading(self._meter, self._clock, self.spool, self._folder, self, self._unavailable)

    def _unavailable(self, event: AgentEvent) -> None:
        """Keep it among the other board's records; the controller hears of it at once."""
        detail = f"of {self.name}: {event.detail}"
        self._reporter.log(f"{EventKind.METER_UNAVAILABLE}: {detail}")
        self._reporter.pass_on(EventKind.METER_UNAVAILABLE, detail)
        self.spool.append(RecordKind.EVENT, event.to_bytes())
        self.take(event)
