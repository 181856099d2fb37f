"""Datagrams that a meter sends to us: one each for a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from roambench.meters.sources.source import Lost, Take


class UdpListener:
    """A `Source`: listens on host and port. It hears one sender, `sender` or else whoever comes first.

    Anybody can send datagrams; those of others are counted in `strangers`, not read.
    """

    def __init__(self, host: str, port: int, sender: str | None = None) -> None:
        self._host = host
        self._port = port
        self._sender = sender
        self._transport: asyncio.DatagramTransport | None = None
        self.strangers = 0

    async def open(self, take: Take, lost: Lost) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Listener(take, self._is_ours), local_addr=(self._host, self._port)
        )

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _is_ours(self, host: str) -> bool:
        if self._sender is None:
            self._sender = host
        if host == self._sender:
            return True
        self.strangers += 1
        return False


class _Listener(asyncio.DatagramProtocol):
    def __init__(self, take: Take, is_ours: Callable[[str], bool]) -> None:
        self._take = take
        self._is_ours = is_ours

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self._is_ours(addr[0]):
            self._take(data)
