"""An agent, when a controller names another run than the one it is in, is there no more, or ends the run; and
when orders come before its meter's first line."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from roambench.agent.board_load import BoardLoad
from roambench.agent.life.process import Agent
from roambench.agent.life.session import AgentSession
from roambench.agent.settings import AgentSettings, MeterSettings
from roambench.contract.errors import LinkError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import GivenOrder, IdleOrder, TrainReply
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, RecordKind
from roambench.contract.session import Stop, Welcome
from roambench.identity.authority import Authority
from roambench.spool.spool import Spool

SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")


def settings_in(folder: Path) -> AgentSettings:
    """Of an agent with an identity, whose controller is away."""
    Authority.create().issue("pi-01").save(folder / "identity")
    (folder / "state").mkdir()
    return AgentSettings(
        "pi-01",
        "127.0.0.1:9",
        str(folder / "identity"),
        str(folder / "state"),
        machine_id="machine",
    )


@pytest.mark.asyncio
async def test_a_dead_runs_records_do_not_go_to_the_next_runs_controller(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = AgentSession(settings, ours, BoardLoad())
        agent.meter.context.begin("dead")
        agent.meter.timeline.resume()
        agent.take(Welcome(run_id="next", learning_json=SPEC.to_json()))
        with pytest.raises(LinkError, match="no session with this run's controller"):
            await agent.link.drain_of("pi-01", agent.meter.spool).send([(1, RecordKind.EVENT, b"")])
        async with asyncio.timeout(20):
            while agent.run_id or agent.is_leaving:
                await asyncio.sleep(0.05)
        await agent.close()


@pytest.mark.asyncio
async def test_settings_that_cannot_be_read_are_reported_and_the_agent_lives_on(tmp_path: Path) -> None:
    """Of another version, say: they would end it again in its next life, and the next."""
    settings = settings_in(tmp_path)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = AgentSession(settings, ours, BoardLoad())
        agent.begin_life()
        agent.take(Welcome(run_id="run", learning_json='{"model": "mlp"}'))
        assert agent.run_id == "run"
        events = [AgentEvent.from_bytes(payload) for _, _, payload in agent.meter.spool.batch()]
        (refused,) = (event for event in events if event.kind == EventKind.TRAINER_NOT_READY)
        assert refused.detail.startswith("learning settings: ")
        await agent.close()


@pytest.mark.asyncio
async def test_a_spoilt_spool_is_reported_and_the_agent_lives_on(tmp_path: Path, capsys) -> None:
    settings = settings_in(tmp_path)
    spoilt = tmp_path / "state" / "spool.sqlite"
    spoilt.write_bytes(b"\x00" * 40_960)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = AgentSession(settings, ours, BoardLoad())
        agent.begin_life()
        events = [AgentEvent.from_bytes(payload) for _, _, payload in agent.meter.spool.batch()]
        assert [event.kind for event in events] == [EventKind.RECORD_CONTEXT_BEGINS, EventKind.SPOOL_DAMAGED]
        assert events[1].detail == "file is not a database; its file is now spool.sqlite.damaged-1"
        assert "pi-01: spool damaged: file is not a database" in capsys.readouterr().err
        assert spoilt.with_name("spool.sqlite.damaged-1").stat().st_size == 40_960
        await agent.close()


@pytest.mark.asyncio
async def test_one_that_was_started_for_a_run_ends_with_it_and_keeps_its_models(tmp_path: Path) -> None:
    settings, state = replace(settings_in(tmp_path), run="run"), tmp_path / "state"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = AgentSession(settings, ours, BoardLoad())
        life = asyncio.create_task(Agent(agent).run())
        await asyncio.sleep(0)
        assert agent.run_id == "run"
        draft = agent.trainer.model_cache.draft("run/1")
        draft.write_bytes(b"model")
        agent.trainer.model_cache.keep("run/1", TrainReply(10, 2, 0.5, 0.3, "01" * 32), draft)
        (state / "start.blob").write_bytes(b"start")
        agent.take(Welcome(run_id="run", learning_json=SPEC.to_json()))
        agent.take(Stop(reason="the run is over", drain_s=0.0, resumes_at=2))
        assert await life == 0
    blobs = {file.relative_to(state): file.read_bytes() for file in state.rglob("*.blob")}
    assert sorted(blobs.values()) == [b"model", b"start"]
    spool = Spool(state / "spool.sqlite", consumers=settings.stores)
    assert spool.context is not None
    assert spool.context.run == ""  # what this device did after the run is none of it
    spool.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [EventKind.METER_OK, EventKind.METER_STALE, EventKind.METER_UNAVAILABLE])
async def test_orders_wait_for_the_meter_unless_it_is_away(tmp_path: Path, kind: EventKind) -> None:
    settings = replace(settings_in(tmp_path), meter=MeterSettings("smartpower2", "/dev/meter"))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = AgentSession(settings, ours, BoardLoad())
        agent.begin_life()
        orders = asyncio.create_task(agent.trainer.carry_out_orders())
        agent.take(Welcome(run_id="run", learning_json=SPEC.to_json()))
        agent.take(GivenOrder(IdleOrder("run/1/idle", 0, 1, False), 60.0))
        agent.meter.take(AgentEvent(EventKind.METER_DESCRIBED, 1, "opened"))
        await asyncio.sleep(0.1)
        assert agent.meter.timeline.phase is Phase.IDLE  # that of a run's begin
        agent.meter.take(AgentEvent(kind, 2, ""))
        async with asyncio.timeout(20):
            while agent.meter.timeline.phase is not Phase.ABSENT:
                await asyncio.sleep(0.01)
        orders.cancel()
        await asyncio.gather(orders, return_exceptions=True)
        await agent.close()


@pytest.mark.asyncio
async def test_a_board_that_another_bench_takes_leaves_its_run_and_says_to_whom(
    tmp_path: Path, capsys
) -> None:
    settings = settings_in(tmp_path)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = AgentSession(settings, ours, BoardLoad())
        assert await agent.taken("lab of ben@server") == ""
        agent.meter.context.begin("run")
        agent.meter.timeline.resume()
        assert await agent.taken("lab of ben@server") == "run"
        assert agent.run_id == ""
        assert agent.about()["away_s"] > 0.0
        await agent.close()
    assert "pi-01: board taken: lab of ben@server" in capsys.readouterr().err
