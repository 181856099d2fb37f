"""An agent that outlives its runs, when a controller names another run than the one it is in."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from roambench.agent.service import ServiceAgent
from roambench.agent.settings import AgentSettings
from roambench.contract.errors import LinkError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.records import AgentEvent, RecordKind
from roambench.contract.session import Welcome
from roambench.identity.authority import Authority

SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")


def settings_in(folder: Path) -> AgentSettings:
    """Of a service with an identity, whose controller is away."""
    Authority.create().issue("pi-01").save(folder / "identity")
    (folder / "state").mkdir()
    return AgentSettings(
        "pi-01",
        "127.0.0.1:9",
        str(folder / "identity"),
        str(folder / "state"),
        machine_id="machine",
        service=True,
    )


@pytest.mark.asyncio
async def test_a_dead_runs_records_do_not_go_to_the_next_runs_controller(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = ServiceAgent(settings, ours)
        agent._begin_context("dead")
        agent._timeline.resume()
        agent._take_welcome(Welcome(run_id="next", learning_json=SPEC.to_json()))
        with pytest.raises(LinkError, match="no session with this run's controller"):
            await agent._drain([(1, RecordKind.EVENT, b"")])
        async with asyncio.timeout(20):
            while agent.run_id or agent._chores:
                await asyncio.sleep(0.05)
        await agent._close()


@pytest.mark.asyncio
async def test_a_spoilt_spool_is_reported_and_the_agent_lives_on(tmp_path: Path, capsys) -> None:
    settings = settings_in(tmp_path)
    spoilt = tmp_path / "state" / "spool.sqlite"
    spoilt.write_bytes(b"\x00" * 40_960)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = ServiceAgent(settings, ours)
        agent._begin_life()
        events = [AgentEvent.from_bytes(payload) for _, _, payload in agent._spool.batch()]
        assert [event.kind for event in events] == [EventKind.RECORD_CONTEXT_BEGINS, EventKind.SPOOL_DAMAGED]
        assert events[1].detail == "file is not a database; its file is now spool.sqlite.damaged-1"
        assert "pi-01: spool damaged: file is not a database" in capsys.readouterr().err
        assert spoilt.with_name("spool.sqlite.damaged-1").stat().st_size == 40_960
        await agent._close()
