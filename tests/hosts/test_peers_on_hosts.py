"""Hosts that learn without a server: their half-step models go from agent to agent, not by the controller."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import BenchRun
from hosts.lab.cli import roambench
from hosts.lab.command import do
from hosts.lab.firewall import firewall
from hosts.lab.network import INTERFACE, Network
from roambench.contract.events import EventKind
from roambench.rounds.records import FleetEvent

_ITERATIONS = 3
_D_PSGD = (
    'systems=["d_psgd"]',
    f"decentralised.iterations={_ITERATIONS}",
    'mobility.model="static"',
    "contacts.radius=1000.0",  # everybody is everybody's neighbour
    "energy.idle_baseline_s=3.0",
)
#: MOHAWK's CNN as a blob.
_MODEL_BYTES = 2_637_064
_MOST_BYTES = 260e6
_REFUSED, _SILENT = "a firewall refuses connections", "no answer"


def test_three_hosts_exchange_half_step_models_at_their_own_addresses(
    provisioned: BenchHosts, tmp_path: Path
):
    names = provisioned.names
    sent_before, came_before = _sent_by_hosts(provisioned), _came_to_this_machine(provisioned)
    with BenchRun(provisioned.bench, tmp_path, *_D_PSGD).finished() as folder:
        events = [record for record in folder.read_log() if isinstance(record, FleetEvent)]
        path = folder.path
    sent = _sent_by_hosts(provisioned) - sent_before
    came = _came_to_this_machine(provisioned) - came_before

    ports = {event.name: event.detail for event in events if event.kind == EventKind.PEER_PORT_OPEN}
    assert {name: port.rpartition(":")[0] for name, port in ports.items()} == {
        name: provisioned.address(name) for name in names
    }
    exchanges = pq.read_table(path / "exchanges.parquet").to_pylist()
    assert sorted((row["step"], row["sender"], row["receiver"]) for row in exchanges) == sorted(
        (step, *pair) for step in range(_ITERATIONS) for pair in permutations(names, 2)
    )
    assert {(row["status"], row["transferred_bytes"]) for row in exchanges} == {("done", _MODEL_BYTES)}
    # Six models in each iteration left a host and never came by here.
    assert sent - came >= 6 * _ITERATIONS * _MODEL_BYTES

    ledger = pq.read_table(path / "ledger.parquet").to_pylist()
    exchanged = [row for row in ledger if row["phase"] == "exchange"]
    assert sorted((row["device"], row["step"], row["outcome"]) for row in exchanged) == [
        (name, step, "aggregated") for name in names for step in range(_ITERATIONS)
    ]
    # They touch other phases and last 50 ms: of a few lines a power may come out below 0, within its u.
    assert all(row["gross_j"] + 2.0 * math.hypot(row["u_own_j"], row["u_level_j"]) > 0.0 for row in exchanged)
    phases = pq.read_table(path / "phases.parquet").to_pylist()
    # Two models out, two in.
    moved = [row["transferred_bytes"] for row in phases if row["phase"] == "exchange"]
    assert moved == [4 * _MODEL_BYTES] * (len(names) * _ITERATIONS)


def test_an_agent_that_has_trained_is_small_again_when_it_is_idle(provisioned: BenchHosts):
    """Reader, the fork server that forks trainers, and the trainer: what each of them has resident, as the
    kernel tells it."""
    provisioned.inside("pi1", "/opt/roambench/current/bin/roambench-agent ctl smoke")  # a training step
    said = provisioned.inside("pi1", "for p in $(pgrep -u roambench); do grep ^VmRSS: /proc/$p/status; done")
    resident_bytes = [1024 * int(line.split()[1]) for line in said.splitlines()]
    assert len(resident_bytes) == 3
    assert min(resident_bytes) > 20e6  # it is them
    assert max(resident_bytes) <= _MOST_BYTES


def _sent_by_hosts(hosts: BenchHosts) -> int:
    """Bytes that came out of the hosts' cables."""
    network = Network(int(hosts.folder.name))
    return sum(_received(network.port(index)) for index in range(len(hosts.names)))


def _came_to_this_machine(hosts: BenchHosts) -> int:
    """Bytes of them that were for the controller's address."""
    return _received(Network(int(hosts.folder.name)).bridge)


def _received(interface: str) -> int:
    return int(Path(f"/sys/class/net/{interface}/statistics/rx_bytes").read_text())


@pytest.fixture
def ipv6_bench(provisioned: BenchHosts, tmp_path: Path) -> Iterator[Path]:
    """The bench's description with addresses of IPv6 instead, which all have for as long."""
    network = Network(int(provisioned.folder.name))

    def of(index: int) -> str:
        return f"fd00:213:{network.number}::{index}"

    text = provisioned.bench.read_text().replace(network.machine, of(1))
    do("ip", "address", "add", f"{of(1)}/64", "dev", network.bridge, "nodad")
    for index, name in enumerate(provisioned.names):
        provisioned.inside(name, f"ip address add {of(11 + index)}/64 dev {INTERFACE} nodad")
        text = text.replace(network.address(index), of(11 + index))
    bench = tmp_path / "ipv6.toml"
    bench.write_text(text)
    yield bench
    do("ip", "address", "delete", f"{of(1)}/64", "dev", network.bridge)
    for index, name in enumerate(provisioned.names):
        provisioned.inside(name, f"ip address delete {of(11 + index)}/64 dev {INTERFACE}")


def test_a_way_that_a_firewall_shuts_is_named_by_the_board_that_cannot_go_it(provisioned: BenchHosts):
    """Whichever board has it, refusing or silent: a refusal is what a port without a listener gives, too."""
    names = {name: f"{name} ({provisioned.address(name)})" for name in provisioned.names}
    to_pi2, from_pi1, from_pi2 = (
        f"ip {end} {provisioned.address(name)}"
        for end, name in (("daddr", "pi2"), ("saddr", "pi1"), ("saddr", "pi2"))
    )
    with (
        firewall(provisioned, "pi1", "output", to_pi2, "reject"),
        firewall(provisioned, "pi3", "input", from_pi2, "drop"),
    ):
        assert lost_ways(provisioned.bench) == {
            "pi1": [f"{names['pi2']}: {_REFUSED}"],
            "pi2": [f"{names['pi3']}: {_SILENT}"],
        }
    with (
        firewall(provisioned, "pi2", "input", from_pi1, "reject with tcp reset"),
        firewall(provisioned, "pi3", "output", "", "drop"),
    ):
        assert lost_ways(provisioned.bench) == {
            "pi1": [f"{names['pi2']}: {_REFUSED}"],
            "pi3": [f"{names['pi1']}: {_SILENT}", f"{names['pi2']}: {_SILENT}"],
        }
    assert lost_ways(provisioned.bench) == {}


def test_over_ipv6_a_way_that_a_firewall_shuts_is_named_too(provisioned: BenchHosts, ipv6_bench: Path):
    _, *addresses = re.findall(r'(?m)^address = "(fd00:.*)"', ipv6_bench.read_text())
    names = {
        name: f"{name} ({ip_address(address)})"
        for name, address in zip(provisioned.names, addresses, strict=True)
    }
    with (
        firewall(provisioned, "pi2", "input", f"ip6 saddr {addresses[2]}", "reject"),
        firewall(provisioned, "pi1", "output", f"ip6 daddr {addresses[2]}", "drop"),
    ):
        assert lost_ways(ipv6_bench) == {
            "pi1": [f"{names['pi3']}: {_SILENT}"],
            "pi3": [f"{names['pi2']}: {_REFUSED}"],
        }
    assert lost_ways(ipv6_bench) == {}


def lost_ways(bench: Path) -> dict[str, list[str]]:
    """Which other hosts each cannot reach, and why, of those that cannot reach all, as preflight says."""
    said = roambench("fleet", "preflight", bench, "--peers", "--no-smoke", "--json")
    checks = {
        host["host"]: next(check for check in host["checks"] if check["name"] == "ways to boards")
        for host in json.loads(said.out)["hosts"]
    }
    assert set(checks) == {"pi1", "pi2", "pi3"}, said
    assert (said.code != 0) >= any(check["verdict"] == "fail" for check in checks.values()), said
    return {name: check["found"].split("; ") for name, check in checks.items() if check["verdict"] == "fail"}
