"""Devices that exchange models over real mutual TLS, each with its peer port open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agent_ports import Refused
from roambench.agent.board_load import BoardLoad
from roambench.agent.peers.exchange import Mixed, Peers
from roambench.agent.peers.iteration import Iteration, Neighbour
from roambench.agent.peers.offers import HalfStep
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Vector
from roambench.identity.authority import Authority
from roambench.vectors import weighted_mean

LAYOUT = "a" * 32
NOWHERE = "127.0.0.1:9"  # nobody listens there
PARAMETERS = 20_000


def model(device: int) -> Vector:
    return (np.arange(PARAMETERS, dtype=np.float32) * 0.001 + device) / np.float32(3.0)


def half_step(device: int) -> HalfStep:
    blob = encode(model(device), LAYOUT)
    return HalfStep(blob, digest_of(blob))


BLOB_BYTES = len(half_step(0).blob)


@dataclass
class Devices:
    """Peers pi-00, pi-01, ... of one bench, each with its port open; `refusals` is what they refused."""

    authority: Authority
    folder: Path
    peers: list[Peers] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)

    async def join(self, *, memory_bytes: int = 1 << 20, revoked: Sequence[int] = ()) -> Peers:
        peers = Peers(
            self.authority.issue(f"pi-{len(self.peers):02d}"),
            DeviceClock(),
            self.folder,
            Refused(lambda name, reason: self.refusals.append((name, reason))),
            memory_bytes=memory_bytes,
        )
        await peers.open("run", "127.0.0.1:50052", revoked)
        self.peers.append(peers)
        return peers

    def neighbour(self, device: int, weight: float = 0.25, address: str | None = None) -> Neighbour:
        known = self.peers[device].address if device < len(self.peers) else NOWHERE
        return Neighbour(device, f"pi-{device:02d}", known if address is None else address, weight)

    def announce(self, device: int, neighbours: Sequence[Neighbour], mbit_s: float = 0.0) -> Iteration:
        return self.peers[device].announce(7, neighbours, mbit_s, BoardLoad())

    async def exchange(
        self,
        device: int,
        neighbours: Sequence[Neighbour],
        *,
        own_weight: float = 0.25,
        mbit_s: float = 0.0,
        limit_s: float = 20.0,
        after_s: float = 0.0,
    ) -> Mixed:
        await asyncio.sleep(after_s)
        iteration = self.announce(device, neighbours, mbit_s)
        return await self.peers[device].exchange(iteration, half_step(device), device, own_weight, limit_s)


@asynccontextmanager
async def devices(folder: Path, count: int) -> AsyncIterator[Devices]:
    found = Devices(Authority.create(), folder)
    try:
        for _ in range(count):
            await found.join()
        yield found
    finally:
        for peers in found.peers:
            await peers.close()


def mean(weights: dict[int, float]) -> Vector:
    """What the simulated fleet makes of it: ascending by device."""
    return weighted_mean(
        [model(device) for device in sorted(weights)], np.array([weights[d] for d in sorted(weights)])
    )
