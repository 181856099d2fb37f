"""The living agent: one event loop that reads the meter, spools, drains, and carries out orders."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from importlib.metadata import version
from pathlib import Path

from roambench.agent.agent_parts import AgentParts
from roambench.agent.meter_reader import read_meter
from roambench.agent.settings import AgentSettings
from roambench.agent.worker import TrainerDied, TrainerRefused, rss_bytes
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import GivenOrder
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.contract.session import (
    ClockEcho,
    ClockProbe,
    ControllerWord,
    DutySchedule,
    Hello,
    Silence,
    Stop,
    Welcome,
)
from roambench.wire.v1.methods import PROTOCOL_VERSION

_CAPABILITIES = ("train", "upload", "meter")
_IDENTITY_PERIOD_S = 10.0  # host seconds between looks (three stats) at the certificate's files
_SYNC_PERIOD_S = 1.0  # host seconds between WAL syncs: what a power cut may cost


class Agent(AgentParts):
    """Lives: one task per part, orders as they come, an orderly end."""

    def __init__(self, settings: AgentSettings, trainer: socket.socket) -> None:
        super().__init__(settings, trainer)
        self._stop_reason = ""
        self._drain_s = 5.0
        self._stopping = asyncio.Event()
        self._spec: LearningSpec | None = None

    async def run(self) -> int:
        """Live until stopped; returns the exit status."""
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
            tasks.append(asyncio.create_task(self._host.run(), name="host metrics"))
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
        await self._duty.end()
        self._timeline.close()
        self._reporter.note(EventKind.AGENT_STOPPING, self._stop_reason)
        self._spool.append(RecordKind.EVENT, self._stores.state_event(self._clock.now_ns()).to_bytes())
        self._end_run()
        await self._stores.flush(self._drain_s)
        self._link.hang_up(self._stop_reason or "agent failed", self._stores.left)
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
        self._begin_context(self._settings.run)
        self._report_damage()
        self._begin_phases()

    def _report_damage(self) -> None:
        if self._spool.damage:
            self._reporter.report_and_log(EventKind.SPOOL_DAMAGED, self._spool.damage)

    def _begin_phases(self) -> None:
        """One stamp for both: an AGENT_STARTED inside a phase would tell that the agent died in it."""
        started_ns, about = self._timeline.resume(), f"pid {os.getpid()}, version {version('roambench')}"
        event = AgentEvent(EventKind.AGENT_STARTED, started_ns, about)
        self._spool.append(RecordKind.EVENT, event.to_bytes())

    async def _carry_out_orders(self) -> None:
        await self._order_queue.run()

    def _more_tasks(self) -> list[asyncio.Task[None]]:
        """Further tasks that run for as long as the agent does."""
        return []

    def _hello(self) -> Hello:
        trained, held = self._model_cache.trained(), self._exchange.held.last()
        return Hello(
            protocol_version=PROTOCOL_VERSION,
            device=self._settings.device,
            machine_id=self._machine_id,
            boot_id=self._boot_id,
            agent_version=version("roambench"),
            capabilities=_CAPABILITIES,
            spool_uuid=self._spool.uuid,
            trained_order_ids=tuple(model.order_id for model in (trained, held) if model is not None),
            rss_bytes=rss_bytes(),
            trainer_rss_bytes=self._worker.rss_bytes,
            started_ns=self._started_ns,
            peer_address=self._peers.address,
        )

    def _take(self, word: ControllerWord | None) -> None:
        match word:
            case Welcome():
                self._take_welcome(word)
            case GivenOrder():
                self._order_queue.submit(word)
            case ClockProbe():
                if not self._quiet.gate.is_open:
                    return  # an echo now would be traffic, and one later would tell nothing
                received_ns = self._clock.now_ns()
                self._send(ClockEcho(word.probe, received_ns, self._clock.now_ns()))
            case DutySchedule():
                self._take_duty(word)
            case Silence():
                self._begin_chore(self._quiet.set_quiet(word.on))
            case Stop():
                self._take_stop(word)
            case None:
                self._log("frame of unknown kind ignored")

    def _take_stop(self, stop: Stop) -> None:
        self._stop(stop.reason, stop.drain_s)

    def _take_welcome(self, welcome: Welcome) -> None:
        self._begin_context(welcome.run_id)
        self._point.begin(welcome.run_id, welcome.resumes_at, welcome.part)
        self._begin_chore(self._quiet.set_quiet(False))  # whoever wanted silence in the session before
        if self._spool.damage:
            self._reporter.pass_on(EventKind.SPOOL_DAMAGED, self._spool.damage)
        for trouble in self._stores.troubles:
            self._reporter.pass_on(EventKind.STORE_REFUSES, trouble)
        self._data.dial(welcome.data_address, keepalive=not self._quiet.on)  # or a restarted controller's
        self._peers.credential, self._peers.keepalive = self._identity.current, not self._quiet.on
        self._begin_chore(self._exchange.begin_run(welcome))
        spec = LearningSpec.from_json(welcome.learning_json)
        if spec != self._spec:
            self._spec = spec
            self._begin_chore(self._prepare(spec))

    async def _watch_identity(self) -> None:
        """Use a new certificate as soon as it is there; the session goes on with the one it began with."""
        while True:
            await asyncio.sleep(_IDENTITY_PERIOD_S)
            before = self._identity.current
            self._identity.refresh()
            if self._identity.current is not before:
                self._reporter.report_and_log(EventKind.CERTIFICATE_RENEWED, self._settings.identity_dir)
                self._data.renew(keepalive=not self._quiet.on)

    async def _keep_spool_synced(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_PERIOD_S)
            await asyncio.to_thread(self._spool.sync)

    async def _prepare(self, spec: LearningSpec) -> None:
        """Warm the trainer; a failure here comes back with the first train order, which tries again."""
        try:
            await self._worker.prepare(spec)
            self._reporter.report(EventKind.TRAINER_READY, f"{self._worker.rss_bytes} bytes resident")
        except (TrainerDied, TrainerRefused) as error:
            self._reporter.report(EventKind.TRAINER_NOT_READY, str(error))

    async def _read_meter(self) -> None:
        """Spool what the meter says. A meter that cannot be opened costs readings, not the agent."""
        try:
            await self._follow_meter()
        except (ConfigError, MeterError) as error:
            self._reporter.report(EventKind.METER_UNAVAILABLE, str(error))
            await self._stopping.wait()

    async def _follow_meter(self) -> None:
        settings, folder = self._settings.meter, Path(self._settings.state_dir)
        await read_meter(
            settings, self._clock, self._spool, folder, self._timeline.alive, self._take_meter_item
        )

    def _take_meter_item(self, item: Reading | AgentEvent) -> None:
        """Every reading and event of the meter comes by here."""

    def _take_duty(self, schedule: DutySchedule) -> None:
        try:
            self._duty.take(schedule)
        except ValueError as error:
            self._reporter.report(EventKind.DUTY_REFUSED, str(error))

    def _stop(self, reason: str, drain_s: float) -> None:
        self._stop_reason, self._drain_s = reason, drain_s
        self._stopping.set()
