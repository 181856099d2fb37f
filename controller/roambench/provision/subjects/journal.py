"""Logs: bounded, and seldom written to the SD card, but written: a board that lost its power tells why."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.wanted import Wanted

_CONF = """\
[Journal]
Storage=persistent
SystemMaxUse=64M
SystemMaxFileSize=8M
RuntimeMaxUse=16M
SyncIntervalSec=10min
RateLimitIntervalSec=30s
RateLimitBurst=1000
"""


def journal(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that bound the size of the host's journal."""
    differ, reason = differing(facts, [RemoteFile(layout.JOURNAL_CONF, _CONF.encode())])
    if differ:
        yield HostStep(
            "logs",
            reason,
            Script("systemctl restart systemd-journald && journalctl --flush"),
            files=differ,
        )
