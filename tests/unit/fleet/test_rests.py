"""Rests of devices as their controller gives them: told in the welcome, and never a part of a deadline."""

from __future__ import annotations

import asyncio

import pytest

from hand_agent import MODEL, REPORT, HandAgent, bench, connected, done, hand_agent, train_order
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import (
    AnswerStatus,
    DiscardOrder,
    ExchangeOrder,
    IdleOrder,
    Order,
    SyncOrder,
    TrainOrder,
    TransferOrder,
    UploadOrder,
    rests_of,
)
from roambench.wire.frames import controller_word, given_order
from roambench.wire.v1 import control_pb2 as wire

TRAINING = LocalTraining(1, 7)


@pytest.mark.asyncio
async def test_an_order_has_its_rests_besides_its_deadline() -> None:
    """0.2 s for the order, 14 s for three and a half rests; what is later all the same is late."""

    async def slow(agent: HandAgent, order: wire.Order) -> None:
        await asyncio.sleep(0.7 if order.step == 1 else 60.0)
        agent.link.send(done(order, train=REPORT))

    async with bench(deadline_s=0.2, rest_s=4.0) as where, hand_agent(where, on_order=slow) as agent:
        await connected(where)
        digest = where.fleet.publish(MODEL)
        answers = [(await where.fleet.perform([train_order(digest, step)]))[0] for step in (1, 2)]
        given = [given_order(order) for order in agent.orders if order.HasField("train")]
    assert {order.deadline_s for order in given} == {0.2 + 14.0}
    assert [answer.status for answer in answers] == [AnswerStatus.DONE, AnswerStatus.TIMEOUT]
    assert answers[1].reason == "no answer within 14 s"


@pytest.mark.parametrize(
    ("order", "rests"),
    [
        (TrainOrder("o", 0, 1, 0, "ab", TRAINING), 3.5),
        (TrainOrder("o", 0, 1, 0, "ab", TRAINING, previous_digest="cd"), 3.5),
        (UploadOrder("o", 0, 1, 0, "t"), 2.5),
        (UploadOrder("o", 0, 1, 0, "", free=True), 0.0),
        (SyncOrder("o", 0, 1, 0, "ab"), 2.5),
        (SyncOrder("o", 0, 1, 0, "ab", free=True), 0.0),
        (ExchangeOrder("o", 0, 1, (), (), 1.0, TRAINING), 2.5),
        (ExchangeOrder("o", 0, 1, (), (), 1.0, TRAINING, start_digest="ab"), 3.5),
        (IdleOrder("o", 0, 1, True), 0.0),
        (DiscardOrder("o", 0, 1, "t", "why"), 0.0),
        (TransferOrder("o", 0, 1, True, 10, 0.0, 1), 0.0),
    ],
)
def test_every_kind_of_order_has_the_rests_that_its_phases_need(
    order: Order | TransferOrder, rests: float
) -> None:
    assert rests_of(order) == rests


@pytest.mark.asyncio
async def test_agents_are_told_how_long_they_rest() -> None:
    async with bench(rest_s=1.25) as where, hand_agent(where) as agent:
        welcomes: list[wire.ControllerFrame] = []
        agent.take = welcomes.append
        agent.link.redial("to be welcomed again")
        async with asyncio.timeout(30):
            while not any(frame.HasField("welcome") for frame in welcomes):
                await asyncio.sleep(0.02)
    word = controller_word(next(frame for frame in welcomes if frame.HasField("welcome")))
    assert word is not None
    assert word.rest_s == 1.25  # type: ignore[union-attr]
