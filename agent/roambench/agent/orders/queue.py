"""The agent's order queue: orders are carried out one after the other, and every one is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Protocol

from roambench.agent.background import undivided, why
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.program import Program
from roambench.agent.orders.program_orders import ProgramOrders
from roambench.agent.orders.resume_point import ResumePoint
from roambench.agent.orders.train_orders import TrainOrders
from roambench.agent.orders.transfer_orders import TransferOrders
from roambench.agent.orders.worker import TrainerDied, TrainerRefused
from roambench.agent.orders.workplace import Workplace
from roambench.agent.session.data_link import TimeIsUp
from roambench.agent.settings import ChaosSettings
from roambench.contract.draws import generator
from roambench.contract.errors import RoambenchError
from roambench.contract.orders import (
    HAD_ARRIVED,
    Answer,
    DiscardOrder,
    ExchangeOrder,
    GivenOrder,
    IdleOrder,
    ProgramOrder,
    SyncOrder,
    TrainOrder,
    TransferOrder,
    UploadOrder,
)
from roambench.contract.phases import Phase
from roambench.contract.session import KeptAnswer
from roambench.wire.frames import serialised


class Exchanges(Protocol):
    """Port that carries out the orders of decentralised runs (`exchange_orders`)."""

    async def carry_out(self, given: GivenOrder, order: ExchangeOrder) -> Answer:
        """Make the half step, exchange it with the neighbours and answer."""
        ...

    async def collect(self, given: GivenOrder, order: UploadOrder) -> Answer:
        """Upload the model that an exchange left here; it stays held."""
        ...

    def recall(self, order_id: str) -> KeptAnswer | None:
        """The answer of the last exchange, if it was this order's; it may be unsent."""
        ...


@dataclass(slots=True)
class OrderQueue:
    """Without `exchanges` it knows no orders of decentralised runs."""

    place: Workplace
    model_cache: ModelCache
    chaos: ChaosSettings
    exchanges: Exchanges | None = None
    point: ResumePoint | None = None  # kept up to date with what orders say of it
    program: Program | None = None
    _queue: asyncio.Queue[GivenOrder] = field(default_factory=asyncio.Queue)
    _known: set[str] = field(default_factory=set)

    def submit(self, given: GivenOrder) -> None:
        """Queue an order; a repeat is answered from disk, or ignored while it is still being carried out."""
        remembered, order_id = self._remembered(given), given.order.order_id
        if remembered is not None:
            self.place.emit(remembered)
        elif order_id not in self._known:
            self._known.add(order_id)
            self._queue.put_nowait(given)

    async def run(self) -> None:
        """Carry out orders one after the other, for ever."""
        while True:
            given = await self._queue.get()
            # All orders before it are done, and none of its step has begun.
            if self.point is not None and self.point.is_due(given.resumes_at):
                try:
                    await undivided(self.point.reach, given.resumes_at)
                except OSError as error:  # a resumed run will find nothing here for that step, and say so
                    self.place.reporter.lacks(f"keeping what a resumed run would need: {why(error)}")
            try:
                await self._carry_out(given)
            except RoambenchError:
                raise
            except OSError as error:
                self.place.reporter.lacks(f"an order of step {given.order.step}: {why(error)}")
            self._known.discard(given.order.order_id)

    def forget(self) -> None:
        """Drop the orders that wait here: their run is over."""
        self._known.clear()
        while not self._queue.empty():
            self._queue.get_nowait()

    def _remembered(self, given: GivenOrder) -> Answer | KeptAnswer | None:
        """The answer of an order that was carried out before, perhaps in an earlier life of the agent."""
        order_id = given.order.order_id
        if (answer := self.model_cache.answer(order_id)) is not None:
            return KeptAnswer(answer)
        model = self.model_cache.trained()
        if model is not None and model.order_id == order_id:  # it died before it could note the answer
            return given.done(model.reply)
        return None if self.exchanges is None else self.exchanges.recall(order_id)

    async def _carry_out(self, given: GivenOrder) -> None:
        timeline = self.place.timeline
        match given.order:
            case IdleOrder() as order:
                timeline.enter(Phase.IDLE if order.present else Phase.ABSENT, order.step)
            case DiscardOrder() as order:
                if order.reason == HAD_ARRIVED:
                    self.model_cache.fed_back()
                self.model_cache.release(order.train_order_id, as_own=order.keeps_model)
            case UploadOrder() as order if self.exchanges is not None and order.collects:
                before = timeline.phase
                await self._answer(await self._attempt(self.exchanges.collect(given, order), given))
                if before is Phase.ABSENT:  # who is away gives its model, too
                    timeline.enter(Phase.ABSENT, order.step)
            case _:
                await self._answer(await self._attempt(self._action(given), given))

    async def _action(self, given: GivenOrder) -> Answer:
        transfers = TransferOrders(self.place, self.model_cache)
        match given.order:
            case TrainOrder() as order:
                program = self.program if self.program is not None and self.program.is_expected else None
                return await TrainOrders(self.place, self.model_cache, program).carry_out(given, order)
            case ProgramOrder() as order if self.program is not None:
                return await ProgramOrders(self.place, self.model_cache, self.program).carry_out(given, order)
            case ExchangeOrder() as order if self.exchanges is not None:
                return await self.exchanges.carry_out(given, order)
            case UploadOrder() as order:
                return await transfers.upload(given, order)
            case SyncOrder() as order:
                return await transfers.sync(given, order)
            case TransferOrder() as order:
                return await transfers.padding(given, order)
            case order:
                return given.refused(f"{type(order).__name__} is a kind of order that is unknown here")

    async def _attempt(self, action: Awaitable[Answer], given: GivenOrder) -> Answer:
        try:
            return await action
        except TrainerRefused as error:
            return given.refused(str(error))
        except TimeIsUp as error:
            return given.late(str(error))
        except (RoambenchError, TrainerDied, OSError) as error:
            return given.failed(str(error))
        finally:
            self.place.wait(given.order.step)

    async def _answer(self, answer: Answer) -> None:
        try:
            self.model_cache.remember(answer.order_id, serialised(answer))
        except OSError as error:  # asked again in another life, the order is carried out again
            self.place.reporter.lacks(f"keeping an answer: {why(error)}")
        delay_s = self.chaos.fixed_delay_s
        if self.chaos.random_delay_s > 0:
            draw = generator(self.chaos.seed, f"reply delay {answer.order_id}").random()
            delay_s += self.chaos.random_delay_s * float(draw)
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        self.place.emit(answer)
