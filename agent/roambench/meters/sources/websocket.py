"""A WebSocket to a meter: we greet it, then it talks."""

from __future__ import annotations

import asyncio
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from roambench.meters.sources.source import Lost, Take, cause
from roambench.meters.sources.unit import unit_of_peer

CONNECT_S: Final = 5.0
#: Far more than any message of a meter.
MOST_BYTES: Final = 4096


class WebsocketLine:
    """A `Source`: connects to `uri`, sends `greeting`, hands out each message as bytes."""

    def __init__(self, uri: str, greeting: str = "") -> None:
        self._uri = uri
        self._greeting = greeting
        self._line: ClientConnection | None = None
        self._listening: asyncio.Task[None] | None = None
        self.unit = ""

    async def open(self, take: Take, lost: Lost) -> None:
        """Connect, send the greeting, and hand over frames as they come."""
        self._line = await connect_websocket(self._uri)
        try:
            if self._greeting:
                await self._line.send(self._greeting)
        except WebSocketException as error:
            await self.close()
            raise ConnectionError(cause(error)) from None
        self.unit = unit_of_peer(self._line.remote_address[0])
        self._listening = asyncio.create_task(
            self._listen(self._line, take, lost), name=f"listening to {self._uri}"
        )

    async def close(self) -> None:
        """Stop listening and hang up."""
        listening, line = self._listening, self._line
        self._listening = self._line = None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        if line is not None:
            line.transport.abort()
            await line.wait_closed()

    async def _listen(self, line: ClientConnection, take: Take, lost: Lost) -> None:
        why = "closed by the meter"
        try:
            async for message in line:
                take(message.encode() if isinstance(message, str) else bytes(message))
        except WebSocketException as error:
            why = str(error)
        lost(why)


async def connect_websocket(uri: str) -> ClientConnection:
    """Open a connection; OSError for what prevents it; the environment's proxies are not asked."""
    try:
        return await connect(
            uri, open_timeout=CONNECT_S, max_size=MOST_BYTES, compression=None, proxy=None, close_timeout=1.0
        )
    except WebSocketException as error:
        raise ConnectionError(cause(error)) from None
