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
from hosts.lab.needed import lacking
from hosts.lab.network import Network

__all__ = ["SoakedHosts", "lacking", "soaked_hosts"]

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
