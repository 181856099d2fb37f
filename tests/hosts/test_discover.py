"""Hosts are found on their network as boards are: by their MACs, by a real avahi, and by what they answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench
from hosts.lab.command import do
from hosts.lab.network import INTERFACE, Network

#: One of Raspberry Pi's, for the hosts that play boards.
_MACS = {"pi1": "b8:27:eb:00:00:01", "pi2": "dc:a6:32:00:00:02"}


@pytest.fixture
def boards(bench_hosts: BenchHosts) -> Iterator[dict[str, str]]:
    """Addresses by name of pi1, which has avahi, and pi2, which has not. pi3 is no board by its MAC."""
    network = Network(int(bench_hosts.folder.name))
    before = {}
    for index, (name, mac) in enumerate(_MACS.items()):
        bench_hosts.on(name)
        link = ("ip", "-n", network.namespace(index), "link")
        (before[index],) = re.findall(r"link/ether (\S+)", do(*link, "show", INTERFACE))
        do(*link, "set", INTERFACE, "address", mac)
    do("ip", "neigh", "flush", "dev", network.bridge)
    bench_hosts.inside("pi1", "systemctl restart avahi-daemon")
    yield {name: bench_hosts.address(name) for name in _MACS}
    for index, mac in before.items():
        do("ip", "-n", network.namespace(index), "link", "set", INTERFACE, "address", mac)
    do("ip", "neigh", "flush", "dev", network.bridge)


def test_boards_are_found_asked_and_drafted(boards: dict[str, str], bench_hosts: BenchHosts, tmp_path: Path):
    draft = tmp_path / "draft.toml"
    subnet = re.sub(r"\d+$", "0/24", Network(int(bench_hosts.folder.name)).machine)
    said = roambench(
        *("fleet", "discover", "--subnet", subnet, "--mdns", "--user", "pi", "--key", bench_hosts.key),
        *("-o", draft),
    )
    assert said.code == 0, said
    rows = {row["address"]: row for row in said.rows().values()}
    for name, address in boards.items():
        assert rows[address]["name"] == name
        assert rows[address]["MAC"] == _MACS[name]
        assert rows[address]["not asked because"] == ""
    assert rows[boards["pi1"]]["seen by"] == "neighbour mDNS"
    assert rows[boards["pi2"]]["seen by"] == "neighbour"
    assert bench_hosts.address("pi3") not in rows

    listed = roambench("fleet", "list", draft, "--json")
    assert listed.code == 0, listed
    hosts = {host["address"]: host for host in json.loads(listed.out)}
    assert {name: hosts[address]["name"] for name, address in boards.items()} == {"pi1": "pi1", "pi2": "pi2"}
    assert {hosts[address]["interface"] for address in boards.values()} == {INTERFACE}
    reached = roambench("fleet", "exec", draft, "--only", "pi1", "--only", "pi2", "--", "hostname")
    assert reached.code == 0, reached
    assert sorted(reached.out.splitlines()) == ["pi1: pi1", "pi2: pi2"]

    again = roambench("fleet", "discover", "--bench", bench_hosts.bench, "--no-mdns", "--json")
    assert again.code == 0, again
    assert not set(boards.values()) & {row["address"] for row in json.loads(again.out)}
