"""The channel to the data port, against a controller's real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from agent_ports import Log
from hand_agent import Bench, bench
from roambench.agent.background import Chores
from roambench.agent.session.control_link import ControlLink
from roambench.agent.session.data_dial import DataDial
from roambench.agent.session.identity_files import IdentityFiles
from roambench.agent.session.session_models import SessionModels
from roambench.contract.device_time import DeviceClock


@dataclass
class Dialler:
    """A `DataDial` at a real controller."""

    where: Bench
    folder: Path
    identity: IdentityFiles
    chores: Chores = field(default_factory=lambda: Chores(Log()))

    def __post_init__(self) -> None:
        control = ControlLink("127.0.0.1:1", self.identity, "pi-01", Log())
        session = SessionModels(control, DeviceClock())
        self.dial = DataDial(self.identity, "pi-01", DeviceClock(), self.chores, session)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.where.fleet.data_port}"

    def renew(self) -> None:
        self.where.authority.issue("pi-01").save(self.folder)
        self.identity.refresh()

    async def until(self, state: grpc.ChannelConnectivity) -> None:
        channel = self.dial._channel
        assert channel is not None
        async with asyncio.timeout(60):
            while (now := channel.get_state()) is not state:
                await channel.wait_for_state_change(now)


@asynccontextmanager
async def dialler(folder: Path) -> AsyncIterator[Dialler]:
    async with bench() as where:
        where.authority.issue("pi-01").save(folder)
        found = Dialler(where, folder, IdentityFiles(folder, "pi-01", Log()))
        try:
            yield found
        finally:
            await found.dial.close()
            await found.chores.close()


@pytest.mark.asyncio
async def test_it_shakes_hands_before_the_first_transfer_and_not_where_none_needs_it(tmp_path: Path) -> None:
    async with dialler(tmp_path) as agent:
        await agent.dial.connected(60.0)  # before its address is known
        agent.dial.dial(agent.address, keepalive=True)
        assert agent.dial._channel is None
        await agent.dial.connected(60.0)
        await agent.until(grpc.ChannelConnectivity.READY)


@pytest.mark.asyncio
async def test_a_connection_that_does_not_come_is_not_waited_for_longer_than_asked(tmp_path: Path) -> None:
    async with dialler(tmp_path) as agent:
        agent.dial.dial("127.0.0.1:1", keepalive=True)
        await agent.dial.connected(0.2)
        assert agent.dial.link is not None


@pytest.mark.asyncio
async def test_it_dials_again_for_another_certificate_only(tmp_path: Path) -> None:
    async with dialler(tmp_path) as agent:
        agent.dial.renew(keepalive=True)  # before its address is known
        assert agent.dial.link is None
        agent.dial.dial(agent.address, keepalive=True)
        first = agent.dial.link
        assert first is not None
        agent.dial.dial(agent.address, keepalive=True)
        agent.dial.renew(keepalive=True)  # it is the same
        assert agent.dial.link is first
        agent.renew()
        agent.dial.renew(keepalive=True)
        assert agent.dial.link not in (None, first)
        await agent.until(grpc.ChannelConnectivity.READY)
        await agent.dial.close()
        assert agent.dial.link is None
        agent.dial.dial(agent.address, keepalive=True)  # the next run's
        assert agent.dial.link is not None
