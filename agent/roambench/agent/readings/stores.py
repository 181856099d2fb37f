"""The stores of an agent's records: one drain per store, what they report, and how much is left at the
end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from roambench.agent.background import Work
from roambench.agent.reporter import Reporter
from roambench.agent.settings import INFLUXDB, AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.spool.consumer import Record
from roambench.spool.drain import Drain
from roambench.spool.gate import Gate
from roambench.spool.spool import CONTROLLER, Spool

if TYPE_CHECKING:
    from roambench.agent.readings.influx_store import InfluxStore

#: Host seconds between points of the spool's own state in InfluxDB.
MONITOR_PERIOD_S = 10.0


async def _begun(work: Work) -> None:
    await work()


class ControllerStore(Protocol):
    """Port to the controller of the run, where it stores records."""

    @property
    def is_there(self) -> bool:
        """Return whether there is a session with a controller."""
        ...

    async def send(self, records: Sequence[Record]) -> int:
        """Send records; returns the highest seq that is durable there. Raises as `spool.drain` wants it."""
        ...


class Stores:
    """Drains `spool` into the controller, InfluxDB, or both. Nothing passes while `gate` is shut.

    `reporter` gets trouble that a person must mend (STORE_REFUSES), a store that takes its time (STORE_SLOW),
    and the end of either (STORE_RECOVERED).
    """

    def __init__(
        self,
        settings: AgentSettings,
        spool: Spool,
        clock: DeviceClock,
        gate: Gate,
        reporter: Reporter,
        controller: ControllerStore | None = None,
        monitor_period_s: float = MONITOR_PERIOD_S,
    ) -> None:
        self._monitor_period_s = monitor_period_s
        self._device = settings.device
        self._spool = spool
        self._clock = clock
        self._gate = gate
        self._reporter = reporter
        self._controller = controller
        self._drains: dict[str, Drain] = {}
        self._influx: InfluxStore | None = None
        if CONTROLLER in spool.consumers:
            assert controller is not None
            self._drains[CONTROLLER] = Drain(
                spool.consumers[CONTROLLER],
                controller.send,
                gate=gate,
                trouble=lambda reason: None,  # the controller knows what it refuses
                slow=partial(self._report_as, EventKind.STORE_SLOW, CONTROLLER),
            )
        if INFLUXDB in spool.consumers:
            assert settings.influxdb is not None
            # Only now: most boards have no InfluxDB, and its client is some megabytes.
            from roambench.agent.readings.influx_store import InfluxStore

            self._influx = InfluxStore(settings.influxdb, settings.device, spool, clock)
            self._drains[INFLUXDB] = Drain(
                spool.consumers[INFLUXDB],
                self._influx.send,
                gate=gate,
                backoff_most_s=settings.influxdb.retry_most_s,
                trouble=partial(self._report_as, EventKind.STORE_REFUSES, INFLUXDB),
                slow=partial(self._report_as, EventKind.STORE_SLOW, INFLUXDB),
            )

    @property
    def troubles(self) -> list[str]:
        """Faults that a person must mend now, one line per store: a controller that comes later wants to know
        it."""
        return [f"{name}: {drain.trouble}" for name, drain in self._drains.items() if drain.trouble]

    @property
    def left(self) -> dict[str, int]:
        """Return how many records a store has yet to get, by its name; empty when they all have all."""
        waiting = {name: consumer.depth for name, consumer in self._spool.consumers.items()}
        return {name: depth for name, depth in waiting.items() if depth}

    def works(self) -> dict[str, Work]:
        """By name, one for each drain and one that watches; they go on until they are cancelled."""
        works: dict[str, Work] = {f"drain to {name}": drain.run for name, drain in self._drains.items()}
        if self._influx is not None:
            works["spool monitor"] = partial(
                self._influx.monitor, self._drains[INFLUXDB], self._gate, self._monitor_period_s
            )
        return works

    def start(self) -> list[asyncio.Task[None]]:
        """A task for each of `works`."""
        return [asyncio.create_task(_begun(work), name=name) for name, work in self.works().items()]

    def controller_is_there(self, period_s: float = 0.0) -> None:
        """Drain to it at once: it may have been away for long. Then every `period_s`, which it wants."""
        if CONTROLLER in self._drains:
            self._drains[CONTROLLER].look_every(period_s)
            self._drains[CONTROLLER].nudge()

    async def flush(self, timeout_s: float, *, waits_for_controller: bool = True) -> bool:
        """Empty the spool into every store, at once; False if some of it stays."""
        there = {} if waits_for_controller else {CONTROLLER: self._controller_is_there}
        flushes = (drain.flush(timeout_s, there.get(name)) for name, drain in self._drains.items())
        return all(await asyncio.gather(*flushes))

    def _controller_is_there(self) -> bool:
        return self._controller is not None and self._controller.is_there

    async def aclose(self) -> None:
        """Close the connection to InfluxDB, if there is one."""
        if self._influx is not None:
            await self._influx.aclose()

    def state_event(self, ns: int) -> AgentEvent:
        """SPOOL_STATE: per store its depth, and what was dropped or is dead over the spool's life."""
        state = {
            name: {"depth": consumer.depth, "dropped": consumer.dropped, "dead": consumer.dead}
            for name, consumer in self._spool.consumers.items()
        }
        return AgentEvent(EventKind.SPOOL_STATE, ns, json.dumps(state, separators=(",", ":")))

    def _report_as(self, kind: EventKind, store: str, reason: str) -> None:
        if reason:
            self._reporter.report_and_log(kind, f"{store}: {reason}")
        else:
            self._reporter.report_and_log(EventKind.STORE_RECOVERED, store)
