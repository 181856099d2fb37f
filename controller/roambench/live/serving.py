"""Serves the live page in this process until it is stopped."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from roambench.contract.addresses import host_port
from roambench.contract.errors import ConfigError
from roambench.live.folders import WatchedFolder
from roambench.live.follower import Follower
from roambench.live.server import live_app

PORT: Final = 8765
#: A request that takes longer to come is none of a browser's.
_REQUEST_S: Final = 10.0
#: Measurements on this machine go first.
_NICENESS: Final = 10


def serve(
    path: Path,
    *,
    host: str,
    port: int | None,
    say: Callable[[str], None],
    open_page: bool,
    parent: int | None = None,
) -> None:
    """Serve the runs at `path` on `host` until a signal, or the end of the process `parent`, where one is
    given: then there need not be a run yet, and it is that process's runs that are shown.

    `port` None: 8765, or a free one where that is taken. Raises RunError where there is no run, ConfigError
    where the port cannot be had.
    """
    since_utc = "" if parent is None else datetime.now(UTC).isoformat(timespec="seconds")
    folder = WatchedFolder(path, since_utc=since_utc)
    with bound(host, port) as listening:
        os.nice(_NICENESS)
        loopback = _is_loopback(listening.getsockname()[0])
        token = "" if loopback else secrets.token_urlsafe(18)
        number = listening.getsockname()[1]
        address = f"http://{host_port(host, number)}/{f'?token={token}' if token else ''}"
        say(f"watching {path}: {address}")
        if loopback:
            here = host_port(listening.getsockname()[0], number)
            say(f"  from another machine: ssh -L {number}:{here} {socket.gethostname()}")
        else:
            say("  unencrypted: a listener on the network between can read the token and the figures")
        if open_page:
            webbrowser.open(address)
        asyncio.run(_serve(listening, token, Follower(folder, parent, say)))


async def _serve(listening: socket.socket, token: str, follower: Follower) -> None:
    config = uvicorn.Config(
        live_app(follower, token),
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        http=_WholeRequests,
        timeout_graceful_shutdown=20,  # streams end by themselves, with the last look: a busy machine is slow
    )
    server = uvicorn.Server(config)
    following = asyncio.create_task(follower.follow(lambda: server.should_exit))

    def over(_task: asyncio.Task[None]) -> None:
        server.should_exit = True

    following.add_done_callback(over)
    try:
        await server.serve([listening])
    finally:
        await following
        follower.close()


class _WholeRequests(H11Protocol):
    """Ends a connection whose request is not whole some seconds after it could begin."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._wait_no_more()
        elif self._late is None:
            self._late = self.loop.call_later(_REQUEST_S, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def bound(host: str, port: int | None) -> socket.socket:
    """A socket that listens there; ConfigError where that is refused."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError([f"--host {host}: {error.strerror or error}"]) from None
    for number in (PORT, 0) if port is None else (port,):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address[0], number))
            listening.listen()  # so that who opens the address at once is only kept waiting
        except OSError as error:
            listening.close()
            problem = f"--port {number} on {host}: {error.strerror or error}"
        else:
            return listening
    raise ConfigError([f"{problem}; --port 0 takes a free one"])


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback
