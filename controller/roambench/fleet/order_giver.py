"""Give orders to agents and wait for their answers, also while agents come and go."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.contract.orders import (
    HAD_ARRIVED,
    Answer,
    AnswerStatus,
    DiscardOrder,
    ExchangeOrder,
    GivenOrder,
    IdleOrder,
    Order,
    Peer,
    ProgramOrder,
    TransferOrder,
    UploadOrder,
    rests_of,
)
from roambench.fleet.model_registry import ModelRegistry
from roambench.fleet.outstanding import OutstandingOrder, OutstandingOrders
from roambench.fleet.sessions import Sessions

#: Host seconds that an exchange waits for a neighbour's peer port, which opens right after its hello.
_REACHABLE_S = 2.0


@dataclass(slots=True)
class OrderGiver:
    """`names` are the devices'. `deadline_s` is in device time, per order, from the moment it is given;
    the rests that an order has, each of `rest_s`, come on top.
    `resumes_at` is the step that the run goes on with should this process die (0: none yet).

    `background` and `discards` have the newest of these orders per device, for agents that come back.
    """

    names: Sequence[str]
    deadline_s: float
    registry: ModelRegistry
    clock: DeviceClock
    sessions: Sessions
    outstanding: OutstandingOrders
    background: dict[int, GivenOrder] = field(default_factory=dict)
    discards: dict[int, GivenOrder] = field(default_factory=dict)
    resumes_at: int = 0
    rest_s: float = 0.0

    async def perform(self, order: Order | TransferOrder) -> Answer:
        """The order's answer; one that never comes is TIMEOUT or, without a session, LOST; at once where the
        device is not let in again. Answers that came while this process stood still are taken before
        deadlines count again."""
        if isinstance(order, ExchangeOrder):
            await self._until_reachable(order)
        given = self._given(order)
        if isinstance(order, IdleOrder | DiscardOrder):
            return self._notify(order, given)
        # An agent that dies over it comes back present in this step, not in the one it last idled in.
        idle = IdleOrder(f"{order.order_id}/background", order.device, order.step, True)
        self.background[order.device] = self._given(idle)
        if why := self.sessions.shut_out(order.device):
            return Answer(order.order_id, order.device, order.step, AnswerStatus.LOST, why)
        entry = OutstandingOrder(order, given)
        self.outstanding.add(entry)
        session = self.sessions.of(order.device)
        if session is not None:
            session.send(given)
        try:
            async with AwakeTimeout(self.clock.host_seconds(given.deadline_s)):
                await asyncio.shield(entry.answered)
        except TimeoutError:
            here = self.sessions.of(order.device) is not None
            status = AnswerStatus.TIMEOUT if here else AnswerStatus.LOST
            reason = "no answer" if here else "no session"
            entry.fail(status, f"{reason} within {given.deadline_s:.0f} s")
        finally:
            self.outstanding.remove(order.order_id)
        if entry.unaware and isinstance(order, UploadOrder) and not order.collects:
            self._forget(order)
        return entry.answered.result()

    def _forget(self, order: UploadOrder) -> None:
        """Its device takes the model for one that it still has to deliver."""
        discard = DiscardOrder(
            f"{order.order_id}/discard",
            order.device,
            order.step,
            order.train_order_id,
            HAD_ARRIVED,
            keeps_model=order.keeps_model,
        )
        self._notify(discard, self._given(discard))

    def _notify(self, order: IdleOrder | DiscardOrder, given: GivenOrder) -> Answer:
        """Send an order that needs no answer: now, and again when the agent comes back (a session may be dead
        without knowing it; of a model that it still has, then)."""
        (self.background if isinstance(order, IdleOrder) else self.discards)[order.device] = given
        session, status, reason = self.sessions.of(order.device), AnswerStatus.DONE, ""
        if session is not None:
            session.send(given)
        elif order.device not in self.sessions.dark:
            status, reason = AnswerStatus.LOST, "no session"
        return Answer(order.order_id, order.device, order.step, status, reason)

    async def _until_reachable(self, order: ExchangeOrder) -> None:
        """Wait until a device that said hello a moment ago has reported where its neighbours find it."""
        sessions = [self.sessions.of(device) for device in order.neighbours]
        waits = [
            asyncio.ensure_future(session.reachable.wait()) for session in sessions if session is not None
        ]
        if waits:
            with suppress(TimeoutError):
                async with AwakeTimeout(_REACHABLE_S):
                    await asyncio.wait(waits)
            for wait in waits:
                wait.cancel()

    def _given(self, order: Order | TransferOrder) -> GivenOrder:
        peers: tuple[Peer, ...] = ()
        if isinstance(order, ExchangeOrder):
            peers = tuple(
                Peer(self.names[device], self.sessions.peer_address(device)) for device in order.neighbours
            )
        limit_s = order.limit_s if isinstance(order, ProgramOrder | UploadOrder) else 0.0
        deadline_s = min(self.deadline_s, limit_s or math.inf) + self.rest_s * rests_of(order)
        in_session = self.registry.come_in_session(order)
        return GivenOrder(order, deadline_s, self.resumes_at, peers, in_session)
