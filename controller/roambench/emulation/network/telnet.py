"""A meter's telnet port on loopback: one client at a time, a second one is closed at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from roambench.contract.errors import MeterError
from roambench.emulation.network.web import YtrikozShell

HOST: Final = "127.0.0.1"
#: Beyond this many unread bytes what is said to a client is lost.
UNSENT_LIMIT: Final = 65_536


class TelnetPort:
    """Send readings to the first client. `shell` gets what the client types (None: it is not read)."""

    def __init__(
        self, now_ns: Callable[[], int], accepts: Callable[[], bool], shell: YtrikozShell | None = None
    ) -> None:
        self._now_ns = now_ns
        self._accepts = accepts
        self.shell = shell
        self.client: asyncio.Transport | None = None
        self._taken = 0  # another client is connected
        self._server: asyncio.Server | None = None
        self.port = 0
        self.lost_bytes = 0

    async def open(self, port: int) -> None:
        """Listen on `port` (0: any free one)."""
        try:
            self._server = await asyncio.get_running_loop().create_server(lambda: _Client(self), HOST, port)
        except OSError as error:
            raise MeterError(f"telnet port {HOST}:{port}: cannot be served ({error.strerror})") from None
        self.port = int(self._server.sockets[0].getsockname()[1])

    def write(self, data: bytes) -> None:
        """Print to the client, if one listens; a client that does not read loses lines."""
        if self.client is None or (self.shell is not None and self.shell.active):
            return
        if self.client.get_write_buffer_size() > UNSENT_LIMIT:
            self.lost_bytes += len(data)
            return
        self.client.write(data)

    def take_away(self, host_s: float) -> None:
        """Give the port to another client for this long; our client loses it."""
        self._taken += 1
        self.hang_up()
        asyncio.get_running_loop().call_later(host_s, self._free)

    def hang_up(self) -> None:
        """Throw the client out."""
        if self.client is not None:
            self.client.abort()
            self.left(self.client)

    def close(self) -> None:
        """Throw the client out and stop listening."""
        self.hang_up()
        if self._server is not None:
            self._server.close()
            self._server = None

    def entered(self, client: asyncio.Transport) -> None:
        """A client has connected; a second one is turned away."""
        if self.client is not None or self._taken or self._server is None or not self._accepts():
            client.abort()
        else:
            self.client = client

    def left(self, client: asyncio.BaseTransport | None) -> None:
        """A client has gone."""
        if client is self.client:
            self.client = None
            if self.shell is not None:
                self.shell.leave()

    def typed(self, client: asyncio.Transport, data: bytes) -> None:
        """The client has sent bytes: the shell answers."""
        if client is self.client and self.shell is not None:
            client.write(self.shell.receive(data, self._now_ns()))

    def _free(self) -> None:
        self._taken -= 1


class _Client(asyncio.Protocol):
    def __init__(self, owner: TelnetPort) -> None:
        self._owner = owner
        self._line: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._line = transport
        self._owner.entered(transport)

    def data_received(self, data: bytes) -> None:
        if self._line is not None:
            self._owner.typed(self._line, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.left(self._line)
