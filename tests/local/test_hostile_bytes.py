"""10,000 malformed sequences to both ports, with and without a certificate: the controller serves on."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import numpy as np
import psutil
import pytest

import rubbish
import rubbish_uploads
from hand_agent import REPORT, done
from roambench.agent.control_link import ControlLink, secure_channel
from roambench.agent.data_link import DataLink
from roambench.contract.device_time import DeviceClock
from roambench.identity.authority import CONTROLLER_NAME, Credential
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, PROTOCOL_VERSION, UPLOAD

SEED = 20261121
CALLS, FRAMES, STRANGERS, PLAIN = 5500, 2000, 500, 2000
WARM_UP = 300  # sequences of each kind before memory is looked at
MOST_GROWTH_BYTES = 64 * 2**20
AT_ONCE = 8


def context(folder: Path, name: str, trusted: str = "pi-01") -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(folder / "identity" / trusted / "ca.pem"))
    made.set_alpn_protocols(["h2"])
    if name:
        made.load_cert_chain(folder / "identity" / name / "cert.pem", folder / "identity" / name / "key.pem")
    return made


async def send(port: int, data: bytes, tls: ssl.SSLContext | None) -> None:
    """One connection: send all of it, look at what comes back for a moment, and go."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=tls, server_hostname=CONTROLLER_NAME if tls else None
            )
            try:
                writer.write(data)
                await writer.drain()
                async with asyncio.timeout(0.01):
                    await reader.read()
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):  # cut off, as it should be
        pass


async def call(channel: grpc.aio.Channel, draw: np.random.Generator) -> None:
    """One call of any method with messages of any kind; every fifth an upload that goes wrong."""
    uploads = draw.random() < 0.2
    found = rubbish_uploads.upload(draw) if uploads else iter(rubbish.messages(draw))
    method = UPLOAD if uploads else rubbish.METHODS[draw.integers(4)]

    async def messages() -> AsyncIterator[bytes]:
        for message in found:
            yield message

    try:
        async for _ in channel.stream_stream(method)(messages(), timeout=1.0):
            if draw.random() < 0.2:
                return
    except (grpc.aio.AioRpcError, asyncio.CancelledError):
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise


class WellBehaved:
    """pi-02: downloads and answers what it is ordered."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        credential = Credential.load(folder / "identity" / "pi-02")
        self.log: list[str] = []
        self.channel = secure_channel(f"127.0.0.1:{ports[1]}", credential, MAX_DATA_MESSAGE_BYTES)
        self.data = DataLink(self.channel, "pi-02", DeviceClock())
        self.chores: set[asyncio.Task[None]] = set()
        self.link = ControlLink(
            f"127.0.0.1:{ports[0]}",
            credential,
            "pi-02",
            lambda: wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-02", machine_id="m2"),
            self.take,
            self.log.append,
        )

    def take(self, frame: wire.ControllerFrame) -> None:
        if frame.order.HasField("train"):
            chore = asyncio.create_task(self.serve(frame.order))
            self.chores.add(chore)
            chore.add_done_callback(self.chores.discard)

    async def serve(self, order: wire.Order) -> None:
        await self.data.download(order.order_id, order.train.ap, order.train.start_digest.hex(), 10.0)
        self.link.send(done(order, train=REPORT))


@dataclass
class Memory:
    """Of a process: now (before the rubbish) and at most, looked at 50 times a second."""

    process: psutil.Process
    warm_bytes: int = 0
    most_bytes: int = 0

    async def watch(self) -> None:
        self.warm_bytes = self.process.memory_info().rss
        while self.process.is_running():
            self.most_bytes = max(self.most_bytes, self.process.memory_info().rss)
            await asyncio.sleep(0.02)


@pytest.mark.timeout(900)
@pytest.mark.asyncio
async def test_ten_thousand_malformed_sequences_leave_the_controller_up_and_small(tmp_path: Path) -> None:
    script = Path(rubbish.__file__).with_name("fuzzed_controller.py")
    errors = (tmp_path / "controller.log").open("wb")
    controller = await asyncio.create_subprocess_exec(
        sys.executable, str(script), str(tmp_path), stdout=asyncio.subprocess.PIPE, stderr=errors
    )
    served: list[str] = []

    async def count() -> None:
        assert controller.stdout is not None
        while line := await controller.stdout.readline():
            served.append(line.decode().strip())

    counting = asyncio.create_task(count())
    try:
        while not (tmp_path / "ports.json").exists():
            assert controller.returncode is None, (tmp_path / "controller.log").read_text()
            await asyncio.sleep(0.05)
        ports: list[int] = json.loads((tmp_path / "ports.json").read_text())
        good = WellBehaved(tmp_path, ports)
        session = asyncio.create_task(good.link.run())
        await _served_more(served)
        process = psutil.Process(controller.pid)
        await _throw(tmp_path, ports, SEED, 4 * [WARM_UP])
        memory = Memory(process)
        watching = asyncio.create_task(memory.watch())
        sent = 4 * WARM_UP
        for part in range(10):
            counts = [(whole - WARM_UP) // 10 for whole in (CALLS, FRAMES, STRANGERS, PLAIN)]
            await _throw(tmp_path, ports, SEED + 1 + part, counts)
            sent += sum(counts)
            await _served_more(served)
        assert sent == 10_000
        assert controller.returncode is None
        times = process.cpu_times()
        print(f"controller CPU {times.user + times.system:.0f} s")
        print(f"warm {memory.warm_bytes / 2**20:.0f} MiB, most {memory.most_bytes / 2**20:.0f} MiB")
        assert memory.most_bytes - memory.warm_bytes < MOST_GROWTH_BYTES
        assert good.log == []  # its session never broke
        session.cancel()
        watching.cancel()
        await asyncio.gather(session, watching, *good.chores, return_exceptions=True)
        await good.channel.close()
    finally:
        if controller.returncode is None:
            controller.kill()
        await controller.wait()
        await counting
        errors.close()


async def _served_more(served: list[str]) -> None:
    """The agent that behaves is served now, too."""
    before = len(served)

    async with asyncio.timeout(120):  # also while a broken port is replaced, with its pauses
        while len(served) < before + 2:
            await asyncio.sleep(0.02)


async def _throw(folder: Path, ports: list[int], seed: int, counts: list[int]) -> None:
    calls, frames, strangers, plain = counts
    draw = np.random.Generator(np.random.PCG64(seed))
    known, stranger, nobody = (context(folder, name) for name in ("pi-01", "stranger", ""))
    work: list[tuple[str, int, bytes]] = []
    work += [("call", int(draw.integers(2)), draw.bytes(8)) for _ in range(calls)]
    work += [("known", ports[int(draw.integers(2))], rubbish.http2(draw)) for _ in range(frames)]
    work += [
        (("stranger", "nobody")[int(draw.integers(2))], ports[int(draw.integers(2))], rubbish.http2(draw))
        for _ in range(strangers)
    ]
    work += [("plain", ports[int(draw.integers(2))], rubbish.before_tls(draw)) for _ in range(plain)]
    draw.shuffle(work)  # type: ignore[arg-type]
    credential = Credential.load(folder / "identity" / "pi-01")
    channels = [secure_channel(f"127.0.0.1:{port}", credential, MAX_DATA_MESSAGE_BYTES) for port in ports]
    queue = iter(work)
    contexts = {"known": known, "stranger": stranger, "nobody": nobody, "plain": None}

    async def throw() -> None:
        for kind, where, data in queue:
            if kind == "call":
                key = np.random.Generator(np.random.PCG64(int.from_bytes(data, "little")))
                await call(channels[where], key)
            else:
                await send(where, data, contexts[kind])

    await asyncio.gather(*(throw() for _ in range(AT_ONCE)))
    await asyncio.gather(*(channel.close() for channel in channels))
