"""The agent's order queue: orders are carried out one after the other, and every one is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from roambench.agent.resume_point import ResumePoint
from roambench.agent.settings import ChaosSettings
from roambench.agent.shelf import Shelf
from roambench.agent.train_orders import TrainOrders, report_of
from roambench.agent.transfer_orders import TransferOrders
from roambench.agent.undivided import undivided
from roambench.agent.worker import TrainerDied, TrainerRefused
from roambench.agent.workplace import Workplace
from roambench.contract.draws import generator
from roambench.contract.errors import RoambenchError
from roambench.contract.phases import Phase
from roambench.wire.v1 import control_pb2 as wire


class Exchanges(Protocol):
    """Who carries out the orders of decentralised runs (`exchange_desk`)."""

    async def carry_out(self, order: wire.Order) -> wire.Answer:
        """Make the half step, exchange it with the neighbours and answer."""
        ...

    async def collect(self, order: wire.Order) -> wire.Answer:
        """Upload the model that an exchange left here; it stays held."""
        ...

    def recall(self, order_id: str) -> wire.Answer | None:
        """The answer of the last exchange, if it was this order's; it may be unsent."""
        ...


@dataclass(slots=True)
class OrdersDesk:
    """Without `exchanges` it knows no orders of decentralised runs."""

    place: Workplace
    shelf: Shelf
    chaos: ChaosSettings
    exchanges: Exchanges | None = None
    point: ResumePoint | None = None  # kept up to date with what orders say of it
    _queue: asyncio.Queue[wire.Order] = field(default_factory=asyncio.Queue)
    _known: set[str] = field(default_factory=set)

    def submit(self, order: wire.Order) -> None:
        """Queue an order; a repeat is answered from disk, or ignored while it is still being carried out."""
        remembered = self._remembered(order.order_id)
        if remembered is not None:
            self.place.emit(wire.AgentFrame(answer=remembered))
        elif order.order_id not in self._known:
            self._known.add(order.order_id)
            self._queue.put_nowait(order)

    async def run(self) -> None:
        """Carry out orders one after the other, for ever."""
        while True:
            order = await self._queue.get()
            if self.point is not None:  # all orders before it are done, and none of its step has begun
                await undivided(self.point.reach, order.resumes_at)
            await self._carry_out(order)
            self._known.discard(order.order_id)

    def forget(self) -> None:
        """The orders that wait here are nobody's any more: their run is over."""
        self._known.clear()
        while not self._queue.empty():
            self._queue.get_nowait()

    def _remembered(self, order_id: str) -> wire.Answer | None:
        """The answer of an order that was carried out before, perhaps in an earlier life of the agent."""
        answer = self.shelf.answer(order_id)
        if answer is not None:
            return wire.Answer.FromString(answer)
        model = self.shelf.trained()
        if model is not None and model.order_id == order_id:  # it died before it could note the answer
            return wire.Answer(order_id=order_id, status=wire.Answer.DONE, train=report_of(model.reply))
        return None if self.exchanges is None else self.exchanges.recall(order_id)

    async def _carry_out(self, order: wire.Order) -> None:
        match order.WhichOneof("kind"):
            case "idle":
                self.place.timeline.enter(Phase.IDLE if order.idle.present else Phase.ABSENT, order.step)
            case "discard":
                self.shelf.release(order.discard.train_order_id, as_own=order.discard.keeps_model)
            case "upload" if self.exchanges is not None and not order.upload.train_order_id:
                before = self.place.timeline.phase
                await self._answer(order, await self._attempt(self.exchanges.collect, order))
                if before is Phase.ABSENT:  # who is away gives its model, too
                    self.place.timeline.enter(Phase.ABSENT, order.step)
            case kind:
                action = self._action(kind)
                if action is None:
                    reason = f"order of unknown kind {kind!r}"
                    await self._answer(order, wire.Answer(status=wire.Answer.REFUSED, reason=reason))
                else:
                    await self._answer(order, await self._attempt(action, order))

    def _action(self, kind: str | None) -> Callable[[wire.Order], Awaitable[wire.Answer]] | None:
        transfers = TransferOrders(self.place, self.shelf)
        match kind:
            case "train":
                return TrainOrders(self.place, self.shelf).carry_out
            case "exchange" if self.exchanges is not None:
                return self.exchanges.carry_out
            case "upload":
                return transfers.upload
            case "sync":
                return transfers.sync
            case "transfer":
                return transfers.ballast
            case _:
                return None

    async def _attempt(
        self, action: Callable[[wire.Order], Awaitable[wire.Answer]], order: wire.Order
    ) -> wire.Answer:
        try:
            return await action(order)
        except TrainerRefused as error:
            return wire.Answer(status=wire.Answer.REFUSED, reason=str(error))
        except (RoambenchError, TrainerDied, OSError) as error:
            return wire.Answer(status=wire.Answer.FAILED, reason=str(error))
        finally:
            current = self.place.timeline.current
            if current is None or current.phase is not Phase.WAIT:
                self.place.timeline.enter(Phase.WAIT, order.step)

    async def _answer(self, order: wire.Order, answer: wire.Answer) -> None:
        answer.order_id = order.order_id
        self.shelf.remember(order.order_id, answer.SerializeToString())
        delay_s = self.chaos.fixed_delay_s
        if self.chaos.random_delay_s > 0:
            draw = generator(self.chaos.seed, f"reply delay {order.order_id}").random()
            delay_s += self.chaos.random_delay_s * float(draw)
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        self.place.emit(wire.AgentFrame(answer=answer))
