"""A TCP connection to a meter that talks by itself."""

from __future__ import annotations

import asyncio
from typing import Final

from roambench.meters.sources.source import Lost, Take, cause
from roambench.meters.sources.unit import unit_of_peer

CONNECT_S: Final = 5.0


class TcpLine:
    """A `Source`: connects to host and port, and sends nothing."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._line: _Connection | None = None
        self.unit = ""

    async def open(self, take: Take, lost: Lost) -> None:
        """Connect, and hand over bytes as they come."""
        line = _Connection(take, lost)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, _ = await loop.create_connection(lambda: line, self._host, self._port)
        except TimeoutError:
            raise TimeoutError(f"no connection within {CONNECT_S:g} s") from None
        self._line = line
        self.unit = unit_of_peer(transport.get_extra_info("peername", ("",))[0])

    async def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.drop()
            self._line = None


class _Connection(asyncio.Protocol):
    def __init__(self, take: Take, lost: Lost) -> None:
        self._take: Take | None = take
        self._lost: Lost | None = lost
        self._transport: asyncio.BaseTransport | None = None
        self._received = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received = True
        if self._take is not None:
            self._take(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._lost is None:
            return
        why = cause(error) if error is not None else "closed by the meter"
        if not self._received:
            why += " before a word; it may be serving another client"
        lost, self._take, self._lost = self._lost, None, None
        lost(why)

    def drop(self) -> None:
        self._take = self._lost = None
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()
