"""Orders and their answers through sessions that break, return and lie."""

import asyncio

import pytest

from hand_agent import (
    MODEL,
    REPORT,
    HandAgent,
    bench,
    connected,
    done,
    hand_agent,
    train_order,
    until,
)
from roambench.contract.events import EventKind
from roambench.contract.orders import AnswerStatus, IdleOrder
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio


async def test_a_silent_agent_times_out_and_an_absent_one_is_lost() -> None:
    async with bench(deadline_s=0.4) as where, hand_agent(where):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        silent, absent = await where.fleet.perform([train_order(digest), train_order(digest, device=1)])
        assert silent.status is AnswerStatus.TIMEOUT
        assert absent.status is AnswerStatus.LOST


async def begin(agent: HandAgent, order: wire.Order) -> None:
    """Say that the training of an order has begun, and no more."""
    began = wire.SessionEvent(order_id=order.order_id, kind=EventKind.TRAIN_STARTED)
    agent.link.send(wire.AgentFrame(event=began))


async def test_an_agent_that_dies_while_training_is_lost_as_soon_as_it_is_back() -> None:
    async with bench(deadline_s=30) as where:
        async with hand_agent(where, on_order=begin, started=1):
            await connected(where)
            digest = where.fleet.publish(MODEL)
            asked = asyncio.create_task(where.fleet.perform([train_order(digest)]))
            await until(lambda: EventKind.TRAIN_STARTED in where.kinds(), 60)
        async with hand_agent(where, started=2):
            (answer,) = await asyncio.wait_for(asked, 60)
    assert answer.status is AnswerStatus.LOST
    assert "died while training" in answer.reason


async def test_an_agent_back_with_its_model_is_asked_again_and_its_answer_counts() -> None:
    async def finish(agent: HandAgent, order: wire.Order) -> None:
        agent.link.send(done(order, train=REPORT))

    async with bench(deadline_s=30) as where:
        digest = ""
        async with hand_agent(where, on_order=begin, started=1):
            await connected(where)
            digest = where.fleet.publish(MODEL)
            asked = asyncio.create_task(where.fleet.perform([train_order(digest)]))
            await until(lambda: EventKind.TRAIN_STARTED in where.kinds(), 60)
        async with hand_agent(where, on_order=finish, started=2, trained=["run/1/0/train"]):
            (answer,) = await asyncio.wait_for(asked, 60)
    assert answer.status is AnswerStatus.DONE


async def test_the_background_phase_is_told_again_to_an_agent_that_was_away() -> None:
    async with bench() as where:
        (told,) = await where.fleet.perform([IdleOrder("run/0/0/idle", 0, 0, False)])
        assert told.status is AnswerStatus.LOST
        async with hand_agent(where) as agent:
            async with asyncio.timeout(60):
                while not agent.orders:
                    await asyncio.sleep(0.01)
            assert not agent.orders[0].idle.present


async def test_an_agent_that_died_over_an_order_comes_back_in_the_step_of_that_order() -> None:
    async with bench(deadline_s=5) as where:
        await where.fleet.perform([IdleOrder("run/0/0/idle", 0, 0, False)])
        digest = where.fleet.publish(MODEL)
        asked = asyncio.create_task(where.fleet.perform([train_order(digest, number=6)]))

        async def finish(agent: HandAgent, order: wire.Order) -> None:
            if order.HasField("train"):
                agent.link.send(done(order, train=REPORT))

        async with hand_agent(where, on_order=finish) as agent:
            (answer,) = await asyncio.wait_for(asked, 60)
        background, work = agent.orders
        assert (background.step, background.idle.present) == (6, True)
        assert work.order_id == answer.order_id != background.order_id
