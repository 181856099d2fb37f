"""What the data link notes of a transfer that stalls, over real gRPC; of a slow one nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from roambench.agent.session.data_link import DataLink, ModelTransfer
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import chunks, encode, piece_bytes
from roambench.contract.model_digest import digest_of
from roambench.contract.pacing import padding
from roambench.wire.v1 import data_pb2 as wire
from roambench.wire.v1.methods import DATA_SERVICE, MAX_DATA_MESSAGE_BYTES, channel_options

pytestmark = pytest.mark.asyncio

CLOCK = DeviceClock()
MODEL = encode(np.arange(750_000, dtype=np.float32), "a" * 32)
UPLOAD_BYTES = 40_000_000  # some are in buffers before the agent has to wait for anybody


class SlowServer:
    """Sends and takes chunks no faster than its link, and pauses before the fifth.

    `paused_ns` is from when to when: one machine, one clock. On a busy machine it is late besides: `late_ns`.
    """

    def __init__(self, mbit_s: float, pause_s: float = 0.0) -> None:
        self._mbit_s, self._pause_s = mbit_s, pause_s
        self.paused_ns = (0, 0)
        self.late_ns: list[tuple[int, int]] = []

    async def _chunk(self, number: int, size: int) -> None:
        if number == 4:
            self.paused_ns = await self._sleep(self._pause_s)
        await self._sleep(size * 8e-6 / self._mbit_s)

    async def _sleep(self, seconds: float) -> tuple[int, int]:
        began_ns = CLOCK.now_ns()
        await asyncio.sleep(seconds)
        self.late_ns.append((began_ns + round(seconds * 1e9), CLOCK.now_ns()))
        return began_ns, CLOCK.now_ns()

    def was_late(self, begin_ns: int, end_ns: int) -> bool:
        """Whether the machine itself stood still for most of a stall between these."""
        return any(
            min(late_ns, end_ns) - max(due_ns, begin_ns) > 0.5 * (end_ns - begin_ns)
            for due_ns, late_ns in self.late_ns
        )

    async def download(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        of_model = bool(wire.DownloadRequest.FromString(request).digest)
        yield wire.DownloadHeader(total_bytes=len(MODEL)).SerializeToString()
        pieces = chunks(MODEL, self._mbit_s) if of_model else padding(len(MODEL), self._mbit_s)
        for number, piece in enumerate(pieces):
            await self._chunk(number, len(piece))
            yield piece

    async def upload(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        number = -1  # the header
        async for message in messages:
            await self._chunk(number, len(message))
            number += 1
        return wire.UploadReceipt(accepted=True).SerializeToString()


@asynccontextmanager
async def linked(server: SlowServer) -> AsyncIterator[DataLink]:
    # Small buffers, as on the way to a slow link: else they hide from the agent when its bytes leave.
    small = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536)]
    options = [*channel_options(MAX_DATA_MESSAGE_BYTES), *small]
    port = grpc.aio.server(options=options)
    handlers = {
        "Download": grpc.unary_stream_rpc_method_handler(server.download),
        "Upload": grpc.stream_unary_rpc_method_handler(server.upload),
    }
    port.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(DATA_SERVICE, handlers),))
    number = port.add_insecure_port("127.0.0.1:0")
    await port.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{number}", options=options) as channel:
            yield DataLink(channel, "pi-01", CLOCK)
    finally:
        await port.stop(None)


async def carried_out(way: str, server: SlowServer) -> ModelTransfer:
    async with linked(server) as data:
        if way == "a model down":
            return (await data.download("o", 0, digest_of(MODEL), 30.0))[1]
        if way == "padding down":
            return await data.fetch_padding("o", len(MODEL), 30.0)
        return await data.send_padding("o", UPLOAD_BYTES, 0.0, 30.0)


@pytest.mark.parametrize(
    ("way", "mbit_s", "chunk_bytes", "pause_s"),
    [
        ("a model down", 20.0, piece_bytes(20.0), 0.5),
        ("padding down", 20.0, piece_bytes(20.0), 0.5),
        ("padding up", 200.0, piece_bytes(0.0), 1.0),
    ],
)
async def test_a_stall_is_recorded_where_it_was_to_within_a_chunk(way, mbit_s, chunk_bytes, pause_s):
    server = SlowServer(mbit_s, pause_s)
    moved = (await carried_out(way, server)).moved
    paused_ns, on_ns = server.paused_ns
    ((begin_ns, end_ns),) = [
        (begin_ns, end_ns)
        for begin_ns, end_ns in moved.stalls_ns
        if (begin_ns < on_ns and paused_ns < end_ns) or not server.was_late(begin_ns, end_ns)
    ]
    assert moved.first_byte_ns < begin_ns < end_ns < moved.last_byte_ns
    assert (end_ns - begin_ns) * 1e-9 == pytest.approx(
        (server.paused_ns[1] - server.paused_ns[0]) * 1e-9, abs=0.1
    )
    chunk_s = chunk_bytes * 8e-6 / mbit_s
    off_s = [(seen - true) * 1e-9 for seen, true in zip((begin_ns, end_ns), server.paused_ns, strict=True)]
    assert off_s == pytest.approx([0.0, 0.0], abs=chunk_s + 0.1)


@pytest.mark.parametrize(
    ("way", "mbit_s"), [("a model down", 12.0), ("padding down", 12.0), ("padding up", 200.0)]
)
async def test_a_link_whose_every_chunk_is_slow_does_not_stall(way, mbit_s):
    server = SlowServer(mbit_s)
    moved = (await carried_out(way, server)).moved
    assert moved.last_byte_ns - moved.first_byte_ns > 10**9
    assert [stall for stall in moved.stalls_ns if not server.was_late(*stall)] == []
