"""The ways between hosts: each listens as an agent's peer port does, and each dials all others."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_json
from roambench.contract.printable import printable
from roambench.provision.bench import Bench, Host
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink, on_hosts
from roambench.provision.ssh.script import Script

_PROBE: Final = Path(__file__).parents[1] / "peers_probe.py"
_RUN: Final = Script('exec python3 -c "$@"')
#: What hosts wait for the slowest of them, first to listen and then to have dialled; for a line of one of
#: them; and for all of it.
_SLOWEST_S: Final = 20.0
_LINE_S: Final = 40.0
_PATIENCE_S: Final = 150.0
_MOST_BYTES: Final = 2**20


def ways_between(
    bench: Bench, hosts: Sequence[Host], addresses: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """For each of `hosts`, whose own `addresses` are known by name, why each other one cannot be reached from
    it, "" where it can."""
    meeting = _Meeting(len(hosts), addresses)
    outcomes = on_hosts(bench, hosts, meeting.attend, at_once=len(hosts))
    late = {one.host.name: f"not known: {one.reason or 'no answer in time'}" for one in outcomes}
    ways = {}
    for outcome in outcomes:
        own = outcome.host.name
        found = dict.fromkeys(late, late[own]) if outcome.value is None else outcome.value
        ways[own] = {
            f"{name} ({addresses[name]})": found.get(name, late[name]) for name in late if name != own
        }
    return ways


class _Meeting:
    """No host dials before all listen, and each listens until all have. Late ones are left out."""

    def __init__(self, hosts: int, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._all = threading.Barrier(max(1, hosts))
        self._ports: dict[str, int] = {}

    def attend(self, link: HostLink) -> dict[str, str]:
        """Listen on a host and dial the others from there; by name, why each is lost to it."""
        own, lines, found = link.host.name, _Lines(), dict[str, str]()
        said = b""

        def steps() -> Iterator[bytes]:
            nonlocal said
            if (said := lines.next()).isdigit():
                self._ports[own] = int(said)
            self._wait()
            if own in self._ports:
                others = {name: [self._addresses[name], at] for name, at in dict(self._ports).items()}
                yield (json.dumps({name: others[name] for name in others if name != own}) + "\n").encode()
                with suppress(ConfigError):
                    found.update(from_json(dict[str, str], lines.next(), "peers"))
            self._wait()

        words = (_PROBE.read_text(encoding="utf-8"), own, self._addresses[own])
        link.stream(_RUN, lines.take, lambda piece: None, *words, stdin=steps(), timeout_s=_PATIENCE_S)
        if own not in self._ports:
            raise HostError(own, printable(said.decode(errors="replace")[:300]) or "it does not listen")
        return {name: printable(reason) for name, reason in found.items()}

    def _wait(self) -> None:
        with suppress(threading.BrokenBarrierError):
            self._all.wait(_SLOWEST_S)


class _Lines:
    """Lines of a command's output."""

    def __init__(self) -> None:
        self._begun = b""
        self._whole: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def take(self, piece: bytes) -> None:
        """Sink of its output."""
        *whole, self._begun = (self._begun + piece).split(b"\n")
        for line in whole:
            self._whole.put(line)
        if len(self._begun) > _MOST_BYTES:
            raise ConfigError([f"more than {_MOST_BYTES} bytes on a line"])

    def next(self) -> bytes:
        """Wait for the next line; "" where none comes."""
        with suppress(queue.Empty):
            return self._whole.get(timeout=_LINE_S)
        return b""
