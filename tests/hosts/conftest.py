"""Real hosts for tests: booted once, gone at the end. `docs/testing-hosts.md` tells how to use them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.lab.bench_hosts import BenchHosts, running_hosts

_TOOLS = ("debootstrap", "systemd-nspawn", "nsenter", "ip", "losetup", "mkfs.ext4", "ssh-keygen")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that is here is marked: `make test-hosts` runs it, one test after the other on one set of hosts."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.hosts)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def bench_hosts() -> Iterator[BenchHosts]:
    """Three fresh hosts pi1, pi2, pi3 with emulated meters, and their bench description.

    They are the same for all tests: who breaks one mends it (`on`, `empty_disk`, `flash`).
    """
    reason = _lacking()
    if reason:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with running_hosts() as hosts:
        yield hosts


def _lacking() -> str:
    """What this machine lacks for hosts in containers; "" for nothing."""
    if os.geteuid() != 0:
        return "hosts in containers need root: sudo make test-hosts"
    paths = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [tool for tool in _TOOLS if shutil.which(tool, path=paths) is None]
    return f"{', '.join(missing)}: not installed (tests/hosts/install_tools.sh)" if missing else ""
