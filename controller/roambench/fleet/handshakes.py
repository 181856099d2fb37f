"""Connections that were not let in: gRPC tells Python nothing of them, so its core's log is read.

It names address and reason of every handshake that failed. Where there is no such log, the port's
connections are looked at with every handshake; those that go again before a call of theirs passed the guard
are reported by address. Which of the reasons it was only the agent can say then.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import psutil

from roambench.fleet.handshake_log import HandshakeLog, endpoint, plain

#: (address, line): a connection that was not let in.
Refused = Callable[[str, str], None]

_LOOK_S: Final = 0.5
_LOOKS_FOR_FULL: Final = 4  # that often it is counted how many connections a port has
_BETWEEN_LOOKS_S: Final = 0.02
_SHARE: Final = 0.05  # a flood of connections must not keep us busy looking at it
_MOST_PENDING: Final = 4096
_SILENCE_S: Final = 60.0
_MANY: Final = 2**31
_UNKNOWN: Final = "none, expired, or of another authority"


class Handshakes:
    """Handshakes of this process's `ports` (number: name). `refused` gets an address, a port and a reason
    once a minute, with a count. `hosts` has the address (or its name) of each device that is expected."""

    def __init__(
        self, refused: Refused, log: HandshakeLog | None = None, hosts: Mapping[str, str] | None = None
    ) -> None:
        self.ports: dict[int, str] = {}
        self.most = 0  # connections that each takes; 0: unknown
        self._hosts = dict(hosts or {})
        self._devices: dict[str, str] = {}  # by IP address
        self._refused = refused
        self._log = log
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, int, int], bool] = {}  # (ip, port, our port): has it passed?
        self._next_look_s = 0.0
        self._reported_s: dict[tuple[str, str, str], float] = {}
        self._unreported: Counter[tuple[str, str, str]] = Counter()
        self.failed = 0

    def began(self) -> None:
        """A handshake begins (any thread): remember who is connected now."""
        if self._log is not None:
            return
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
        if self._log is not None:
            return
        try:
            address, port = endpoint(peer)
        except ValueError:
            return
        with self._lock:
            for ours in self.ports:
                self._pending[address, port, ours] = True

    async def watch(self) -> None:
        """Tell of connections that ended without having passed; cancel to stop."""
        self._devices = await asyncio.to_thread(_by_address, self._hosts)
        for looks in itertools.count():
            await asyncio.sleep(_LOOK_S)
            self.look()
            if self.most and looks % _LOOKS_FOR_FULL == 0 and _open_files() >= self.most:
                self._report_full(await asyncio.to_thread(self._connections))

    def look(self) -> None:
        """Report the handshakes that failed since the last look."""
        if self._log is not None:
            for failure in self._log.failures(self.ports):
                self._report(failure.address, self.ports[failure.our_port], failure.reason)
        elif self._pending:
            for address, ours in self._gone():
                self._report(address, self.ports[ours], _UNKNOWN)

    def _report_full(self, here: set[tuple[str, int, int]]) -> None:
        """gRPC ends further connections without a word, to them or to us."""
        for ours, name in self.ports.items():
            addresses = Counter(address for address, _, port in here if port == ours)
            if addresses.total() < self.most:
                continue
            ((address, count),) = addresses.most_common(1)
            if self._is_new((address, name, "full")):
                self._refused(
                    address,
                    f"the {name} port is full: it has {addresses.total()} connections, {count} of them"
                    f"{self._whose(address) or ' from here'}; others are not let in",
                )

    def _gone(self) -> list[tuple[str, int]]:
        """(address, our port) of connections that ended without having passed."""
        with self._lock:
            here = self._connections()
            gone = {known: passed for known, passed in self._pending.items() if known not in here}
            for connection in gone:
                del self._pending[connection]
        return [(address, ours) for (address, _, ours), passed in gone.items() if not passed]

    def _report(self, address: str, port_name: str, reason: str) -> None:
        self.failed += 1
        what = (address, port_name, reason)
        self._unreported[what] += 1
        if not self._is_new(what):
            return
        count = self._unreported.pop(what)
        times = f"{count} connections" if count > 1 else "a connection"
        self._refused(
            address,
            f"{times}{self._whose(address)} to the {port_name} port ended without a certificate of this "
            f"bench that is valid now ({reason}): see that agent's log and `roambench fleet certs show`",
        )

    def _is_new(self, what: tuple[str, str, str]) -> bool:
        """Report the same once a minute."""
        now_s = time.monotonic()
        if now_s - self._reported_s.get(what, -_SILENCE_S) < _SILENCE_S:
            return False
        if len(self._reported_s) > 1000:
            self._reported_s.clear()
            self._unreported = Counter({what: self._unreported[what]})
        self._reported_s[what] = now_s
        return True

    def _whose(self, address: str) -> str:
        return f" from the address of {self._devices[address]}" if address in self._devices else ""

    def _connections(self) -> set[tuple[str, int, int]]:
        found = set()
        for connection in psutil.Process().net_connections(kind="tcp"):
            local, remote = connection.laddr, connection.raddr
            if remote and local.port in self.ports and connection.status != psutil.CONN_LISTEN:
                found.add((plain(remote.ip), int(remote.port), int(local.port)))
        return found


def _open_files() -> int:
    """Return how many files and sockets this process has open; very many where that is not known."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return _MANY


def _by_address(hosts: Mapping[str, str]) -> dict[str, str]:
    """Return whose address it is; of names that cannot be resolved nothing is known."""
    devices: dict[str, list[str]] = {}
    for device, host in hosts.items():
        try:
            found = {plain(str(entry[4][0])) for entry in socket.getaddrinfo(host, None)}
        except (OSError, UnicodeError):
            continue
        for address in found:
            devices.setdefault(address, []).append(device)
    return {address: " or ".join(names) for address, names in devices.items()}
