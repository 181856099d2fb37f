"""The living agent: one event loop that reads the meter, spools, drains, and carries out orders."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import grpc.aio

from roambench.agent.board_load import BoardLoad
from roambench.agent.control_link import ControlLink, secure_channel
from roambench.agent.data_link import DataLink
from roambench.agent.duty import Duty, duty_from
from roambench.agent.exchange_desk import ExchangeDesk
from roambench.agent.held_model import HeldModel
from roambench.agent.host_metrics import HostMetrics, watch_host
from roambench.agent.identity_files import IdentityFiles
from roambench.agent.meter_reader import read_meter
from roambench.agent.orders_desk import OrdersDesk
from roambench.agent.peers import Peers
from roambench.agent.quiet import MEASURED, Quiet
from roambench.agent.settings import AgentSettings, HostSettings
from roambench.agent.shelf import Shelf
from roambench.agent.stores import Stores
from roambench.agent.timeline import PhaseTimeline
from roambench.agent.worker import TrainerDied, TrainerRefused, Worker, rss_bytes
from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DutyLevel
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, HostSample, Reading, RecordKind
from roambench.learning.malloc import keep_freed_memory
from roambench.spool.chapter import following
from roambench.spool.spool import Spool
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, PROTOCOL_VERSION

_CAPABILITIES = ("train", "upload", "meter")
_IDENTITY_PERIOD_S = 10.0  # host seconds between looks (three stats) at the certificate's files
_TRANSFER_GRACE_S = 600.0  # host seconds that a transfer over a channel we left may go on
_SYNC_PERIOD_S = 1.0  # host seconds between WAL syncs: what a power cut may cost


def live(settings: AgentSettings, trainer: socket.socket) -> int:
    """Run the agent until it is told to stop; returns the exit status."""
    keep_freed_memory()  # a model's buffers come and go with every order
    if settings.service:
        from roambench.agent.service import ServiceAgent

        return asyncio.run(ServiceAgent(settings, trainer).run())
    return asyncio.run(Agent(settings, trainer).run())


class Agent:
    """Wires the parts together; each part is testable alone."""

    def __init__(self, settings: AgentSettings, trainer: socket.socket) -> None:
        self._settings = settings
        self._started_ns = time.monotonic_ns()
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._machine_id = settings.machine_id or Path("/etc/machine-id").read_text().strip()
        self._clock = DeviceClock(settings.epoch_ns, settings.time_scale)
        self._identity = IdentityFiles(Path(settings.identity_dir), settings.device, self._log)
        folder = Path(settings.state_dir)
        self._spool = Spool(folder / "spool.sqlite", consumers=settings.stores)
        self._shelf = Shelf(folder / "shelf")
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
            self._hello,
            self._take_frame,
            self._log,
            keepalive=not settings.quiet,
            patient=settings.service,
        )
        self._quiet = Quiet(settings.quiet, self._link.send)
        self._stores = Stores(
            settings,
            self._spool,
            self._clock,
            self._quiet.gate,
            self._tell_and_log,
            lambda records: self._link.drain(self._spool.uuid, records),
        )
        self._desk = OrdersDesk(
            timeline=self._timeline,
            shelf=self._shelf,
            worker=self._worker,
            clock=self._clock,
            folder=folder,
            emit=self._quiet.emit,
            before_phase=self._quiet.before_phase,
            record=self._spool.append,
            cpu_slowdown=emulation.cpu_slowdown if emulation is not None else None,
            sgd_step_s=emulation.sgd_step_s if emulation is not None else 0.0,
            chaos=settings.chaos,
            moving=self._radio_moves,
        )
        self._peers = Peers(
            self._identity.current,
            self._clock,
            folder,
            lambda name, reason: self._exchange.refused(name, reason),
        )
        self._exchange = ExchangeDesk(
            self._desk, self._peers, HeldModel(folder / "held"), self._tell, self._radio_exchanges
        )
        self._desk.exchanges = self._exchange
        self._stop_reason = ""
        self._drain_s = 5.0
        self._stopping = asyncio.Event()
        self._duty_level = DutyLevel.STREAMING
        self._duty: asyncio.Task[None] | None = None
        self._data_channel: grpc.aio.Channel | None = None
        self._data_address = ""
        self._data_credential = self._identity.current
        self._spec: LearningSpec | None = None
        self._chores: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop, "SIGTERM", 5.0)
        self._begin_life()
        emulation = self._settings.emulation
        await self._worker.open()
        tasks: list[asyncio.Task[None]] = []
        if self._settings.meter.port:  # first: dialling takes its time, and what is not read is lost
            tasks.append(asyncio.create_task(self._read_meter(), name="meter"))
        tasks += [
            asyncio.create_task(self._carry_out_orders(), name="orders"),
            asyncio.create_task(self._link.run(), name="session"),
            *self._stores.start(),
            asyncio.create_task(self._keep_spool_synced(), name="spool sync"),
            asyncio.create_task(self._watch_identity(), name="identity"),
        ]
        if self._settings.host.period_s > 0:
            tasks.append(asyncio.create_task(self._watch_host(), name="host metrics"))
        if self._load is not None and emulation is not None and emulation.agent_cost:
            tasks.append(asyncio.create_task(self._load.draw_for_the_agent(), name="own cost"))
        tasks += self._more_tasks()
        stopping = asyncio.create_task(self._stopping.wait(), name="stop")
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in done if task is not stopping and task.exception() is not None]
        for task in tasks:
            if task.get_name() != "session":
                task.cancel()
        await asyncio.gather(*(t for t in tasks if t.get_name() != "session"), return_exceptions=True)
        await self._end_duty()
        self._timeline.close()
        self._event("agent stopping", self._stop_reason)
        self._spool.append(RecordKind.EVENT, self._stores.state_event(self._clock.now_ns()).to_bytes())
        self._end_run()
        await self._stores.flush(self._drain_s)
        left = self._stores.left
        reason = self._stop_reason or "agent failed"
        self._link.hang_up(f"{reason}; left in the spool: {left}" if left else reason)
        session = next(task for task in tasks if task.get_name() == "session")
        await asyncio.wait({session}, timeout=2.0)
        session.cancel()
        await asyncio.gather(session, return_exceptions=True)
        await self._close()
        if failed:
            error = failed[0].exception()
            assert error is not None
            raise error
        return 0

    def _begin_life(self) -> None:
        self._begin_chapter(self._settings.run)
        self._begin_phases()

    def _begin_phases(self) -> None:
        """One stamp for both: an "agent started" inside a phase would tell that the agent died in it."""
        started_ns, about = self._timeline.resume(), f"pid {os.getpid()}, version {version('roambench')}"
        self._spool.append(RecordKind.EVENT, AgentEvent("agent started", started_ns, about).to_bytes())

    async def _carry_out_orders(self) -> None:
        await self._desk.run()

    def _more_tasks(self) -> list[asyncio.Task[None]]:
        """What else runs for as long as the agent does."""
        return []

    def _hello(self) -> wire.Hello:
        shelved, held = self._shelf.trained(), self._exchange.held.last()
        return wire.Hello(
            protocol_version=PROTOCOL_VERSION,
            device=self._settings.device,
            machine_id=self._machine_id,
            boot_id=self._boot_id,
            agent_version=version("roambench"),
            capabilities=_CAPABILITIES,
            spool_uuid=self._spool.uuid,
            trained_order_ids=[model.order_id for model in (shelved, held) if model is not None],
            rss_bytes=rss_bytes(),
            trainer_rss_bytes=self._worker.rss_bytes,
            started_monotonic_ns=self._started_ns,
            peer_address=self._peers.address,
        )

    def _take_frame(self, frame: wire.ControllerFrame) -> None:
        match frame.WhichOneof("frame"):
            case "welcome":
                self._take_welcome(frame.welcome)
            case "order":
                self._desk.submit(frame.order)
            case "clock_probe":
                if not self._quiet.gate.is_open:
                    return  # an echo now would be traffic, and one later would tell nothing
                received_ns = self._clock.now_ns()
                echo = wire.ClockEcho(
                    probe=frame.clock_probe.probe,
                    received_monotonic_ns=received_ns,
                    sent_monotonic_ns=self._clock.now_ns(),
                )
                self._link.send(wire.AgentFrame(clock_echo=echo))
            case "duty":
                self._take_duty(frame.duty)
            case "quiet":
                self._begin_chore(self._quiet.tell(frame.quiet.on))
            case "stop":
                self._take_stop(frame.stop)
            case kind:
                self._log(f"frame of unknown kind {kind!r} ignored")

    def _take_stop(self, stop: wire.Stop) -> None:
        self._stop(stop.reason, stop.drain_s)

    def _take_welcome(self, welcome: wire.Welcome) -> None:
        self._begin_chapter(welcome.run_id)
        self._begin_chore(self._quiet.tell(False))  # whoever wanted silence in the session before
        for trouble in self._stores.troubles:
            event = wire.Event(kind="store refuses", monotonic_ns=self._clock.now_ns(), detail=trouble)
            self._quiet.emit(wire.AgentFrame(event=event))
        renewed = self._data_credential is not self._identity.current
        if renewed or welcome.data_address != self._data_address:  # or a restarted controller's
            self._dial_data(welcome.data_address)
        self._peers.credential, self._peers.keepalive = self._identity.current, not self._quiet.on
        self._begin_chore(self._exchange.begin_run(welcome))
        spec = LearningSpec.from_json(welcome.experiment_json)
        if spec != self._spec:
            self._spec = spec
            self._begin_chore(self._prepare(spec))

    def _dial_data(self, address: str) -> None:
        """A new data channel; what is moving over the old one may end there."""
        if self._data_channel is not None:
            self._begin_chore(self._data_channel.close(_TRANSFER_GRACE_S))
        self._data_address = address
        self._data_credential = self._identity.current
        self._data_channel = secure_channel(
            address, self._data_credential, MAX_DATA_MESSAGE_BYTES, keepalive=not self._quiet.on
        )
        self._desk.data = DataLink(self._data_channel, self._settings.device, self._clock)

    async def _watch_identity(self) -> None:
        """Use a new certificate as soon as it is there; the session goes on with the one it began with."""
        while True:
            await asyncio.sleep(_IDENTITY_PERIOD_S)
            before = self._identity.current
            self._identity.refresh()
            if self._identity.current is not before:
                self._tell_and_log("certificate renewed", self._settings.identity_dir)
                if self._data_channel is not None:
                    self._dial_data(self._data_address)

    def _begin_chore(self, work: Coroutine[None, None, None]) -> None:
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _prepare(self, spec: LearningSpec) -> None:
        """Warm the trainer; a failure here comes back with the first train order, which tries again."""
        try:
            await self._worker.prepare(spec)
            self._tell("trainer ready", f"{self._worker.rss_bytes} bytes resident")
        except (TrainerDied, TrainerRefused) as error:
            self._tell("trainer not ready", str(error))

    async def _read_meter(self) -> None:
        """Spool what the meter says. A meter that cannot be opened costs readings, not the agent."""
        try:
            await self._follow_meter()
        except (ConfigError, MeterError) as error:
            self._tell("meter unavailable", str(error))
            await self._stopping.wait()

    async def _follow_meter(self) -> None:
        settings, folder = self._settings.meter, Path(self._settings.state_dir)
        await read_meter(settings, self._clock, self._spool, folder, self._timeline.alive, self._hear_meter)

    def _hear_meter(self, item: Reading | AgentEvent) -> None:
        """Every reading and event of the meter comes by here."""

    def _phase_begins(self, phase: Phase, ns: int, mbit_s: float) -> None:
        """Whether we may speak now; and what an emulated board draws from now on."""
        self._quiet.follow(phase)
        if self._load is not None:
            self._load.follow(phase, ns, mbit_s)

    def _radio_moves(self, total_bytes: int, mbit_s: float) -> None:
        phase = self._timeline.current
        if self._load is not None and phase is not None:
            self._load.radio_moves(phase.start_ns, total_bytes, mbit_s)

    def _radio_exchanges(self, sending_mbit_s: float, coming_mbit_s: float) -> None:
        if self._load is not None:
            self._load.exchange(sending_mbit_s, coming_mbit_s)

    async def _watch_host(self) -> None:
        await self._keep_host_samples(self._settings.host)

    async def _keep_host_samples(self, settings: HostSettings) -> None:
        metrics = HostMetrics(settings, emulated=self._settings.emulation is not None)

        def keep(sample: HostSample) -> None:
            self._spool.append(RecordKind.HOST, sample.to_bytes())

        def unwanted() -> bool:
            phase = self._timeline.current
            measured = phase is not None and phase.phase in MEASURED
            return self._duty_level is DutyLevel.READER or (measured and not settings.during_phases)

        await watch_host(metrics, settings, self._clock, keep, unwanted)

    def _take_duty(self, message: wire.Duty) -> None:
        try:
            levels, block_s = duty_from(message)
        except ValueError as error:
            self._tell("duty refused", str(error))
            return
        if self._duty is not None:
            self._duty.cancel()
        duty = Duty(self._clock, self._live_at, self._event)
        self._duty = asyncio.create_task(duty.carry_out(levels, block_s), name="duty")

    async def _live_at(self, level: DutyLevel) -> None:
        self._duty_level = level
        if level is DutyLevel.READER:
            self._link.rest(f"duty: {level}")
        else:
            self._link.wake()
        await self._quiet.rest(level is not DutyLevel.STREAMING)

    async def _end_duty(self) -> None:
        if self._duty is not None:
            self._duty.cancel()
            await asyncio.gather(self._duty, return_exceptions=True)

    def _begin_chapter(self, run: str) -> None:
        """Records from now on belong to `run` (to the one of the life before, if it is not known yet)."""
        last = self._spool.chapter
        chapter = following(
            last,
            boot_id=self._boot_id,
            clock=self._clock,
            meter=self._settings.meter.driver if self._settings.meter.port else "",
            run=run or (last.run if last is not None else ""),
        )
        self._spool.begin_chapter(chapter, self._clock.now_ns())

    def _end_run(self) -> None:
        """What comes after an orderly end belongs to no run, until a controller names the next."""
        last = self._spool.chapter
        if last is not None:
            self._spool.begin_chapter(replace(last, run=""), self._clock.now_ns())

    async def _keep_spool_synced(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_PERIOD_S)
            await asyncio.to_thread(self._spool.sync)

    def _stop(self, reason: str, drain_s: float) -> None:
        self._stop_reason, self._drain_s = reason, drain_s
        self._stopping.set()

    def _event(self, kind: str, detail: str) -> None:
        self._spool.append(RecordKind.EVENT, AgentEvent(kind, self._clock.now_ns(), detail).to_bytes())

    def _tell(self, kind: str, detail: str) -> None:
        """An event that the controller should hear of now, too."""
        self._event(kind, detail)
        event = wire.Event(kind=kind, monotonic_ns=self._clock.now_ns(), detail=detail)
        self._quiet.emit(wire.AgentFrame(event=event))

    def _tell_and_log(self, kind: str, detail: str) -> None:
        self._log(f"{kind}: {detail}")
        self._tell(kind, detail)

    def _log(self, text: str) -> None:
        print(f"{time.strftime('%F %T')} {self._settings.device}: {text}", file=sys.stderr, flush=True)

    async def _close(self) -> None:
        for chore in list(self._chores):
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self._peers.close()
        if self._data_channel is not None:
            await self._data_channel.close()
        await self._stores.aclose()
        self._worker.close()
        if self._load is not None:
            self._load.close()
        self._spool.close()
