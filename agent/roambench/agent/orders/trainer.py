"""All that trains on a device: the trainer's process, the models it leaves, and the orders for it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from roambench.agent.background import undivided, why
from roambench.agent.board_load import BoardLoad
from roambench.agent.link import Link
from roambench.agent.orders.exchange_orders import ExchangeOrders
from roambench.agent.orders.held_model import HeldModel
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.preparation import Preparation
from roambench.agent.orders.program import Program
from roambench.agent.orders.queue import OrderQueue
from roambench.agent.orders.resume_point import ModelKeeper, ResumePoint
from roambench.agent.orders.shard_store import ShardStore
from roambench.agent.orders.worker import Worker
from roambench.agent.orders.workplace import Workplace
from roambench.agent.readings.meter import AgentMeter
from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.phases import Phase
from roambench.contract.session import Welcome


class Trainer:
    """Carries out the orders of one agent, one after the other; its phases are stamped in `meter`."""

    def __init__(self, process: socket.socket, meter: AgentMeter, link: Link, load: BoardLoad) -> None:
        settings, folder = meter.settings, Path(meter.settings.state_dir)
        emulation = settings.emulation
        self._folder = folder
        self._meter = meter
        self._link = link
        self._orders: asyncio.Task[None] | None = None
        self.worker = Worker(process)
        self.program = Program(folder, () if settings.run else settings.secrets)
        self.preparation = Preparation(
            self.worker,
            self.program,
            ShardStore(folder / "shards"),
            link.data,
            link.reporter,
            link.chores,
        )
        self.place = Workplace(
            timeline=meter.timeline,
            worker=self.worker,
            clock=meter.clock,
            folder=folder,
            reporter=link.reporter,
            load=load,
            dial=link.data,
            quiet=link.quiet,
            cpu_slowdown=emulation.cpu_slowdown if emulation is not None else None,
            sgd_step_s=emulation.sgd_step_s if emulation is not None else 0.0,
        )
        self.model_cache, self.held = ModelCache(folder / "model-cache"), HeldModel(folder / "held")
        self.exchange = ExchangeOrders(self.place, link.peers, self.held)
        keepers: dict[str, ModelKeeper] = {"model-cache": self.model_cache, "held": self.held}
        self.point = ResumePoint(folder / "resume-point", keepers)
        self.order_queue = OrderQueue(
            self.place, self.model_cache, settings.chaos, self.exchange, self.point, self.program
        )

    @property
    def trained_order_ids(self) -> tuple[str, ...]:
        """The orders whose models are here."""
        models = (self.model_cache.trained(), self.held.last())
        return tuple(model.order_id for model in models if model is not None)

    def enter(self, run: str) -> None:
        """Forget the models of other runs."""
        if not self.point.is_of(run):
            self.point.clear()  # the run of that point cannot go on any more
        self.model_cache.clear()
        self.program.forget()

    def work_for(self, welcome: Welcome) -> None:
        """Prepare for what this controller's run learns and exchanges. Settings that cannot be read, such as
        those of another version, are reported: they would be the same at the next dial."""
        self._link.chores.begin(self.exchange.begin_run(welcome))
        try:
            self.preparation.begin(LearningSpec.from_json(welcome.learning_json))
        except ConfigError as error:
            self._link.reporter.report_and_log(EventKind.TRAINER_NOT_READY, str(error))

    async def carry_out_orders(self) -> None:
        """One run of the order queue after the other: that of orders that are given up is cancelled.

        They wait for the meter's first line, so that all of them is measured, or until none is expected.
        """
        await self._meter.settled()
        while True:
            self._orders = asyncio.create_task(self.order_queue.run(), name="orders")
            try:
                await asyncio.wait({self._orders})
            finally:
                self._orders.cancel()
            if not self._orders.cancelled():
                self._orders.result()

    async def leave(self, run: str, resumes_at: int) -> None:
        """Give up all orders of `run`; keep what it takes to go on with `resumes_at` (0: it never will)."""
        self.worker.abandon()
        self.program.abandon()
        await self._give_up_orders()
        if run and resumes_at:
            try:
                await undivided(self.point.reach, resumes_at)
            except OSError as error:
                self._link.reporter.lacks(f"keeping what a resumed run would need: {why(error)}")
        elif run:
            self.point.clear()

    async def go_back(self, run: str, resumes_at: int, part: int) -> None:
        """Give up what another controller of `run` ordered; hold what was held before step `resumes_at`."""
        timeline = self._meter.timeline
        if timeline.phase is Phase.TRAIN:
            self.worker.abandon()
        await self._give_up_orders()
        await self.worker.abandoned()
        await self._link.peers.close()
        await undivided(self.point.begin, run, resumes_at, part)
        timeline.enter(Phase.WAIT, resumes_at)

    def forget_run(self) -> None:
        """Let go of the models of a run that is over, and of its program."""
        self.model_cache.clear()
        self.program.forget()
        for name in ("start.blob", "previous.blob", "coded.blob", "decoded.blob"):
            (self._folder / name).unlink(missing_ok=True)
        self.held.clear()

    async def _give_up_orders(self) -> None:
        self.order_queue.forget()
        if self._orders is not None:
            self._orders.cancel()
            await asyncio.wait({self._orders})
