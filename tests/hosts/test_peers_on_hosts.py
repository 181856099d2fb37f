"""Hosts that learn without a server: their half-step models go from agent to agent, not by the controller."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import BenchRun
from hosts.lab.network import Network
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
    assert min(row["gross_j"] for row in exchanged) > 0.0
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
