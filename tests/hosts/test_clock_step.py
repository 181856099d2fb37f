"""A host whose clock cannot be kept is told of in chrony's own words."""

from __future__ import annotations

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench

_DROP_IN = "/etc/systemd/system/chrony.service.d/trial.conf"
_BROKEN = "[Service]\\nExecStart=\\nExecStart=!/usr/sbin/chronyd -f /etc/chrony/nowhere.conf\\n"


def test_a_chrony_that_does_not_start_is_a_reason_in_its_own_words(provisioned: BenchHosts):
    provisioned.inside("pi3", f"printf '{_BROKEN}' >{_DROP_IN}; rm /etc/chrony/roambench.conf")
    try:
        said = roambench("fleet", "provision", provisioned.bench, "--only", "pi3")
        row = said.rows()["pi3"]
        assert said.code == 1
        assert row["reason"].startswith("clock: chrony does not start (")
        assert "nowhere.conf" in row["reason"]
        assert row["next action"] == "journalctl -u chrony on it"
    finally:
        provisioned.inside("pi3", f"rm {_DROP_IN}; systemctl daemon-reload; systemctl restart chrony")
