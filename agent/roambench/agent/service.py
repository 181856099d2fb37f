"""An agent that outlives its runs: what systemd keeps alive on a board.

Between runs it dials on, reads its meter, and keeps the newest readings. A run begins with the welcome of a
controller that names it, ends with that controller's stop, and survives the death of the agent and of the
board in between: its name is in the spool's record context, its trained model in the model cache. Another
controller may go on with it, where the first one died or stopped before its end, until another run begins.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from roambench.agent.ctl_handler import CtlHandler
from roambench.agent.ctl_server import serve_ctl
from roambench.agent.data_link import DataLink
from roambench.agent.host_metrics import HostMetrics
from roambench.agent.meter_watch import MeterWatch
from roambench.agent.notify import keep_watchdog, notify, watchdog_period_s
from roambench.agent.process import Agent
from roambench.agent.settings import AgentSettings
from roambench.agent.shard_store import ShardStore
from roambench.agent.undivided import undivided
from roambench.agent.unsent import Unsent
from roambench.contract.errors import ConfigError, LinkError, MeterError, RoambenchError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.contract.session import ControllerWord, Hello, Stop, Welcome
from roambench.spool.consumer import Record

#: Records of no run that are kept for whoever asks: an hour of readings.
KEPT_BETWEEN_RUNS: Final = 3600
#: Host seconds after a run until the controller is dialled again: the last one closes its ports meanwhile.
REST_S: Final = 2.0
_TIDY_PERIOD_S: Final = 60.0
_METER_RETRY_S: Final = 10.0
_SHARD_PATIENCE_S: Final = 600.0
_SHARD_ATTEMPTS: Final = 5
_MOST_RUN_LETTERS: Final = 100


class ServiceAgent(Agent):
    """One process, many runs."""

    def __init__(self, settings: AgentSettings, trainer: socket.socket) -> None:
        super().__init__(settings, trainer)
        folder = Path(settings.state_dir)
        self._unsent = Unsent(folder / "unsent", self._spool)
        self._shards = ShardStore(folder / "shards")
        self._meter = MeterWatch()
        self._orders: asyncio.Task[None] | None = None
        self._leaving = False
        self._welcomed = False  # whether the session is with the controller of our run
        self._ready_for: LearningSpec | None = None

    @property
    def run_id(self) -> str:
        """The run that this device takes part in; empty: none."""
        context = self._spool.context
        return context.run if context is not None else ""

    # ---- the agent's life ------------------------------------------------------------------

    def _begin_life(self) -> None:
        """In the run in which the life before ended, if any; between runs nothing is a phase."""
        self._begin_context(self.run_id)
        self._report_damage()
        if self.run_id:
            self._begin_phases()
            self._log(f"in run {self.run_id} again")

    def _more_tasks(self) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self._tidy(), name="tidy")]
        if self._settings.ctl_socket:
            handler = CtlHandler(
                device=self._settings.device,
                clock=self._clock,
                spool=self._spool,
                unsent=self._unsent,
                meter=self._meter,
                worker=self._worker,
                host=HostMetrics(self._settings.host, emulated=False),
                state_dir=Path(self._settings.state_dir),
                about=self.about,
                end_run=self.leave_run,
                draw=self._load.burn if self._load is not None else None,
            )
            serving = serve_ctl(Path(self._settings.ctl_socket), handler.answer)
            tasks.append(asyncio.create_task(serving, name="ctl"))
        if period_s := watchdog_period_s():
            tasks.append(asyncio.create_task(keep_watchdog(period_s), name="watchdog"))
        notify("READY=1")
        return tasks

    def _stop(self, reason: str, drain_s: float) -> None:
        notify("STOPPING=1")
        super()._stop(reason, drain_s)

    def _end_run(self) -> None:
        """A restarted agent, or a board that boots, goes on with the run."""

    async def _tidy(self) -> None:
        while True:
            if not self.run_id:
                self._unsent.set_aside(KEPT_BETWEEN_RUNS)
            await asyncio.sleep(_TIDY_PERIOD_S)

    # ---- runs ------------------------------------------------------------------------------

    def _take(self, word: ControllerWord | None) -> None:
        if not self._leaving:
            super()._take(word)

    def _take_welcome(self, welcome: Welcome) -> None:
        run = welcome.run_id[:_MOST_RUN_LETTERS]
        self._welcomed = False
        if self._link.keepalive == welcome.quiet:
            self._link.keepalive = not welcome.quiet
            self._link.redial("dialling as this run wants it")
            return
        if self.run_id not in ("", run):  # its controller never told us that it is over
            self._begin_chore(self.leave_run(f"another run begins: {run}", None))
            return
        self._quiet.on = welcome.quiet
        self._host.follow(welcome.host_period_s, during_phases=welcome.host_during_phases)
        behind = self._point.is_behind(run, welcome.part)
        if self.run_id and behind:
            self._leaving = True
            self._link.rest("back to where the run goes on")  # first: answers of what is void are nobody's
            self._begin_chore(self._go_back(run, welcome.resumes_at, welcome.part))
            return
        if not self.run_id:
            if welcome.part and not self._point.is_before(run, welcome.resumes_at):
                self._reporter.report_and_log(EventKind.CANNOT_RESUME, run)
                return
            self._enter_run(run)
            if welcome.part:
                self._point.begin(run, welcome.resumes_at, welcome.part, left=True)
        self._welcomed = True
        self._stores.controller_is_there()
        if self._ready_for == self._spec and not self._worker.is_prepared:
            self._spec = None  # its trainer has died since, or was ended with the run before: prepare anew
        super()._take_welcome(welcome)
        if self._ready_for == self._spec and self._worker.is_prepared:
            # The controller may be another, or have missed it.
            self._reporter.report(EventKind.TRAINER_READY, "as before")

    async def _drain(self, records: Sequence[Record]) -> int:
        """The records of a run whose controller died are none of the next one's."""
        if not self._welcomed:
            raise LinkError("no session with this run's controller")
        return await super()._drain(records)

    async def _go_back(self, run: str, resumes_at: int, part: int) -> None:
        """Another controller goes on with our run: give up what the one before it ordered, hold what was held
        before that step, and dial again."""
        try:
            if self._timeline.phase is Phase.TRAIN:
                self._worker.abandon()
            await self._give_up_orders()
            await self._worker.abandoned()
            await self._peers.close()
            await undivided(self._point.begin, run, resumes_at, part)
            self._timeline.enter(Phase.WAIT, resumes_at)
            self._log(f"in run {run} another controller goes on with step {resumes_at}")
        finally:
            self._leaving = False
            self._link.wake()

    def _enter_run(self, run: str) -> None:
        if not self._point.is_of(run):
            self._point.clear()  # nobody can go on with that run any more
        self._model_cache.clear()
        self._unsent.set_aside()
        self._begin_context(run)
        self._begin_phases()
        for event in self._meter.repeated(self._clock.now_ns()):
            self._spool.append(RecordKind.EVENT, event.to_bytes())
        notify(f"STATUS=in run {run}")
        self._log(f"run {run} begins")

    def _take_stop(self, stop: Stop) -> None:
        self._begin_chore(self.leave_run(stop.reason, stop.drain_s, stop.resumes_at))

    async def leave_run(self, reason: str, drain_s: float | None, resumes_at: int = 0) -> None:
        """End the run here: give up its orders, drain for `drain_s` (None: not at all), forget its models but
        for what it takes to go on with `resumes_at` (0: it never will).

        Then the controller is dialled again.
        """
        if self._leaving:
            return
        self._leaving = True
        run = self.run_id
        try:
            await self._duty.end()
            self._worker.abandon()
            await self._give_up_orders()
            if run and resumes_at:
                await undivided(self._point.reach, resumes_at)
            elif run:
                self._point.clear()
            self._timeline.close()
            await self._quiet.set_quiet(False)
            self._quiet.follow(Phase.IDLE)
            if self._load is not None:
                self._load.burn(0.0)
            self._reporter.note(EventKind.AGENT_STOPPING, reason)
            self._spool.append(RecordKind.EVENT, self._stores.state_event(self._clock.now_ns()).to_bytes())
            super()._end_run()
            if drain_s is not None:
                await self._stores.flush(drain_s)
            self._link.rest(reason, self._stores.left)
            self._unsent.set_aside()  # what is left is of a run that is over: `fleet fetch` finds it there
            await self._forget_run()
            notify("STATUS=between runs")
            self._log(f"run {run} is over here: {reason}")
            await asyncio.sleep(REST_S)
        finally:
            self._leaving = False
            self._link.wake()

    async def _forget_run(self) -> None:
        self._model_cache.clear()
        for name in ("start.blob", "previous.blob"):
            (Path(self._settings.state_dir) / name).unlink(missing_ok=True)
        self._quiet.on, self._link.keepalive = False, True
        await self._peers.close()
        self._exchange.held.clear()
        await self._data.close()
        self._host.forget_run()

    # ---- orders ----------------------------------------------------------------------------

    async def _carry_out_orders(self) -> None:
        """One run of the order queue after the other: that of orders that are given up is cancelled."""
        while True:
            self._orders = asyncio.create_task(self._order_queue.run(), name="orders")
            try:
                await asyncio.wait({self._orders})
            finally:
                self._orders.cancel()
            if not self._orders.cancelled():
                self._orders.result()

    async def _give_up_orders(self) -> None:
        self._order_queue.forget()
        if self._orders is not None:
            self._orders.cancel()
            await asyncio.wait({self._orders})

    async def _prepare(self, spec: LearningSpec) -> None:
        """The data first, if it is not here; a link that breaks is tried again."""
        wanted = spec
        for attempt in range(_SHARD_ATTEMPTS):
            try:
                spec = await self._shards.resolve(spec, self._fetch_shard)
                break
            except (RoambenchError, OSError) as error:
                if attempt == _SHARD_ATTEMPTS - 1:
                    self._reporter.report_and_log(EventKind.TRAINER_NOT_READY, f"no training data: {error}")
                    self._spec = None  # the next welcome tries again
                    return
            await asyncio.sleep(1.0 + attempt)
        await super()._prepare(spec)
        self._ready_for = wanted

    async def _fetch_shard(self, digest: str, path: Path) -> None:
        if not isinstance(self._place.data, DataLink):
            raise ConnectionError("no data plane")
        self._reporter.report(EventKind.FETCHING_DATA, digest)
        await self._place.data.fetch_shard(digest, path, _SHARD_PATIENCE_S)

    # ---- the board -------------------------------------------------------------------------

    async def _read_meter(self) -> None:
        """A meter that is away is looked for again; what is wrong with it is told once."""
        told = ""
        while True:
            try:
                await self._follow_meter()
            except (ConfigError, MeterError) as error:
                if str(error) != told:
                    told = str(error)
                    self._reporter.report_and_log(EventKind.METER_UNAVAILABLE, told)
                    self._meter.take(AgentEvent(EventKind.METER_UNAVAILABLE, self._clock.now_ns(), told))
            await asyncio.sleep(_METER_RETRY_S)

    def _take_meter_item(self, item: Reading | AgentEvent) -> None:
        self._meter.take(item)

    def _hello(self) -> Hello:
        return replace(super()._hello(), build=build_hash())

    # ---- what the control socket asks ------------------------------------------------------

    def session_state(self) -> str:
        """ "open", "dialling" or "leaving"."""
        if self._leaving:
            return "leaving"
        return "open" if self._link.is_open else "dialling"

    def about(self) -> dict[str, Any]:
        """The agent's identity, versions and state, JSON-ready."""
        return {
            "device": self._settings.device,
            "version": version("roambench"),
            "build": build_hash(),
            "pid": os.getpid(),
            "boot_id": self._boot_id,
            "uptime_s": round((self._clock.now_ns() - self._clock.from_host_ns(self._started_ns)) * 1e-9, 1),
            "controller": self._settings.controller,
            "run": self.run_id,
            "session": self.session_state(),
            "phase": self._timeline.current.phase.value if self._timeline.current is not None else "",
            "trainer_rss_bytes": self._worker.rss_bytes,
        }


def build_hash() -> str:
    """The build that this process runs, from where its environment lies; empty: none that was provisioned."""
    prefix = Path(sys.prefix).resolve()
    return prefix.parent.name if prefix.name == "venv" and prefix.parent.parent.name == "builds" else ""
