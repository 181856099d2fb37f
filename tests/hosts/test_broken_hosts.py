"""Hosts that cannot come along are told of, and stop no other."""

from __future__ import annotations

from hosts.card_walk import Walked
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench


def test_dead_changed_and_full_hosts_are_rows_with_reason_and_next_action(
    bench_hosts: BenchHosts, walked: Walked
):
    bench_hosts.flash("pi1")  # and so its host key is another
    bench_hosts.off("pi2")
    # A running agent would keep what it has open, and give the room back when it ends. A test before may have
    # taken it off.
    bench_hosts.inside("pi3", "systemctl stop roambench-agent || true; rm -rf /opt/roambench")
    bench_hosts.fill_disk("pi3")
    try:
        said = roambench("fleet", "provision", bench_hosts.bench)
        assert said.code == 1
        rows = said.rows()
        assert "another host key than recorded" in rows["pi1"]["reason"]
        assert "ssh-keygen -R" in rows["pi1"]["next action"]
        assert "no answer" in rows["pi2"]["reason"] or "No route" in rows["pi2"]["reason"]
        assert rows["pi2"]["next action"] == "is it powered, booted and on this network?"
        assert "which has 2 MB left, needs" in rows["pi3"]["reason"]
        assert rows["pi3"]["next action"].startswith("make room on /")
    finally:
        bench_hosts.on("pi2")
        bench_hosts.empty_disk("pi3")
