"""A firewall on a test host, as its owner would set one up with nftables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hosts.lab.bench_hosts import BenchHosts

#: What agents' peer ports are among: the kernel's choice for a listener without a port of its own.
_PORTS = "tcp dport 32768-60999"


@contextmanager
def firewall(hosts: BenchHosts, name: str, hook: str, match: str, verdict: str) -> Iterator[None]:
    """The host's `hook` (input, output) gives new connections to high ports that `match` such a `verdict`."""
    chain = f"add chain inet lab_firewall {hook} {{ type filter hook {hook} priority 0; }}"
    rule = f"add rule inet lab_firewall {hook} {match} {_PORTS} ct state new {verdict}"
    hosts.inside(name, f"nft 'add table inet lab_firewall; {chain}; {rule}'")
    try:
        yield
    finally:
        hosts.inside(name, "nft delete table inet lab_firewall")
