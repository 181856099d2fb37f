"""A host's clock against this machine's, over SSH: good to some milliseconds, which is enough for a doubt."""

from __future__ import annotations

import math
import time
from typing import Final

from roambench.provision.preflight.facts import ClockOffset, clock_offset
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script

#: As far as 32 unsigned bits go: the year 2106.
_MOST_S: Final = 2.0**32


def host_clock(link: HostLink, exchanges: int) -> ClockOffset:
    """Return the offset of the quickest of these exchanges; HostError where the host does not tell the
    time."""
    found = []
    for _ in range(exchanges):
        asked_s = time.time()
        ran = link.run(Script("date +%s.%N"))
        answered_s = time.time()
        try:
            there_s = float(ran.out)
        except ValueError:
            there_s = math.nan
        if not 0.0 <= there_s < _MOST_S:
            raise link.unheard(f"date: {ran.why}" if ran.exit_code else "date: not a time")
        found.append((asked_s, there_s, answered_s))
    return clock_offset(found)
