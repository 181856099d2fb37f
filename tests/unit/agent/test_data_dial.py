"""The channel to the data port, against a controller's real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from hand_agent import Bench, bench
from roambench.agent.data_dial import DataDial
from roambench.agent.data_link import DataLink
from roambench.agent.identity_files import IdentityFiles
from roambench.contract.device_time import DeviceClock


@dataclass
class Dialler:
    """A `DataDial` and what it told: every link there was, None where it was closed."""

    where: Bench
    folder: Path
    identity: IdentityFiles
    links: list[DataLink | None] = field(default_factory=list)
    chores: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dial = DataDial(self.identity, "pi-01", DeviceClock(), self.links.append, self._begin)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.where.fleet.data_port}"

    def renew(self) -> None:
        self.where.authority.issue("pi-01").save(self.folder)
        self.identity.refresh()

    async def until(self, state: grpc.ChannelConnectivity) -> None:
        channel = self.dial._channel
        assert channel is not None
        async with asyncio.timeout(10):
            while (now := channel.get_state()) is not state:
                await channel.wait_for_state_change(now)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self.chores.append(asyncio.create_task(work))


@asynccontextmanager
async def dialler(folder: Path) -> AsyncIterator[Dialler]:
    async with bench() as where:
        where.authority.issue("pi-01").save(folder)
        found = Dialler(where, folder, IdentityFiles(folder, "pi-01", print))
        try:
            yield found
        finally:
            await found.dial.close()
            for chore in found.chores:
                chore.cancel()
            await asyncio.gather(*found.chores, return_exceptions=True)


@pytest.mark.asyncio
async def test_it_shakes_hands_when_it_dials_and_not_with_the_first_transfer(tmp_path: Path) -> None:
    async with dialler(tmp_path) as agent:
        agent.dial.dial(agent.address, keepalive=True)
        assert len(agent.links) == 1
        await agent.until(grpc.ChannelConnectivity.READY)


@pytest.mark.asyncio
async def test_it_dials_again_for_another_certificate_only(tmp_path: Path) -> None:
    async with dialler(tmp_path) as agent:
        agent.dial.renew(keepalive=True)  # before anybody said where
        assert agent.links == []
        agent.dial.dial(agent.address, keepalive=True)
        agent.dial.dial(agent.address, keepalive=True)
        agent.dial.renew(keepalive=True)  # it is the same
        assert len(agent.links) == 1
        agent.renew()
        agent.dial.renew(keepalive=True)
        assert len(agent.links) == 2
        await agent.until(grpc.ChannelConnectivity.READY)
        await agent.dial.close()
        assert agent.links[2:] == [None]
        agent.dial.dial(agent.address, keepalive=True)  # the next run's
        assert len(agent.links) == 4
