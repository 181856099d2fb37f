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


def test_a_host_answers_where_nothing_listens_and_none_where_no_route_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert peers_probe.lost("127.0.0.1") == ""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(peers_probe, "_PORT", taken.getsockname()[1])
        assert peers_probe.lost("127.0.0.1") == ""
    assert peers_probe.lost("224.0.0.1")


def test_each_host_that_answered_asks_all_others(server: SshServer, tmp_path: Path) -> None:
    bench = on_this_machine(server, tmp_path)

    def seen(address: str) -> Seen:
        facts = replace(FRESH, own_address=address)
        return Seen(facts, ClockOffset(0.0, 0.01), AgentAnswers())

    gone = Seen(None, None, AgentAnswers(), "no answer")
    before = {"pi-01": seen("127.0.0.1"), "pi-02": seen("224.0.0.1"), "pi-03": gone}
    found = preflight._with_peers(bench, bench.hosts, before)
    assert found["pi-02"].peers == {"pi-01 (127.0.0.1)": ""}
    assert found["pi-03"] is gone
    (one,) = (found["pi-01"].peers or {}).items()
    assert one[0] == "pi-02 (224.0.0.1)"
    assert one[1]


def on_this_machine(server: SshServer, folder: Path) -> Bench:
    hosts = (
        a_host(n, address="127.0.0.1", ssh_user="root", ssh_port=server.port, ssh_key=str(server.client_key))
        for n in (1, 2, 3)
    )
    return a_bench(folder, *hosts)
