"""Real hosts for tests: booted once, gone at the end. `docs/testing-hosts.md` tells how to use them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hosts.card_walk import PROVISION, ROOT, Walked, card_page_commands
from hosts.lab.bench_hosts import BenchHosts, running_hosts, running_sets
from hosts.lab.cli import roambench
from hosts.lab.footprint import footprint
from hosts.lab.needed import need_tools
from roambench.provision.inventory.load import load_bench

#: The hosts are provisioned once, after the tests of bare ones; what takes them apart comes last, so that
#: nothing has to be provisioned again. In another order more is provisioned, and runs of before may be found.
#: Before the whole bench stands what starts no agent anew: a preflight waits until agents are a minute old.
_FIRST: Final = (
    *("test_lab.py", "test_operate.py"),
    *("test_clock_step.py", "test_discover.py", "test_peers_on_hosts.py", "test_whole_bench.py"),
)
_LAST: Final = ("test_upgrade.py", "test_unprovision.py", "test_broken_hosts.py")
_WHOLE: Final = (
    "systemctl is-active --quiet roambench-agent && test -x /opt/roambench/current/bin/roambench-agent"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that is here is marked: `make test-hosts` runs it, one test after the other on one set of hosts."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.hosts)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
    ordered = iter(sorted(here, key=_place))
    items[:] = [next(ordered) if Path(__file__).parent in item.path.parents else item for item in items]


@pytest.fixture(scope="session")
def bench_hosts() -> Iterator[BenchHosts]:
    """Three fresh hosts pi1, pi2, pi3 with emulated meters, and their bench description.

    They are the same for all tests: who breaks one mends it (`on`, `empty_disk`), or leaves that to
    `provisioned`. With $ROAMBENCH_HOSTS_SET they are those of that set, which `boot.py` keeps up.
    """
    need_tools()
    if number := os.environ.get("ROAMBENCH_HOSTS_SET"):
        yield running_sets()[int(number)]
        return
    with running_hosts() as hosts:
        yield hosts


@pytest.fixture(scope="session")
def walked(bench_hosts: BenchHosts) -> Walked:
    """The page's commands up to the first provisioning, on hosts that were never provisioned."""
    (load_bench(bench_hosts.bench).state_dir / "known_hosts").unlink(missing_ok=True)
    before = {name: footprint(bench_hosts, name) for name in bench_hosts.names}
    walk = card_page_commands(bench_hosts.bench)
    for words in walk[: walk.index([*PROVISION, str(bench_hosts.bench)]) + 1]:
        said = roambench(*words, timeout_s=580, cwd=ROOT)
        assert said.code == 0, said
    return Walked(said, before)


@pytest.fixture
def provisioned(bench_hosts: BenchHosts, walked: Walked) -> BenchHosts:
    """All hosts on, with their agents. Those that a test before took apart are provisioned again."""
    broken = [name for name in bench_hosts.names if not _is_whole(bench_hosts, name)]
    if broken:
        (load_bench(bench_hosts.bench).state_dir / "known_hosts").unlink(missing_ok=True)
        only = [word for name in broken for word in ("--only", name)]
        said = roambench("fleet", "provision", bench_hosts.bench, *only, timeout_s=580)
        assert said.code == 0, said
    return bench_hosts


def _is_whole(hosts: BenchHosts, name: str) -> bool:
    hosts.on(name)
    try:
        hosts.inside(name, _WHOLE)
    except RuntimeError:
        return False
    return True


def _place(item: pytest.Item) -> int:
    name = item.path.name
    if name in _FIRST:
        return _FIRST.index(name)
    return len(_FIRST) + (1 + _LAST.index(name) if name in _LAST else 0)
