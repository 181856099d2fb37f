"""Throws seeded rubbish at ports: calls, frames over TLS, strangers, and what is no TLS at all."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import numpy as np
import psutil

import rubbish_uploads
from roambench.identity.authority import CONTROLLER_NAME, Credential
from roambench.wire.v1.methods import UPLOAD
from soaking import rubbish

AT_ONCE = 8


@dataclass(frozen=True)
class Fuzzer:
    """`folder` has identity/NAME of pi-01, who is known at the `ports`, and of a stranger.

    The ports belong to `server`, and have these `methods`.
    """

    folder: Path
    ports: Sequence[int]
    server: str = CONTROLLER_NAME
    methods: Sequence[str] = rubbish.METHODS

    async def throw(self, seed: int, calls: int, frames: int, strangers: int, plain: int) -> None:
        """So many sequences of each kind, in any order, a few at a time."""
        draw = np.random.Generator(np.random.PCG64(seed))
        work: list[tuple[str, int, bytes]] = []
        work += [("call", self._port(draw), draw.bytes(8)) for _ in range(calls)]
        work += [("known", self._port(draw), rubbish.http2(draw, self.methods)) for _ in range(frames)]
        work += [
            (
                ("stranger", "nobody")[int(draw.integers(2))],
                self._port(draw),
                rubbish.http2(draw, self.methods),
            )
            for _ in range(strangers)
        ]
        work += [("plain", self._port(draw), rubbish.before_tls(draw)) for _ in range(plain)]
        draw.shuffle(work)  # type: ignore[arg-type]
        queue = iter(work)
        channels = {port: self._channel(port) for port in self.ports}
        await asyncio.gather(*(self._work(queue, channels) for _ in range(AT_ONCE)))
        await asyncio.gather(*(channel.close() for channel in channels.values()))

    async def _work(
        self, queue: Iterator[tuple[str, int, bytes]], channels: dict[int, grpc.aio.Channel]
    ) -> None:
        contexts = {
            "known": self._context("pi-01"),
            "stranger": self._context("stranger"),
            "nobody": self._context(""),
            "plain": None,
        }
        for kind, port, data in queue:
            if kind == "call":
                key = np.random.Generator(np.random.PCG64(int.from_bytes(data, "little")))
                await self._call(channels[port], key)
            else:
                await self._send(port, data, contexts[kind])

    def _port(self, draw: np.random.Generator) -> int:
        return self.ports[int(draw.integers(len(self.ports)))]

    def _context(self, name: str) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(self.folder / "identity" / "pi-01" / "ca.pem"))
        made.set_alpn_protocols(["h2"])
        if name:
            files = self.folder / "identity" / name
            made.load_cert_chain(files / "cert.pem", files / "key.pem")
        return made

    def _channel(self, port: int) -> grpc.aio.Channel:
        known = Credential.load(self.folder / "identity" / "pi-01")
        return grpc.aio.secure_channel(
            f"127.0.0.1:{port}",
            grpc.ssl_channel_credentials(known.authority_pem, known.key_pem, known.certificate_pem),
            options=[
                ("grpc.ssl_target_name_override", self.server),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ],
        )

    async def _send(self, port: int, data: bytes, tls: ssl.SSLContext | None) -> None:
        """One connection: send all of it, look at what comes back for a moment, and go."""
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=tls, server_hostname=self.server if tls else None
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

    async def _call(self, channel: grpc.aio.Channel, draw: np.random.Generator) -> None:
        """One call of any method with messages of any kind; every fifth an upload that goes wrong."""
        uploads = UPLOAD in self.methods and draw.random() < 0.2
        found = rubbish_uploads.upload(draw) if uploads else iter(rubbish.messages(draw))
        method = UPLOAD if uploads else self.methods[draw.integers(len(self.methods))]

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


@dataclass
class Memory:
    """Of a process: when the watch begins, and at most, looked at 50 times a second."""

    process: psutil.Process
    warm_bytes: int = 0
    most_bytes: int = 0

    @property
    def growth_bytes(self) -> int:
        return self.most_bytes - self.warm_bytes

    def __str__(self) -> str:
        times = self.process.cpu_times()
        return (
            f"{times.user + times.system:.0f} s of CPU; warm {self.warm_bytes / 2**20:.0f} MiB, "
            f"at most {self.most_bytes / 2**20:.0f} MiB"
        )

    async def watch(self) -> None:
        self.warm_bytes = self.process.memory_info().rss
        while self.process.is_running():
            self.most_bytes = max(self.most_bytes, self.process.memory_info().rss)
            await asyncio.sleep(0.02)
