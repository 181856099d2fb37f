"""Provisioning can be undone: nothing of it stays on a host."""

from __future__ import annotations

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench
from hosts.lab.footprint import footprint
from hosts.readme_walk import Walked


def test_an_unprovisioned_host_is_as_it_was_before_it_was_provisioned(
    provisioned: BenchHosts, walked: Walked
):
    """Every file, its mode and owner, what is below /etc, users, groups, units and packages: the host has run
    experiments, was rebooted and provisioned again meanwhile."""
    there = footprint(provisioned, "pi2")
    assert any(line.endswith(" /opt/roambench ") for line in there)
    assert any(line.startswith("roambench:") for line in there)
    assert any(line.startswith("unit roambench-agent.service") for line in there)

    said = roambench("fleet", "unprovision", provisioned.bench, "--only", "pi2", "--yes")
    assert (said.code, said.rows()["pi2"]["state"]) == (0, "removed"), said
    after = footprint(provisioned, "pi2")
    assert sorted(after ^ walked.before["pi2"]) == []
    assert provisioned.inside("pi2", "ls -d /run/roambench* 2>/dev/null || true") == ""
    assert provisioned.inside("pi2", "pgrep -af ^/opt/roambench || true") == ""
    # Its certificate is believed no more.
    shown = roambench("fleet", "certs", "show", provisioned.bench)
    assert {name: row["state"] for name, row in shown.rows().items()}["pi2"] == "revoked"

    said = roambench("fleet", "unprovision", provisioned.bench, "--only", "pi2", "--yes")
    assert (said.code, said.rows()["pi2"]["state"]) == (0, "nothing was there"), said
