"""An agent in whose run another controller goes on, or one that comes back to a run it has left."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_ports import Voice
from roambench.agent.board_load import BoardLoad
from roambench.agent.life.session import AgentSession
from roambench.agent.settings import AgentSettings
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import ExchangeOrder, GivenOrder, IdleOrder, TrainReply
from roambench.contract.phases import Phase
from roambench.contract.session import SessionEvent, Stop, Welcome
from roambench.identity.authority import Authority

SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors").to_json()


@asynccontextmanager
async def living(folder: Path) -> AsyncIterator[AgentSession]:
    """A life of the agent of `folder`, whose controller is away: it is handed frames as if it were there."""
    if not (folder / "identity").exists():
        Authority.create().issue("pi-01").save(folder / "identity")
        (folder / "state").mkdir()
    settings = AgentSettings(
        "pi-01",
        "127.0.0.1:9",
        str(folder / "identity"),
        str(folder / "state"),
        machine_id="machine",
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = AgentSession(settings, ours, BoardLoad())
        agent.begin_life()
        order_queue = asyncio.create_task(agent.trainer.carry_out_orders())
        try:
            yield agent
        finally:
            order_queue.cancel()
            await asyncio.gather(order_queue, return_exceptions=True)
            await agent.close()


def welcomed(agent: AgentSession, run: str, *, resumes_at: int = 0, part: int = 0) -> None:
    agent.take(Welcome(run_id=run, learning_json=SPEC, resumes_at=resumes_at, part=part))


def stopped(agent: AgentSession, resumes_at: int) -> None:
    agent.take(Stop(reason="stopped", drain_s=0.0, resumes_at=resumes_at))


async def until(agent: AgentSession, happened) -> None:
    async with asyncio.timeout(30):
        while not happened() or agent.is_leaving:
            await asyncio.sleep(0.01)


def trained(agent: AgentSession, order_id: str, digest: str) -> None:
    draft = agent.trainer.model_cache.draft(order_id)
    draft.write_bytes(digest.encode())
    agent.trainer.model_cache.keep(order_id, TrainReply(10, 2, 0.5, 0.3, digest), draft)


def holds(agent: AgentSession) -> str:
    model = agent.trainer.model_cache.trained()
    return "" if model is None else model.order_id


def idle(step: int, resumes_at: int) -> GivenOrder:
    """An order that changes nothing but tells that the run goes on with `resumes_at`."""
    return GivenOrder(IdleOrder(f"idle/{step}", 0, step, True), 60.0, resumes_at)


@pytest.mark.asyncio
async def test_it_gives_up_what_it_does_and_goes_back_in_the_same_process(tmp_path: Path) -> None:
    async with living(tmp_path) as agent:
        welcomed(agent, "run")
        trained(agent, "run/1", "01" * 32)
        agent.take(idle(2, 2))
        await until(
            agent,
            lambda: agent.meter.timeline.phase is Phase.IDLE and agent.trainer.point.is_before("run", 2),
        )
        trained(agent, "run/2", "02" * 32)
        # A training without data plane fails at once; this exchange waits for a port that never opens.
        waits = ExchangeOrder("run/2/exchange", 0, 2, (), (), 1.0, LocalTraining())
        agent.take(GivenOrder(waits, 60.0))
        await until(agent, lambda: agent.trainer.order_queue._queue.empty())
        before = agent.trainer._orders
        welcomed(agent, "run", resumes_at=2, part=1)
        assert (
            not agent.link.control.serves_run
        )  # no record goes to a controller that does not know where we are
        agent.take(idle(3, 2))  # whatever is ordered meanwhile is not for us, as we are
        await until(agent, lambda: holds(agent) == "run/1")
        assert before is not None
        assert before.cancelled()
        assert agent.trainer.model_cache.answer("run/2/exchange") is None
        assert agent.run_id == "run"
        welcomed(agent, "run", resumes_at=2, part=1)
        assert agent.link.control.serves_run
        trained(agent, "run/2", "03" * 32)
        welcomed(agent, "run", resumes_at=2, part=1)  # a session that broke is no other controller
        assert (holds(agent), agent.link.control.serves_run) == ("run/2", True)


@pytest.mark.asyncio
async def test_a_run_that_was_stopped_is_entered_again_until_another_begins(tmp_path: Path) -> None:
    async with living(tmp_path) as agent:
        welcomed(agent, "run")
        trained(agent, "run/1", "01" * 32)
        stopped(agent, resumes_at=2)  # it had no order since that checkpoint
        await until(agent, lambda: not agent.run_id and not agent.is_leaving)
        assert holds(agent) == ""
    async with living(tmp_path) as agent:  # and its board was booted
        welcomed(agent, "run", resumes_at=2, part=1)
        assert (agent.run_id, holds(agent), agent.link.control.serves_run) == ("run", "run/1", True)
        stopped(agent, resumes_at=2)
        await until(agent, lambda: not agent.run_id and not agent.is_leaving)
        welcomed(agent, "run", resumes_at=2, part=1)  # that one was stopped before it had begun to work
        assert holds(agent) == "run/1"
        stopped(agent, resumes_at=2)
        await until(agent, lambda: not agent.run_id and not agent.is_leaving)
        welcomed(agent, "another")
        assert agent.run_id == "another"
        assert not (tmp_path / "state" / "resume-point").exists()


@pytest.mark.asyncio
@pytest.mark.parametrize("left", ["never there", "by hand", "at another step"])
async def test_who_has_nothing_to_go_on_from_says_so_and_stays_out(tmp_path: Path, left: str) -> None:
    async with living(tmp_path) as agent:
        if left != "never there":
            welcomed(agent, "run")
            if left == "by hand":
                agent.take(idle(2, 2))
                await until(agent, lambda: agent.trainer.point.is_before("run", 2))
                await agent.leave("told to end the run", None)
            else:
                stopped(agent, resumes_at=1)
            await until(agent, lambda: not agent.run_id and not agent.is_leaving)
        told: list[SessionEvent] = []
        agent.link.quiet._line = Voice(told.append)
        welcomed(agent, "run", resumes_at=2, part=1)
        assert (agent.run_id, agent.link.control.serves_run) == ("", False)
        assert [(event.kind, event.detail) for event in told] == [(EventKind.CANNOT_RESUME, "run")]
