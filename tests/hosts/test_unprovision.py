"""Provisioning can be undone: nothing of it stays on a host."""

from __future__ import annotations

from hosts.card_walk import Walked
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench
from hosts.lab.footprint import footprint


def test_an_unprovisioned_host_is_as_it_was_before_it_was_provisioned(
    provisioned: BenchHosts, walked: Walked
):
    """Every file, its mode and owner, what is below /etc, users, groups, units and packages, of Raspberry Pi
    OS, a plain and a hardened Debian: they have run experiments, were rebooted and provisioned again
    meanwhile. Nothing anywhere, /tmp included, belongs to a user who is gone."""
    names = provisioned.names
    there = footprint(provisioned, "pi2")
    assert any(line.endswith(" /opt/roambench ") for line in there)
    assert any(line.startswith("roambench:") for line in there)
    assert any(line.startswith("unit roambench-agent.service") for line in there)

    said = roambench("fleet", "unprovision", provisioned.bench, "--yes")
    assert (said.code, [row["state"] for row in said.rows().values()]) == (0, ["removed"] * 3), said
    for name in names:
        after = footprint(provisioned, name)
        assert sorted(after ^ walked.before[name]) == [], name
        assert provisioned.inside(name, "ls -d /run/roambench* 2>/dev/null || true") == ""
        assert provisioned.inside(name, "pgrep -af ^/opt/roambench || true") == ""
    # Their certificates are believed no more.
    shown = roambench("fleet", "certs", "show", provisioned.bench)
    states = {name: row["state"] for name, row in shown.rows().items()}
    assert [states[name] for name in names] == ["revoked"] * 3

    said = roambench("fleet", "unprovision", provisioned.bench, "--yes")
    assert (said.code, [row["state"] for row in said.rows().values()]) == (0, ["nothing was there"] * 3), said
