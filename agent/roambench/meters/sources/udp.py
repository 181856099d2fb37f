"""Datagrams that a meter sends to us: one each for a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from roambench.meters.sources.source import Lost, Take
from roambench.meters.sources.unit import unit_of_peer

#: Host seconds.
FORGET_S: Final = 30.0


class UdpListener:
    """A `Source`: listens on host and port. It hears one sender, `sender` or else the first that comes.

    Every host can send datagrams; those of others are counted in `strangers`, not read. A first comer that
    has been silent for `forget_s` is given up for the next, and the line is lost with it: the meter's address
    may have changed, but it may be another meter, too.
    """

    def __init__(
        self, host: str, port: int, sender: str | None = None, *, forget_s: float = FORGET_S
    ) -> None:
        self._host = host
        self._port = port
        self._sender = sender
        self._first = ""
        self._received_s = 0.0
        self._forget_s = forget_s
        self._transport: asyncio.DatagramTransport | None = None
        self._lost: Lost = lambda why: None
        self.strangers = 0

    async def open(self, take: Take, lost: Lost) -> None:
        """Bind the port, and hand over datagrams as they come."""
        self._lost = lost
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Listener(take, self._is_ours), local_addr=(self._host, self._port)
        )

    @property
    def unit(self) -> str:
        """Return who is heard; "" before the first datagram."""
        return unit_of_peer(self._sender or self._first)

    async def close(self) -> None:
        """Close the socket."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _is_ours(self, host: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        if self._sender is None and (not self._first or now_s - self._received_s >= self._forget_s):
            before, self._first = self._first, host
            if before not in ("", host):
                self._lost(f"{before} says nothing any more, {host} does")
        if host == (self._sender or self._first):
            self._received_s = now_s
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
