"""A device's session: meter, trainer and link as one agent, which enters runs, goes back in them and leaves.

A run begins with the settings of an agent that was started for it, or with the welcome of a controller that
names it. It ends with that controller's stop, and survives the death of the agent and of the board in
between: its name is in the spool's record context, its trained model in the model cache. Another controller
may go on with it, where the first one died or stopped before its end, until another run begins.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from roambench.agent.board_load import BoardLoad
from roambench.agent.life.duty import DutyRunner
from roambench.agent.life.notify import notify
from roambench.agent.link import Link
from roambench.agent.orders.trainer import Trainer
from roambench.agent.orders.worker import rss_bytes
from roambench.agent.readings.meter import AgentMeter
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.orders import GivenOrder
from roambench.contract.phases import Phase
from roambench.contract.session import (
    ClockEcho,
    ClockProbe,
    ControllerWord,
    DutySchedule,
    Hello,
    ModelReceipt,
    ModelReply,
    Silence,
    Stop,
    Welcome,
)
from roambench.spool.spool import Spool
from roambench.wire.v1.methods import PROTOCOL_VERSION

#: Host seconds in which an agent that ends unasked drains; what is left is sent in its next life.
DRAIN_S: Final = 5.0
#: Host seconds after a run until the controller is dialled again: the last one closes its ports meanwhile.
REST_S: Final = 2.0
_MOST_RUN_LETTERS: Final = 100
_CAPABILITIES: Final = ("train", "upload", "meter")


@dataclass(slots=True)
class Ending:
    """The end of an agent, once it has `begun`: what is in the spool is drained for `drain_s` host seconds. A
    controller that did not ask for it (`is_asked`) and is gone is not waited for."""

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


class AgentSession:
    """Answers the controller's words. `is_leaving`: they are of a run that is over, or void."""

    def __init__(self, settings: AgentSettings, trainer: socket.socket, load: BoardLoad) -> None:
        self.settings = settings
        self.load = load
        self.ending = Ending()
        self.clock = clock = DeviceClock(settings.epoch_ns, settings.time_scale, settings.ahead_ns)
        spool = Spool(Path(settings.state_dir) / "spool.sqlite", consumers=settings.stores)
        self.link = link = Link(settings, clock, spool)
        self.meter = AgentMeter(settings, clock, spool, link.reporter, link.quiet, link.drain_of, load)
        self.trainer = Trainer(trainer, self.meter, link, load)
        self.duty = DutyRunner(clock, link.control, link.quiet, self.meter.host, link.reporter)
        self.is_leaving = False
        self._started_ns = time.monotonic_ns()
        self._machine_id = settings.machine_id or Path("/etc/machine-id").read_text().strip()

    @property
    def run_id(self) -> str:
        """The run that this device takes part in; empty: none."""
        return self.meter.context.run_id

    def begin_life(self) -> None:
        """Begin in the run in which the life before ended, or the one that it was started for, if any."""
        before = self.run_id
        self.meter.begin_life(before or self.settings.run[:_MOST_RUN_LETTERS])
        if before:
            self.link.reporter.log(f"in run {before} again")

    def hello(self) -> Hello:
        """The word with which a session begins."""
        return Hello(
            protocol_version=PROTOCOL_VERSION,
            device=self.settings.device,
            machine_id=self._machine_id,
            boot_id=self.meter.context.boot_id,
            agent_version=version("roambench"),
            capabilities=_CAPABILITIES,
            spool_uuid=self.meter.spool.uuid,
            trained_order_ids=self.trainer.trained_order_ids,
            rss_bytes=rss_bytes(),
            trainer_rss_bytes=self.trainer.worker.rss_bytes,
            started_ns=self._started_ns,
            peer_address=self.link.peers.address,
            build=build_hash(),
        )

    def about(self) -> dict[str, Any]:
        """The agent's identity, versions and state, JSON-ready."""
        phase = self.meter.timeline.phase
        session = "open" if self.link.control.is_open else "dialling"
        return {
            "device": self.settings.device,
            "version": version("roambench"),
            "build": build_hash(),
            "pid": os.getpid(),
            "boot_id": self.meter.context.boot_id,
            "uptime_s": round((self.clock.now_ns() - self.clock.from_host_ns(self._started_ns)) * 1e-9, 1),
            "controller": self.settings.controller,
            "run": self.run_id,
            "session": "leaving" if self.is_leaving else session,
            "away_s": self.link.control.away_s,
            "phase": phase.value if phase is not None else "",
            "trainer_rss_bytes": self.trainer.worker.rss_bytes,
        }

    def take(self, word: ControllerWord | None) -> None:
        """Act on a word of the controller, None where it was of an unknown kind."""
        if self.is_leaving:
            return
        link = self.link
        match word:
            case Welcome():
                self._welcome(word)
            case GivenOrder():
                self.trainer.order_queue.submit(word)
            case ClockProbe():
                if not link.quiet.gate.is_open:
                    return  # an echo now would be traffic, and one later would tell nothing
                received_ns = self.clock.now_ns()
                link.control.say(ClockEcho(word.probe, received_ns, self.clock.now_ns()))
            case DutySchedule():
                try:
                    self.duty.take(word)
                except ValueError as error:
                    link.reporter.report(EventKind.DUTY_REFUSED, str(error))
            case Silence():
                link.chores.begin(link.quiet.set_quiet(word.on))
            case ModelReply() | ModelReceipt():
                link.data.session.take(word)
            case Stop():
                link.chores.begin(self.leave(word.reason, word.drain_s, word.resumes_at))
            case None:
                link.reporter.log("frame of unknown kind ignored")

    async def leave(self, reason: str, drain_s: float | None, resumes_at: int = 0) -> None:
        """End the run here: give up its orders, drain for `drain_s` (None: not at all), forget its models but
        for what it takes to go on with `resumes_at` (0: it never will). Then the controller is dialled again.

        An agent that was started for the run ends instead; what it holds stays in its folder, with the run's.
        """
        if self.settings.run:
            self.ending.begin(reason, drain_s or 0.0)
            return
        if self.is_leaving:
            return
        self.is_leaving, run = True, self.run_id
        meter, link = self.meter, self.link
        try:
            await self.duty.end()
            await self.trainer.leave(run, resumes_at)
            meter.sign_off(reason)
            await link.quiet.set_quiet(False)
            link.quiet.follow(Phase.IDLE)
            self.load.burn(0.0)
            meter.end_run()
            if drain_s is not None:
                await meter.flush(drain_s)
            link.control.rest(reason, meter.left)
            meter.set_aside()  # what is left is of a run that is over: `fleet fetch` finds it there
            self.trainer.forget_run()
            await link.forget_run()
            meter.host.forget_run()
            notify("STATUS=between runs")
            link.reporter.log(f"run {run} is over here: {reason}")
            await asyncio.sleep(REST_S)
        finally:
            self.is_leaving = False
            link.control.wake()

    async def taken(self, by: str) -> str:
        """Leave the run for good, since another bench has taken the board; returns the run, "" for none."""
        run = self.run_id
        if run:
            self.link.reporter.report_and_log(EventKind.BOARD_TAKEN, by)
            await self.leave(f"the board was taken by {by}", None)
        return run

    async def close(self) -> None:
        """Leave nothing open and nothing at work."""
        await self.link.close()
        await self.meter.close()
        self.trainer.worker.close()
        await self.trainer.program.close()
        self.load.close()
        self.meter.spool.close()

    def _welcome(self, welcome: Welcome) -> None:
        """Begin a session with a controller that names its run."""
        link, point = self.link, self.trainer.point
        run = welcome.run_id[:_MOST_RUN_LETTERS]
        if not link.is_as(welcome):
            return
        if self.run_id not in ("", run):  # its controller never said that it is over
            link.chores.begin(self.leave(f"another run begins: {run}", None))
            return
        link.quiet.on = welcome.quiet
        self.trainer.place.rest_s = welcome.rest_s
        self.meter.host.sample_every(welcome.host_period_s, during_phases=welcome.host_during_phases)
        if self.run_id and point.is_behind(run, welcome.part):
            self.is_leaving = True
            link.control.rest("back to where the run goes on")  # first: answers to void orders go nowhere
            link.chores.begin(self._go_back(run, welcome.resumes_at, welcome.part))
            return
        comes_back = not self.run_id and welcome.part > 0
        if comes_back and not point.is_before(run, welcome.resumes_at):
            link.reporter.report_and_log(EventKind.CANNOT_RESUME, run)
            return
        if not self.run_id:
            self.trainer.enter(run)
            self.meter.enter(run, *(word[:_MOST_RUN_LETTERS] for word in (welcome.bench, welcome.system)))
            notify(f"STATUS=in run {run}")
            link.reporter.log(f"run {run} begins")
        point.begin(run, welcome.resumes_at, welcome.part, left=comes_back)
        link.work_for(welcome)
        self.meter.work_for_controller(welcome.drain_period_s)
        self.trainer.work_for(welcome)

    async def _go_back(self, run: str, resumes_at: int, part: int) -> None:
        """Hold what was held before step `resumes_at`, and dial again."""
        try:
            await self.trainer.go_back(run, resumes_at, part)
            self.link.reporter.log(f"in run {run} another controller goes on with step {resumes_at}")
        finally:
            self.is_leaving = False
            self.link.control.wake()


def build_hash() -> str:
    """The build that this process runs, from where its environment lies; empty: none that was provisioned."""
    prefix = Path(sys.prefix).resolve()
    return prefix.parent.name if prefix.name == "venv" and prefix.parent.parent.name == "builds" else ""
