"""The parts of an agent, wired to each other; each part is testable alone."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from roambench.agent.background import Chores
from roambench.agent.life.board_load import BoardLoad
from roambench.agent.life.duty import DutyRunner
from roambench.agent.orders.exchange_orders import ExchangeOrders, Refusals
from roambench.agent.orders.held_model import HeldModel
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.preparation import Preparation
from roambench.agent.orders.queue import OrderQueue
from roambench.agent.orders.resume_point import ModelKeeper, ResumePoint
from roambench.agent.orders.shard_store import ShardStore
from roambench.agent.orders.timeline import PhaseTimeline
from roambench.agent.orders.worker import Worker
from roambench.agent.orders.workplace import Workplace
from roambench.agent.peers.exchange import Peers
from roambench.agent.readings.host_metrics import HostWatch
from roambench.agent.readings.meter_watch import MeterWatch
from roambench.agent.readings.reporter import Reporter, log
from roambench.agent.readings.run_context import RunContext
from roambench.agent.readings.stores import Stores
from roambench.agent.readings.unsent import Unsent
from roambench.agent.session.control_link import ControlLink, RunDrain
from roambench.agent.session.data_dial import DataDial
from roambench.agent.session.identity_files import IdentityFiles
from roambench.agent.session.quiet import MEASURED, Quiet
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DutyLevel
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.session import AgentWord
from roambench.spool.spool import Spool
from roambench.wire.frames import agent_frame

#: Host seconds in which an agent that ends unasked drains; what is left is sent in its next life.
DRAIN_S: Final = 5.0


@dataclass(slots=True)
class Ending:
    """Why and how an agent ends, once it has `begun` to: what is in the spool is drained for `drain_s` host
    seconds. A controller that did not ask for it (`is_asked`) and is gone is not waited for."""

    reason: str = "agent failed"
    drain_s: float = DRAIN_S
    is_asked: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, reason: str, drain_s: float | None = None) -> None:
        """End the agent, unless it ends already; `drain_s`: its controller asks for it, with so much time."""
        if not self.begun.is_set():
            self.reason, self.is_asked = reason, drain_s is not None
            self.drain_s = DRAIN_S if drain_s is None else drain_s
            self.begun.set()


class AgentParts:
    """Each knows only those that were made before it."""

    def __init__(self, settings: AgentSettings, trainer: socket.socket, load: BoardLoad) -> None:
        folder, device, emulation = Path(settings.state_dir), settings.device, settings.emulation
        self.settings = settings
        self.ending = Ending()
        self.chores = Chores(self.lacks)
        self.log = partial(log, device)
        self.clock = clock = DeviceClock(settings.epoch_ns, settings.time_scale, settings.ahead_ns)
        self.identity = IdentityFiles(Path(settings.identity_dir), device, self.log)
        self.spool = spool = Spool(folder / "spool.sqlite", consumers=settings.stores)
        self.context = RunContext(spool, clock, settings.meter.driver if settings.meter.port else "")
        self.unsent = Unsent(folder / "unsent", spool)
        self.meter = MeterWatch()
        self.load = load
        self.worker = Worker(trainer)
        self.link = ControlLink(
            settings.controller,
            self.identity.credential,
            device,
            self.log,
            keepalive=not settings.quiet,
            patient=not settings.run,
        )
        self.drain = RunDrain(self.link, spool)
        self.quiet = quiet = Quiet(settings.quiet, self.send, self._disturbed)
        self.reporter = reporter = Reporter(device, clock, spool.append, quiet.emit)
        self.stores = Stores(settings, spool, clock, quiet.gate, reporter.report_and_log, self.drain.send)
        self.timeline = PhaseTimeline(
            device, self.context.boot_id, clock, folder, spool.append, self._phase_begins
        )
        self.data = DataDial(self.identity, device, clock, self.chores.begin)
        shards = ShardStore(folder / "shards")
        self.preparation = Preparation(self.worker, shards, self.data, reporter, self.chores)
        self.place = Workplace(
            timeline=self.timeline,
            worker=self.worker,
            clock=clock,
            folder=folder,
            emit=quiet.emit,
            before_phase=quiet.before_phase,
            record=spool.append,
            cpu_slowdown=emulation.cpu_slowdown if emulation is not None else None,
            sgd_step_s=emulation.sgd_step_s if emulation is not None else 0.0,
            moving=self.load.radio_moves,
            dial=self.data,
        )
        self.peers = Peers(self.identity.current, clock, folder, Refusals(reporter.report).take)
        self.model_cache, self.held = ModelCache(folder / "model-cache"), HeldModel(folder / "held")
        self.exchange = ExchangeOrders(self.place, self.peers, self.held, reporter.report, self.load.exchange)
        keepers: dict[str, ModelKeeper] = {"model-cache": self.model_cache, "held": self.held}
        self.point = ResumePoint(folder / "resume-point", keepers)
        self.order_queue = OrderQueue(
            self.place, self.model_cache, settings.chaos, self.exchange, self.point, self.lacks
        )
        self.duty = DutyRunner(clock, self.link, quiet, reporter.note)
        self.host = HostWatch(
            settings.host,
            clock,
            spool.append,
            emulated=emulation is not None,
            measured=lambda: self.timeline.phase in MEASURED,
            hushed=lambda: self.duty.level is DutyLevel.READER,
        )

    def send(self, word: AgentWord) -> None:
        """Over the open session; without one it is dropped."""
        self.link.send(agent_frame(word))

    def lacks(self, detail: str) -> None:
        """The agent cannot do something now that it should: kept, sent, and in its log."""
        self.reporter.report_and_log(EventKind.AGENT_LACKS, detail)

    def _disturbed(self, detail: str) -> None:
        """Kept and not sent: it would disturb more."""
        self.reporter.note(EventKind.NOT_QUIET, detail)

    def _phase_begins(self, phase: Phase, ns: int, mbit_s: float) -> None:
        """Whether we may speak now; and what an emulated board draws from now on."""
        self.quiet.follow(phase)
        self.load.follow(phase, ns, mbit_s)

    async def close(self) -> None:
        """Leave nothing open and nobody working."""
        await self.chores.close()
        await self.peers.close()
        await self.data.close()
        await self.stores.aclose()
        self.worker.close()
        self.load.close()
        self.spool.close()
