"""At the end of a run everybody who was there hands over what is left, also who is away at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from hand_agent import (
    Bench,
    HandAgent,
    bench,
    connected,
    hand_agent,
    lines,
    train_order,
    until,
)
from roambench.contract.events import EventKind
from roambench.contract.orders import AnswerStatus
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio
MODEL = np.zeros(4, np.float32)


@asynccontextmanager
async def obedient(where: Bench, **words: Any) -> AsyncIterator[HandAgent]:
    """Says goodbye when it is told to stop, as an agent does once it has drained."""
    async with hand_agent(where, **words) as agent:
        heard = agent.take

        def take(frame: wire.ControllerFrame) -> None:
            if frame.HasField("stop"):
                agent.link.hang_up("drained")
            heard(frame)

        agent.take = take
        yield agent


async def cut(where: Bench, agent: HandAgent) -> None:
    """Its connection breaks: no goodbye."""
    agent.task.cancel()
    await asyncio.gather(agent.task, return_exceptions=True)
    await connected(where, 0)


async def test_a_device_whose_connection_has_just_broken_is_waited_for() -> None:
    async with bench() as where, obedient(where) as first:
        await connected(where)
        await cut(where, first)
        ending = asyncio.ensure_future(where.fleet.stop("the run is over", 60.0))
        async with obedient(where) as again:
            assert await ending == []
            await asyncio.gather(again.task)


async def test_one_that_does_not_come_back_is_named() -> None:
    async with bench() as where, obedient(where) as agent:
        await connected(where)
        await cut(where, agent)
        assert await where.fleet.stop("the run is over", 0.5) == ["pi-01"]


async def test_nobody_waits_for_who_left_politely_or_never_came() -> None:
    async with bench() as where, obedient(where) as agent:
        await connected(where)
        await until(lambda: agent.link.is_open)
        agent.link.hang_up("switched off")
        await connected(where, 0)
        async with asyncio.timeout(30):
            assert await where.fleet.stop("the run is over", 100.0) == []


async def test_a_board_that_another_bench_took_answers_no_more_and_is_not_let_in_again() -> None:
    """Its run waited for the deadlines of its orders, and then for ever."""
    async with bench(deadline_s=600.0) as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        order = train_order(where.fleet.publish(MODEL))
        answering = asyncio.ensure_future(where.fleet.perform([order]))
        await until(lambda: agent.orders)
        taken = wire.SessionEvent(kind=EventKind.BOARD_TAKEN, detail="lab of ben@server")
        agent.link.send(wire.AgentFrame(event=taken))
        (answer,) = await answering
        assert (answer.status, answer.reason) == (
            AnswerStatus.LOST,
            "bench lab of ben@server has taken the board",
        )
        agent.link.redial("taken")
        refused = "pi-01: bench lab of ben@server has taken this board"
        await until(lambda: refused in lines(where, EventKind.SESSION_REFUSED))
        assert where.fleet.sessions.expected() == []
        async with asyncio.timeout(60):
            (answer,) = await where.fleet.perform([train_order(where.fleet.publish(MODEL), 2)])
        assert (answer.status, answer.reason) == (
            AnswerStatus.LOST,
            "bench lab of ben@server has taken this board",
        )
