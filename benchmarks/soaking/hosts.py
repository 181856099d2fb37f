"""The bench of container hosts (tests/hosts) that runs are soaked on: what is done to a host, and whether it
came back."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from hosts.lab.bench_hosts import BenchHosts, running_hosts, running_sets
from hosts.lab.cli import roambench
from hosts.lab.command import do
from hosts.lab.needed import lacking
from hosts.lab.network import Network
from roambench.emulation.control import inject
from roambench.emulation.spec import Fault, FaultKind

__all__ = [
    "BenchHosts",
    "SoakedHosts",
    "lacking",
    "roambench",
    "running_hosts",
    "running_sets",
    "soaked_hosts",
]

#: Host seconds until an agent must be back at work after the last fault.
_BACK_PATIENCE_S: Final = 120.0
_END_RUN: Final = "/opt/roambench/current/bin/roambench-agent ctl end-run || true"


@dataclass
class SoakedHosts:
    """What is done to one host is done one after the other."""

    hosts: BenchHosts
    _turns: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))

    @property
    def fleet(self) -> str:
        """As `roambench run --fleet` has it."""
        return f"bench:{self.hosts.bench}"

    def reboot(self, name: str) -> None:
        with self._turns[name]:
            self.hosts.reboot(name)

    def cut_power(self, name: str, lasts_s: float) -> None:
        """All its processes end at once, its cable is dead; what it wrote to its card is there afterwards."""
        with self._turns[name]:
            self.hosts.off(name)
            time.sleep(lasts_s)
            self.hosts.on(name)

    def kill_agent(self, name: str) -> None:
        with self._turns[name]:
            self.hosts.inside(name, "systemctl kill --signal=KILL roambench-agent")

    def stop_agent(self, name: str, lasts_s: float) -> None:
        with self._turns[name]:
            self.hosts.inside(name, "pkill -STOP -u roambench")
            time.sleep(lasts_s)
            self.hosts.inside(name, "pkill -CONT -u roambench")

    def cut_link(self, name: str, lasts_s: float) -> None:
        network, index = Network(int(self.hosts.folder.name)), self.hosts.names.index(name)
        with self._turns[name]:
            network.plug(index, into=False)
            time.sleep(lasts_s)
            network.plug(index, into=True)

    def fill_disk(self, name: str, lasts_s: float) -> None:
        """Two megabytes are left on its card."""
        with self._turns[name]:
            try:
                self.hosts.fill_disk(name)
                time.sleep(lasts_s)
            finally:
                self.hosts.empty_disk(name)

    def disturb_meter(self, name: str, lasts_s: float, *, unplug: bool) -> None:
        """It says nothing; or its cable is pulled, and the host has to be booted to have it back, for its
        terminal is bound in."""
        kind = FaultKind.UNPLUG if unplug else FaultKind.SILENCE
        with self._turns[name]:
            inject(self.hosts.folder / "meters/work.sock", name, Fault(kind, duration_s=lasts_s))
            time.sleep(lasts_s)

    def die(self, name: str) -> None:
        """Nobody reaches it any more, whatever is done about it: our end of its cable is down."""
        self._cable(name, "down")

    def revive(self, name: str) -> None:
        """It is reached again, has room on its card, and its power."""
        self._cable(name, "up")
        self.hosts.on(name)
        self.hosts.empty_disk(name)

    def _cable(self, name: str, state: str) -> None:
        network = Network(int(self.hosts.folder.name))
        do("ip", "link", "set", network.port(self.hosts.names.index(name)), state)

    def rotate_certificate(self, name: str) -> None:
        with self._turns[name]:
            said = roambench("fleet", "certs", "rotate", self.hosts.bench, "--only", name)
        if said.code:
            raise RuntimeError(said.out + said.err)

    def end_run(self) -> None:
        """No host is in a run any more."""
        for name in self.hosts.names:
            self.hosts.inside(name, _END_RUN)

    def not_back(self) -> list[str]:
        """What is wrong with hosts whose agents do not read their meters again."""
        deadline_s = time.monotonic() + _BACK_PATIENCE_S
        while True:
            said = roambench("fleet", "status", self.hosts.bench, "--json")
            try:
                rows = {row["host"]: row["meter_state"] for row in json.loads(said.out)}
            except (ValueError, KeyError):
                rows = {}
            wrong = {name: rows.get(name, "no answer") for name in self.hosts.names if rows.get(name) != "ok"}
            if not wrong:
                return []
            if time.monotonic() > deadline_s:
                return [f"{name} is not back at work: {state}" for name, state in wrong.items()]
            time.sleep(1.0)


@contextmanager
def soaked_hosts() -> Iterator[SoakedHosts]:
    """Fresh hosts with their agents, or those of the set $ROAMBENCH_HOSTS_SET, as they are."""
    if number := os.environ.get("ROAMBENCH_HOSTS_SET"):
        yield SoakedHosts(running_sets()[int(number)])
        return
    with running_hosts() as hosts:
        said = roambench("fleet", "provision", hosts.bench, timeout_s=1200)
        if said.code:
            raise RuntimeError(said.out + said.err)
        yield SoakedHosts(hosts)
