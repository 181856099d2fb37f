"""Connections that never showed a certificate: gRPC tells Python nothing of them, so they are looked for.

At every handshake the port's connections are looked at; those that go again before a call of theirs passed
the guard are told, by address. Which of the reasons it was only the agent can say: TLS 1.3 hides the
client's certificate from everybody but gRPC itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import psutil

#: (address, line): a connection that was not let in.
Refused = Callable[[str, str], None]

_LOOK_S: Final = 0.5
_BETWEEN_LOOKS_S: Final = 0.02
_SHARE: Final = 0.05  # a flood of connections must not keep us busy looking at it
_MOST_PENDING: Final = 4096
_SILENCE_S: Final = 60.0


class Handshakes:
    """Of this process's `ports` (number: name). `refused` hears of an address once a minute, with a count."""

    def __init__(self, refused: Refused) -> None:
        self.ports: dict[int, str] = {}
        self._refused = refused
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, int, int], bool] = {}  # (ip, port, our port): has it passed?
        self._next_look_s = 0.0
        self._told_s: dict[str, float] = {}
        self._untold: dict[str, int] = {}
        self.failed = 0

    def began(self) -> None:
        """A handshake begins (any thread): remember who is connected now."""
        now_s = time.monotonic()
        if now_s < self._next_look_s or len(self._pending) > _MOST_PENDING:
            return
        here = self._connections()
        ended_s = time.monotonic()
        self._next_look_s = ended_s + max(_BETWEEN_LOOKS_S, (ended_s - now_s) / _SHARE)
        with self._lock:
            for connection in here:
                self._pending.setdefault(connection, False)

    def authenticated(self, peer: str) -> None:
        """A call of `peer` (as gRPC writes it) carried a certificate of this bench."""
        try:
            address, port = _endpoint(peer)
        except ValueError:
            return
        with self._lock:
            for ours in self.ports:
                self._pending[address, port, ours] = True

    async def watch(self) -> None:
        """Tell of connections that ended without having passed; cancel to stop."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._pending:
                self.look()

    def look(self) -> None:
        with self._lock:
            here = self._connections()
            gone = {known: passed for known, passed in self._pending.items() if known not in here}
            for connection in gone:
                del self._pending[connection]
        for (address, _, ours), passed in gone.items():
            if not passed:
                self.failed += 1
                self._tell(address, self.ports[ours])

    def _tell(self, address: str, port_name: str) -> None:
        now_s = time.monotonic()
        self._untold[address] = self._untold.get(address, 0) + 1
        if now_s - self._told_s.get(address, -_SILENCE_S) < _SILENCE_S:
            return
        if len(self._told_s) > 1000:
            self._told_s.clear()
        self._told_s[address] = now_s
        count = self._untold.pop(address)
        times = f"{count} connections" if count > 1 else "a connection"
        self._refused(
            address,
            f"{times} to the {port_name} port ended without a certificate of this bench that is valid now "
            "(none, expired, or of another authority): see that agent's log and `roambench fleet certs show`",
        )

    def _connections(self) -> set[tuple[str, int, int]]:
        found = set()
        for connection in psutil.Process().net_connections(kind="tcp"):
            local, remote = connection.laddr, connection.raddr
            if remote and local.port in self.ports and connection.status != psutil.CONN_LISTEN:
                found.add((_plain(remote.ip), int(remote.port), int(local.port)))
        return found


def _endpoint(peer: str) -> tuple[str, int]:
    """`ipv4:10.0.0.7:4242` and `ipv6:%5B::1%5D:4242` as gRPC writes them."""
    _, _, rest = unquote(peer).partition(":")
    address, _, port = rest.rpartition(":")
    return _plain(address.strip("[]")), int(port)


def _plain(address: str) -> str:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)
