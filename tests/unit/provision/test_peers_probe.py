"""Boards that exchange models: which of the others' addresses answer, through a real SSH server."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from benches import a_bench, a_host
from host_facts import FRESH
from roambench.provision import peers_probe
from roambench.provision.bench import Bench
from roambench.provision.preflight import preflight
from roambench.provision.preflight.facts import AgentAnswers, ClockOffset, Seen
from ssh_server import SshServer


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_host_is_reached_where_it_answers_with_its_name_and_a_refusal_is_a_firewalls(address: str) -> None:
    port = peers_probe.listening("pi-02", address)
    assert peers_probe.lost("pi-02", address, port) == ""
    assert peers_probe.lost("pi-03", address, port) == "another answers there: 'pi-02'"
    with socket.create_server(
        (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET
    ) as one:
        free = one.getsockname()[1]
    assert peers_probe.lost("pi-02", address, free) == "a firewall refuses connections"
    assert peers_probe.lost("pi-02", "224.0.0.1", port)


def seen(address: str) -> Seen:
    return Seen(replace(FRESH, own_address=address), ClockOffset(0.0, 0.01), AgentAnswers())


def test_each_host_that_answered_asks_all_others(server: SshServer, tmp_path: Path) -> None:
    bench = on_this_machine(server, tmp_path)
    gone = Seen(None, None, AgentAnswers(), "no answer")
    before = {"pi-01": seen("127.0.0.1"), "pi-02": seen("::1"), "pi-03": gone}
    found = preflight._with_peers(bench, bench.hosts, before)
    assert found["pi-01"].peers == {"pi-02 (::1)": ""}
    assert found["pi-02"].peers == {"pi-01 (127.0.0.1)": ""}
    assert found["pi-03"] is gone


def test_a_host_that_cannot_listen_is_named_with_the_reason_and_one_alone_has_no_ways(
    server: SshServer, tmp_path: Path
) -> None:
    bench = on_this_machine(server, tmp_path)
    before = {"pi-01": seen("127.0.0.1"), "pi-02": seen("203.0.113.1")}
    found = preflight._with_peers(bench, bench.hosts[:2], before)
    lost = "not known: it cannot listen: Cannot assign requested address"
    assert found["pi-01"].peers == {"pi-02 (203.0.113.1)": lost}
    assert found["pi-02"].peers == {"pi-01 (127.0.0.1)": lost}
    assert preflight._with_peers(bench, bench.hosts[:1], {"pi-01": seen("127.0.0.1")})["pi-01"].peers == {}


def on_this_machine(server: SshServer, folder: Path) -> Bench:
    hosts = (
        a_host(n, address="127.0.0.1", ssh_user="root", ssh_port=server.port, ssh_key=str(server.client_key))
        for n in (1, 2, 3)
    )
    return a_bench(folder, *hosts)
