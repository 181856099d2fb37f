"""Who may not come in is told so on its host, and the controller says whom it left out; a new certificate
mends it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE, BenchRun
from hosts.lab.cli import roambench
from roambench.provision.changes.rotation import rotate_host
from roambench.provision.inventory.load import load_bench
from roambench.provision.ssh.hosts import on_hosts

_MEND = ("fleet", "certs", "rotate")
_OTHERS = ("--only", "pi2", "--only", "pi3")


@pytest.fixture
def mended(provisioned: BenchHosts) -> Iterator[BenchHosts]:
    """Afterwards all hosts are believed again, and in no run."""
    yield provisioned
    assert roambench(*_MEND, provisioned.bench, *_OTHERS).code == 0
    for name in provisioned.names:
        provisioned.inside(name, "/opt/roambench/current/bin/roambench-agent ctl end-run || true")


def test_a_revoked_and_an_expired_host_are_refused_with_a_line_on_both_sides_until_they_are_mended(
    mended: BenchHosts, tmp_path: Path
):
    since = mended.inside("pi2", "date '+%F %T'").strip()
    bench = load_bench(mended.bench)
    a_moment = dt.timedelta(seconds=2)
    (short,) = on_hosts(
        bench, [bench.host("pi3")], lambda link: rotate_host(link, a_moment, revoke_old=False)
    )
    assert not short.failed, short
    assert roambench("fleet", "certs", "revoke", mended.bench, "pi2", "--reason", "a test").code == 0
    time.sleep(max(0.0, (short.value.expires - dt.datetime.now(dt.UTC)).total_seconds()) + 0.5)
    # As long as it lives it goes on with the one that it had before, which is good for days.
    mended.inside("pi3", "systemctl stop roambench-agent; systemctl start --no-block roambench-agent")

    run = BenchRun(mended.bench, tmp_path, 'systems=["mohawk"]', *ALWAYS_THERE)
    try:
        run.wait_for_line("pi2: identity refused: the certificate of 'pi2' is revoked (serial ")
        _wait_for_journal(mended, "pi2", since, "no session (the certificate of 'pi2' is revoked (serial ")
        _wait_for_journal(mended, "pi3", since, "the certificate of 'pi3' expired 20")
        assert "pi3 is ready" not in run.printed()
        assert roambench(*_MEND, mended.bench, *_OTHERS).code == 0
        run.wait_for_line("pi2 is ready after")
        run.wait_for_line("pi3 is ready after")
    finally:
        run.stop()


def _wait_for_journal(hosts: BenchHosts, name: str, since: str, words: str) -> None:
    deadline_s = time.monotonic() + 120.0
    while True:
        said = hosts.inside(name, f"journalctl -u roambench-agent --since '{since}' -o cat --no-pager")
        if words in said:
            return
        assert time.monotonic() < deadline_s, f"{name} did not say {words!r}:\n{said}"
        time.sleep(0.5)
