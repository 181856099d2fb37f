"""A meter's WebSocket on loopback, by the library `websockets`; what is said over it is in `web`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from roambench.contract.errors import MeterError
from roambench.emulation.network.web import MOST_CLIENTS, Frame, WebConsole

HOST: Final = "127.0.0.1"
#: Far more than any command.
MOST_BYTES: Final = 1024


class WebsocketPort:
    """Up to five browsers of one meter. `commanded` is called after every command: power may be switched."""

    def __init__(
        self,
        console: WebConsole,
        now_ns: Callable[[], int],
        accepts: Callable[[], bool],
        commanded: Callable[[], None],
    ) -> None:
        self._console = console
        self._now_ns = now_ns
        self._accepts = accepts
        self._commanded = commanded
        self._clients: dict[int, ServerConnection] = {}
        self._server: Server | None = None
        self.port = 0

    async def open(self, port: int) -> None:
        """Listen on `port` (0: any free one)."""
        try:
            self._server = await serve(
                self._talk,
                HOST,
                port,
                process_request=self._let_in,
                max_size=MOST_BYTES,
                compression=None,
                ping_interval=None,
                close_timeout=0.5,
            )
        except OSError as error:
            raise MeterError(f"WebSocket port {HOST}:{port}: cannot be served ({error.strerror})") from None
        self.port = int(next(iter(self._server.sockets)).getsockname()[1])

    def write(self, data: bytes) -> None:
        """A reading for every browser that shows the home page."""
        self._send(Frame(self._console.watching, data.decode("latin-1")))

    def hang_up(self) -> None:
        """The meter was reset: its connections are gone without a word."""
        for client in self._clients.values():
            client.transport.abort()

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def _let_in(self, connection: ServerConnection, request: Request) -> Response | None:
        if not self._accepts() or len(self._clients) >= MOST_CLIENTS:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "no room\n")
        return None

    async def _talk(self, connection: ServerConnection) -> None:
        client = self._console.enter()
        if client is None:
            return
        self._clients[client] = connection
        try:
            async for message in connection:
                if isinstance(message, str):
                    for frame in self._console.receive(client, message, self._now_ns()):
                        self._send(frame)
                    self._commanded()
        except (ConnectionClosed, asyncio.CancelledError):
            pass  # it left, or the emulator stops
        finally:
            self._console.leave(client)
            del self._clients[client]

    def _send(self, frame: Frame) -> None:
        broadcast([self._clients[number] for number in frame.to if number in self._clients], frame.text)
