"""Malformed sequences to every port, with and without a certificate: the target serves on."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from agent_ports import Log, Party
from fuzzer import Fuzzer, Memory
from hand_agent import LAYOUT, REPORT, done
from roambench.agent.board_load import BoardLoad
from roambench.agent.peers.inbox import Inbox, Receipt
from roambench.agent.peers.link import PeerLink, PullFailed, UnansweredCalls
from roambench.agent.peers.offers import OfferState, WantedHalfStep
from roambench.agent.peers.radio import RadioPace, Receiving, Traffic
from roambench.agent.session.control_link import ControlLink, secure_channel
from roambench.agent.session.data_link import DataLink
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_digest import from_wire
from roambench.identity.authority import Credential
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import ASK, MAX_DATA_MESSAGE_BYTES, PROTOCOL_VERSION, PULL
from samples import sampled

SEED = 20261121
#: Calls, frames over TLS with a certificate, and without a good one, and what is no TLS.
KINDS = (5500, 2000, 500, 2000)
KINDS_AT_PEERS = (1400, 500, 400, 500)
WARM_UP = 300  # sequences of each kind before memory is looked at
#: A part of each of them; all of them take minutes.
SHARES = pytest.mark.parametrize("share", sampled([0.05], [1.0]))
PARTS = 5
MOST_GROWTH_BYTES = 64 * 2**20


class WellBehaved:
    """pi-02: downloads and answers what it is ordered."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        credential = Credential.load(folder / "identity" / "pi-02")
        self.log = Log()
        self.channel = secure_channel(f"127.0.0.1:{ports[1]}", credential, MAX_DATA_MESSAGE_BYTES)
        self.data = DataLink(self.channel, "pi-02", DeviceClock())
        self.chores: set[asyncio.Task[None]] = set()
        self.link = ControlLink(
            f"127.0.0.1:{ports[0]}",
            credential,
            "pi-02",
            self.log,
        )

    async def run(self) -> None:
        hello = wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-02", machine_id="m2")
        await self.link.run(Party(lambda: hello, self.take))

    def take(self, frame: wire.ControllerFrame) -> None:
        if frame.order.HasField("train"):
            chore = asyncio.create_task(self.serve(frame.order))
            self.chores.add(chore)
            chore.add_done_callback(self.chores.discard)

    async def serve(self, order: wire.Order) -> None:
        await self.data.download(order.order_id, order.train.ap, from_wire(order.train.start_digest), 10.0)
        self.link.send(done(order, train=REPORT))


@dataclass
class Victim:
    """A process that is thrown at: the lines it printed are what it did for those who behave."""

    folder: Path
    process: asyncio.subprocess.Process
    served: list[str]
    ports: list[int]

    async def served_more(self) -> None:
        """A client that behaves is served now, too."""
        before = len(self.served)
        async with asyncio.timeout(120):  # also while a broken port is replaced, with its pauses
            while len(self.served) < before + 2:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def victim(script: str, folder: Path) -> AsyncIterator[Victim]:
    log = folder / "victim.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            Path(__file__).parents[1] / "support" / script,
            folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={name: value for name, value in os.environ.items() if not name.startswith("GRPC_")},
        )
        served: list[str] = []

        async def count() -> None:
            assert process.stdout is not None
            while line := await process.stdout.readline():
                served.append(line.decode().strip())

        counting = asyncio.create_task(count())
        try:
            while not (folder / "ports.json").exists():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
            yield Victim(folder, process, served, json.loads((folder / "ports.json").read_text()))
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await counting


async def throw_all(at: Victim, fuzzer: Fuzzer, kinds: Sequence[int], share: float) -> int:
    """Throw that share of the sequences of each kind, in parts, and return how many; it stays up, small, and
    serves between them."""
    kinds, warm_up = [round(share * whole) for whole in kinds], round(share * WARM_UP)
    await at.served_more()
    await fuzzer.throw(SEED, *(len(kinds) * [warm_up]))
    memory = Memory(psutil.Process(at.process.pid))
    watching = asyncio.create_task(memory.watch())
    sent = len(kinds) * warm_up
    for part in range(PARTS):
        counts = [(whole - warm_up) // PARTS for whole in kinds]
        await fuzzer.throw(SEED + 1 + part, *counts)
        sent += sum(counts)
        await at.served_more()
    watching.cancel()
    print(memory)
    assert sent == sum(kinds)
    assert at.process.returncode is None
    assert memory.growth_bytes < MOST_GROWTH_BYTES
    return sent


@SHARES
@pytest.mark.timeout(900)
@pytest.mark.asyncio
async def test_ten_thousand_malformed_sequences_leave_the_controller_up_and_small(
    tmp_path: Path, share: float
) -> None:
    async with victim("fuzzed_controller.py", tmp_path) as controller:
        good = WellBehaved(tmp_path, controller.ports)
        session = asyncio.create_task(good.run())
        sent = await throw_all(controller, Fuzzer(tmp_path, controller.ports), KINDS, share)
        assert sent == share * 10_000
        assert good.log == []  # its session never broke
        session.cancel()
        await asyncio.gather(session, *good.chores, return_exceptions=True)
        await good.channel.close()


async def _pull_on(folder: Path, port: int, states: set[OfferState | None]) -> None:
    """pi-03: takes one model after the other from its neighbour, and asks how it stands with its own."""
    link, clock = PeerLink(Credential.load(folder / "identity" / "pi-03")), DeviceClock()
    step = 1
    while True:
        wanted = WantedHalfStep("run", step)
        states.add(await link.ask("pi-02", f"127.0.0.1:{port}", wanted, UnansweredCalls()))
        try:
            parcel, digest = await link.pull(
                "pi-02",
                f"127.0.0.1:{port}",
                wanted,
                5.0,
                Inbox(folder, 2**20),
                RadioPace(clock, 0.0),
                Receiving(Traffic(0.0, BoardLoad())),
                Receipt(2, 0.5),
            )
        except PullFailed:
            await asyncio.sleep(0.1)
            continue
        parcel.check(digest, LAYOUT)
        parcel.close()
        step += 1


@SHARES
@pytest.mark.timeout(900)
@pytest.mark.asyncio
async def test_malformed_sequences_leave_a_device_and_its_peer_port_up_and_small(
    tmp_path: Path, share: float
) -> None:
    async with victim("fuzzed_peer.py", tmp_path) as device:
        (port,) = device.ports
        states: set[OfferState | None] = set()
        pulling = asyncio.create_task(_pull_on(tmp_path, port, states))
        await throw_all(device, Fuzzer(tmp_path, device.ports, "pi-02", (PULL, ASK)), KINDS_AT_PEERS, share)
        assert not pulling.done()
        states.clear()
        await device.served_more()
        assert OfferState.COMING in states  # an answer
        pulling.cancel()
        await asyncio.gather(pulling, return_exceptions=True)
