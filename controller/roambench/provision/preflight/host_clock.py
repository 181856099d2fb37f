"""A host's clock against this machine's, over SSH: good to some milliseconds, which is enough for a doubt."""

from __future__ import annotations

import time

from roambench.provision.preflight.facts import ClockOffset, clock_offset
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script


def host_clock(link: HostLink, exchanges: int) -> ClockOffset:
    """Return the offset of the quickest of these exchanges; HostError where the host does not tell the
    time."""
    found = []
    for _ in range(exchanges):
        asked_s = time.time()
        said = link.must(Script("date +%s.%N"))
        answered_s = time.time()
        try:
            found.append((asked_s, float(said), answered_s))
        except ValueError:
            raise HostError(link.host.name, "date: not a time") from None
    return clock_offset(found)
