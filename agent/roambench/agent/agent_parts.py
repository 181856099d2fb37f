"""The parts of an agent, wired to each other; each part is testable alone."""

from __future__ import annotations

import asyncio
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path

from roambench.agent.board_load import BoardLoad
from roambench.agent.control_link import ControlLink
from roambench.agent.data_dial import DataDial
from roambench.agent.data_link import DataLink
from roambench.agent.duty import DutyRunner
from roambench.agent.exchange_orders import ExchangeOrders
from roambench.agent.held_model import HeldModel
from roambench.agent.host_metrics import HostWatch
from roambench.agent.identity_files import IdentityFiles
from roambench.agent.model_cache import ModelCache
from roambench.agent.order_queue import OrderQueue
from roambench.agent.peers import Peers
from roambench.agent.quiet import MEASURED, Quiet
from roambench.agent.reporter import Reporter, log
from roambench.agent.resume_point import Keeper, ResumePoint
from roambench.agent.settings import AgentSettings
from roambench.agent.stores import Stores
from roambench.agent.timeline import PhaseTimeline
from roambench.agent.worker import Worker
from roambench.agent.workplace import Workplace
from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DutyLevel
from roambench.contract.phases import Phase
from roambench.contract.session import AgentWord, ControllerWord, Hello
from roambench.spool.consumer import Record
from roambench.spool.record_context import following
from roambench.spool.spool import Spool
from roambench.wire.frames import agent_frame, controller_word, hello_message


class AgentParts(ABC):
    """Whoever lives with them says what it is (`_hello`) and takes what the controller sends."""

    def __init__(self, settings: AgentSettings, trainer: socket.socket) -> None:
        self._settings = settings
        self._started_ns = time.monotonic_ns()
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._machine_id = settings.machine_id or Path("/etc/machine-id").read_text().strip()
        self._clock = DeviceClock(settings.epoch_ns, settings.time_scale, settings.ahead_ns)
        self._identity = IdentityFiles(Path(settings.identity_dir), settings.device, self._log)
        folder = Path(settings.state_dir)
        self._spool = Spool(folder / "spool.sqlite", consumers=settings.stores)
        self._model_cache = ModelCache(folder / "model-cache")
        self._worker = Worker(trainer)
        emulation = settings.emulation
        self._load = BoardLoad(emulation, settings.device, self._clock) if emulation is not None else None
        self._timeline = PhaseTimeline(
            settings.device, self._boot_id, self._clock, folder, self._spool.append, self._phase_begins
        )
        self._link = ControlLink(
            settings.controller,
            self._identity.credential,
            settings.device,
            lambda: hello_message(self._hello()),
            lambda frame: self._take(controller_word(frame)),
            self._log,
            keepalive=not settings.quiet,
            patient=settings.service,
        )
        self._quiet = Quiet(settings.quiet, self._send)
        self._reporter = Reporter(settings.device, self._clock, self._spool.append, self._quiet.emit)
        self._stores = Stores(
            settings,
            self._spool,
            self._clock,
            self._quiet.gate,
            self._reporter.report_and_log,
            lambda records: self._drain(records),
        )
        self._place = Workplace(
            timeline=self._timeline,
            worker=self._worker,
            clock=self._clock,
            folder=folder,
            emit=self._quiet.emit,
            before_phase=self._quiet.before_phase,
            record=self._spool.append,
            cpu_slowdown=emulation.cpu_slowdown if emulation is not None else None,
            sgd_step_s=emulation.sgd_step_s if emulation is not None else 0.0,
            moving=self._radio_moves,
            redial=lambda: self._data.redial(),
        )
        self._peers = Peers(
            self._identity.current,
            self._clock,
            folder,
            lambda name, reason: self._exchange.refused(name, reason),
        )
        self._exchange = ExchangeOrders(
            self._place, self._peers, HeldModel(folder / "held"), self._reporter.report, self._radio_exchanges
        )
        keepers: dict[str, Keeper] = {"model-cache": self._model_cache, "held": self._exchange.held}
        self._point = ResumePoint(folder / "resume-point", keepers)
        self._order_queue = OrderQueue(
            self._place, self._model_cache, settings.chaos, self._exchange, self._point
        )
        self._duty = DutyRunner(self._clock, self._link, self._quiet, self._reporter.note)
        self._host = HostWatch(
            settings.host,
            self._clock,
            self._spool.append,
            emulated=emulation is not None,
            measured=lambda: self._timeline.phase in MEASURED,
            hushed=lambda: self._duty.level is DutyLevel.READER,
        )
        self._data = DataDial(
            self._identity, settings.device, self._clock, self._use_data_link, self._begin_chore
        )
        self._chores: set[asyncio.Task[None]] = set()

    @abstractmethod
    def _hello(self) -> Hello: ...

    @abstractmethod
    def _take(self, word: ControllerWord | None) -> None: ...

    def _send(self, word: AgentWord) -> None:
        """Over the open session; without one it is dropped."""
        self._link.send(agent_frame(word))

    async def _drain(self, records: Sequence[Record]) -> int:
        """To the controller; raises as `ControlLink.drain` does."""
        return await self._link.drain(self._spool.uuid_of(records[0][0]), records)

    def _phase_begins(self, phase: Phase, ns: int, mbit_s: float) -> None:
        """Whether we may speak now; and what an emulated board draws from now on."""
        self._quiet.follow(phase)
        if self._load is not None:
            self._load.follow(phase, ns, mbit_s)

    def _radio_moves(self, first_byte_ns: int, total_bytes: int, mbit_s: float) -> None:
        if self._load is not None:
            self._load.radio_moves(first_byte_ns, total_bytes, mbit_s)

    def _radio_exchanges(self, sending_mbit_s: float, coming_mbit_s: float) -> None:
        if self._load is not None:
            self._load.exchange(sending_mbit_s, coming_mbit_s)

    def _use_data_link(self, link: DataLink | None) -> None:
        self._place.data = link

    def _begin_context(self, run: str) -> None:
        """Records from now on belong to `run` (to the one of the life before, if it is not known yet)."""
        last = self._spool.context
        context = following(
            last,
            boot_id=self._boot_id,
            clock=self._clock,
            meter=self._settings.meter.driver if self._settings.meter.port else "",
            run=run or (last.run if last is not None else ""),
        )
        self._spool.begin_context(context, self._clock.now_ns())

    def _end_run(self) -> None:
        """End the run: what comes after an orderly end belongs to no run, until a controller names the
        next."""
        last = self._spool.context
        if last is not None:
            self._spool.begin_context(replace(last, run=""), self._clock.now_ns())

    def _begin_chore(self, work: Coroutine[None, None, None]) -> None:
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    def _log(self, text: str) -> None:
        log(self._settings.device, text)

    async def _close(self) -> None:
        for chore in list(self._chores):
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self._peers.close()
        await self._data.close()
        await self._stores.aclose()
        self._worker.close()
        if self._load is not None:
            self._load.close()
        self._spool.close()
