"""What the controller tells agents of their neighbours, and what it believes of what they answer."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hand_agent import HandAgent, bench, connected, done, hand_agent, until
from roambench.contract.events import EventKind
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import AnswerStatus, ExchangeOrder, ExchangeReply, LeftOut
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio

ORDER = ExchangeOrder(
    "run/00004/00000/exchange",
    0,
    4,
    (1,),
    (0.375,),
    0.625,
    LocalTraining(1, 99, 2),
    exchange_mbit_s=1.5,
    deadline_s=7.0,
)
DONE: dict[str, Any] = {
    "samples": 60,
    "sgd_steps": 2,
    "mean_loss": 0.5,
    "mean_squared_loss": 0.25,
    "model_digest": b"d" * 32,
    "sent_bytes": 1000,
    "received_bytes": 300,
    "exchange_s": 2.5,
    "left_out": [wire.ExchangeReply.LeftOut(device=1, reason="lost: reset", moved_bytes=300)],
}


def opens(address: str) -> wire.AgentFrame:
    return wire.AgentFrame(event=wire.SessionEvent(kind=EventKind.PEER_PORT_OPEN, detail=address))


async def test_an_order_names_its_neighbours_and_where_they_are() -> None:
    async def tell(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(done(order, exchange=wire.ExchangeReply(**DONE)))

    async with (
        bench() as where,
        hand_agent(where, "pi-01", on_order=tell) as one,
        hand_agent(where, "pi-02", machine="machine-2") as other,
    ):
        await connected(where, 2)
        giving = asyncio.create_task(where.fleet.perform([ORDER]))
        await asyncio.sleep(0.05)
        assert one.orders == []  # its neighbour has said hello and is about to tell its address
        await until(lambda: other.link.is_open)  # until its welcome has come a link drops what it is given
        other.link.send(opens("127.0.0.1:4711"))
        (answer,) = await giving
    given = one.orders[0]
    spec = given.exchange
    (neighbour,) = spec.neighbours
    assert (neighbour.device, neighbour.name, neighbour.address) == (1, "pi-02", "127.0.0.1:4711")
    assert (neighbour.weight, spec.own_weight, spec.training.seed, spec.training.steps) == (
        0.375,
        0.625,
        99,
        2,
    )
    assert (spec.exchange_mbit_s, spec.deadline_s, spec.start_digest) == (1.5, 7.0, b"")
    assert answer.reply == ExchangeReply(
        60,
        2,
        0.5,
        0.25,
        (b"d" * 32).hex(),
        left_out=(LeftOut(1, "lost: reset", 300),),
        sent_bytes=1000,
        received_bytes=300,
        exchange_s=2.5,
    )


async def test_a_neighbour_that_is_not_here_has_no_address() -> None:
    async def tell(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(done(order, exchange=wire.ExchangeReply(**DONE)))

    async with bench() as where, hand_agent(where, "pi-01", on_order=tell) as one:
        await connected(where)
        await where.fleet.perform([ORDER])
    assert {n.address for order in one.orders for n in order.exchange.neighbours} == {""}


async def test_a_neighbour_whose_session_has_just_broken_is_where_it_was() -> None:
    async def tell(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(done(order, exchange=wire.ExchangeReply(**DONE)))

    async with (
        asyncio.timeout(60),
        bench() as where,
        hand_agent(where, "pi-01", on_order=tell) as one,
        hand_agent(where, "pi-02", machine="machine-2") as other,
    ):
        await connected(where, 2)
        while EventKind.PEER_PORT_OPEN not in where.kinds():
            other.link.send(opens("127.0.0.1:4711"))  # unheard before it has its welcome
            await asyncio.sleep(0.1)
        other.task.cancel()  # it does not dial again
        session = where.fleet.sessions.of(1)
        assert session is not None
        session.outgoing.put_nowait(None)
        while EventKind.SESSION_LOST not in where.kinds():
            await asyncio.sleep(0.01)
        await where.fleet.perform([ORDER])
    assert {n.address for order in one.orders for n in order.exchange.neighbours} == {"127.0.0.1:4711"}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"samples": 0}, "is empty"),
        ({"model_digest": b"short"}, "is empty"),
        ({"exchange_s": float("nan")}, "NaN"),
        ({"left_out": [wire.ExchangeReply.LeftOut(device=5)]}, "no neighbours"),
        ({"not_taken": [wire.ExchangeReply.LeftOut(device=1)] * 2}, "no neighbours"),
    ],
)
async def test_a_report_that_cannot_be_is_garbage(changes: dict[str, Any], complaint: str) -> None:
    async def claim(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(done(order, exchange=wire.ExchangeReply(**{**DONE, **changes})))

    async with bench() as where, hand_agent(where, on_order=claim):
        await connected(where)
        (answer,) = await where.fleet.perform([replace(ORDER, neighbours=(1,))])
    assert answer.status is AnswerStatus.GARBAGE
    assert complaint in answer.reason


async def test_an_agent_that_died_over_its_half_step_is_lost_when_it_is_back() -> None:
    async def die(agent: HandAgent, order: wire.Order) -> None:
        event = wire.SessionEvent(order_id=order.order_id, kind=EventKind.TRAIN_STARTED)
        agent.link.send(wire.AgentFrame(event=event))

    async with bench(deadline_s=30.0) as where:
        async with hand_agent(where, on_order=die) as before:
            await connected(where)
            giving = asyncio.create_task(where.fleet.perform([replace(ORDER, neighbours=(), weights=())]))
            while EventKind.TRAIN_STARTED not in where.kinds():
                await asyncio.sleep(0.01)
            assert before.orders
        async with hand_agent(where, started=2, trained=["run/00003/00000/exchange"]):
            (answer,) = await giving
    assert (answer.status, answer.reason) == (AnswerStatus.LOST, "the agent died while training")
