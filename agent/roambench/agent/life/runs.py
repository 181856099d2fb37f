"""A device's runs: it enters them, goes back in them, carries their orders out and leaves them.

A run begins with the settings of an agent that was started for it, or with the welcome of a controller that
names it. It ends with that controller's stop, and survives the death of the agent and of the board in
between: its name is in the spool's record context, its trained model in the model cache. Another controller
may go on with it, where the first one died or stopped before its end, until another run begins.
"""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version
from pathlib import Path
from typing import Final

from roambench.agent.background import undivided, why
from roambench.agent.life.notify import notify
from roambench.agent.life.parts import AgentParts
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, RecordKind
from roambench.contract.session import Welcome

#: Host seconds after a run until the controller is dialled again: the last one closes its ports meanwhile.
REST_S: Final = 2.0
_MOST_RUN_LETTERS: Final = 100


class Runs:
    """`is_leaving`: what a controller says now is of a run that is over, or void."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._orders: asyncio.Task[None] | None = None
        self.is_leaving = False

    @property
    def run_id(self) -> str:
        """The run that this device takes part in; empty: none."""
        return self._parts.context.run_id

    def begin_life(self) -> None:
        """In the run in which the life before ended, or the one that it was started for, if any; between runs
        nothing is a phase."""
        parts, before = self._parts, self.run_id
        parts.context.begin(before or parts.settings.run[:_MOST_RUN_LETTERS])
        if parts.spool.damage:
            parts.reporter.report_and_log(EventKind.SPOOL_DAMAGED, parts.spool.damage)
        if self.run_id:
            self._begin_phases()
        if before:
            parts.log(f"in run {before} again")

    def sign_off(self, reason: str) -> None:
        """Keep the last records of a run, or of this life."""
        parts = self._parts
        parts.timeline.close()
        parts.reporter.note(EventKind.AGENT_STOPPING, reason)
        parts.spool.append(RecordKind.EVENT, parts.stores.state_event(parts.clock.now_ns()).to_bytes())

    def welcome(self, welcome: Welcome) -> None:
        """A session begins with a controller that names its run."""
        parts = self._parts
        run = welcome.run_id[:_MOST_RUN_LETTERS]
        parts.drain.welcomed = False
        if parts.link.keepalive == welcome.quiet:
            parts.link.keepalive = not welcome.quiet
            parts.link.redial("dialling as this run wants it")
            return
        if self.run_id not in ("", run):  # its controller never told us that it is over
            parts.chores.begin(self.leave(f"another run begins: {run}", None))
            return
        parts.quiet.on = welcome.quiet
        parts.place.rest_s = welcome.rest_s
        parts.host.follow(welcome.host_period_s, during_phases=welcome.host_during_phases)
        if self.run_id and parts.point.is_behind(run, welcome.part):
            self.is_leaving = True
            parts.link.rest("back to where the run goes on")  # first: answers of what is void are nobody's
            parts.chores.begin(self._go_back(run, welcome.resumes_at, welcome.part))
            return
        comes_back = not self.run_id and welcome.part > 0
        if comes_back and not parts.point.is_before(run, welcome.resumes_at):
            parts.reporter.report_and_log(EventKind.CANNOT_RESUME, run)
            return
        if not self.run_id:
            self._enter(run)
        parts.point.begin(run, welcome.resumes_at, welcome.part, left=comes_back)
        self._work_for(welcome)

    async def leave(self, reason: str, drain_s: float | None, resumes_at: int = 0) -> None:
        """End the run here: give up its orders, drain for `drain_s` (None: not at all), forget its models but
        for what it takes to go on with `resumes_at` (0: it never will). Then the controller is dialled again.

        An agent that was started for the run ends instead; what it holds stays in its folder, with the run's.
        """
        parts, run = self._parts, self.run_id
        if parts.settings.run:
            parts.ending.begin(reason, drain_s or 0.0)
            return
        if self.is_leaving:
            return
        self.is_leaving = True
        try:
            await parts.duty.end()
            parts.worker.abandon()
            await self._give_up_orders()
            if run and resumes_at:
                try:
                    await undivided(parts.point.reach, resumes_at)
                except OSError as error:
                    parts.lacks(f"keeping what a resumed run would need: {why(error)}")
            elif run:
                parts.point.clear()
            self.sign_off(reason)
            await parts.quiet.set_quiet(False)
            parts.quiet.follow(Phase.IDLE)
            parts.load.burn(0.0)
            parts.context.end_run()
            if drain_s is not None:
                await parts.stores.flush(drain_s)
            parts.link.rest(reason, parts.stores.left)
            parts.unsent.set_aside()  # what is left is of a run that is over: `fleet fetch` finds it there
            await self._forget()
            notify("STATUS=between runs")
            parts.log(f"run {run} is over here: {reason}")
            await asyncio.sleep(REST_S)
        finally:
            self.is_leaving = False
            parts.link.wake()

    async def carry_out_orders(self) -> None:
        """One run of the order queue after the other: that of orders that are given up is cancelled.

        They wait for the meter's first line, so that all of them is measured, or until none is expected.
        """
        if self._parts.settings.meter.port:
            await self._parts.meter.settled.wait()
        while True:
            self._orders = asyncio.create_task(self._parts.order_queue.run(), name="orders")
            try:
                await asyncio.wait({self._orders})
            finally:
                self._orders.cancel()
            if not self._orders.cancelled():
                self._orders.result()

    def _begin_phases(self) -> None:
        """One stamp for both: an AGENT_STARTED inside a phase would tell that the agent died in it."""
        parts, about = self._parts, f"pid {os.getpid()}, version {version('roambench')}"
        event = AgentEvent(EventKind.AGENT_STARTED, parts.timeline.resume(), about)
        parts.spool.append(RecordKind.EVENT, event.to_bytes())

    def _enter(self, run: str) -> None:
        parts = self._parts
        if not parts.point.is_of(run):
            parts.point.clear()  # nobody can go on with that run any more
        parts.model_cache.clear()
        parts.unsent.set_aside()
        parts.context.begin(run)
        self._begin_phases()
        for event in parts.meter.repeated(parts.clock.now_ns()):
            parts.spool.append(RecordKind.EVENT, event.to_bytes())
        notify(f"STATUS=in run {run}")
        parts.log(f"run {run} begins")

    def _work_for(self, welcome: Welcome) -> None:
        """This controller is our run's: it gets our records and may order."""
        parts, keepalive = self._parts, not welcome.quiet
        parts.drain.welcomed = True
        parts.stores.controller_is_there()
        parts.chores.begin(parts.quiet.set_quiet(False))  # whoever wanted silence in the session before
        if parts.spool.damage:
            parts.reporter.pass_on(EventKind.SPOOL_DAMAGED, parts.spool.damage)
        for trouble in parts.stores.troubles:
            parts.reporter.pass_on(EventKind.STORE_REFUSES, trouble)
        parts.data.dial(welcome.data_address, keepalive=keepalive)  # or a restarted controller's
        parts.peers.credential, parts.peers.keepalive = parts.identity.current, keepalive
        parts.chores.begin(parts.exchange.begin_run(welcome))
        parts.preparation.begin(LearningSpec.from_json(welcome.learning_json))

    async def _go_back(self, run: str, resumes_at: int, part: int) -> None:
        """Another controller goes on with our run: give up what the one before it ordered, hold what was held
        before that step, and dial again."""
        parts = self._parts
        try:
            if parts.timeline.phase is Phase.TRAIN:
                parts.worker.abandon()
            await self._give_up_orders()
            await parts.worker.abandoned()
            await parts.peers.close()
            await undivided(parts.point.begin, run, resumes_at, part)
            parts.timeline.enter(Phase.WAIT, resumes_at)
            parts.log(f"in run {run} another controller goes on with step {resumes_at}")
        finally:
            self.is_leaving = False
            parts.link.wake()

    async def _give_up_orders(self) -> None:
        self._parts.order_queue.forget()
        if self._orders is not None:
            self._orders.cancel()
            await asyncio.wait({self._orders})

    async def _forget(self) -> None:
        """Let go of what is the run's alone."""
        parts = self._parts
        parts.model_cache.clear()
        for name in ("start.blob", "previous.blob"):
            (Path(parts.settings.state_dir) / name).unlink(missing_ok=True)
        parts.quiet.on, parts.link.keepalive = False, True
        await parts.peers.close()
        parts.held.clear()
        await parts.data.close()
        parts.host.forget_run()
