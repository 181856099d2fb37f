"""Presence of devices: policies that fill the steps between and around its fixes. Pure.

`event`: in the steps in which it has a fix (MOHAWK). `hold:h`: also in the h steps after each fix, where it
last was. `interval`: while a record says that it is there (the readers of interval data give a fix for every
step touched). `always`: from the first step to the last; before its first fix it stands where that will be.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.sampling import MAX_SAMPLES
from roambench.mobility.trace import Trace

POLICIES: Final = "event, hold:STEPS, interval or always"
_HOLD: Final = re.compile(r"hold:([1-9]\d{0,5})", re.ASCII)


def hold_steps(policy: str) -> int | None:
    """For how many steps after a fix a device stays; None: for ever. Raises ConfigError for no policy."""
    if policy in ("event", "interval"):
        return 0
    if policy == "always":
        return None
    held = _HOLD.fullmatch(policy)
    if held is None:
        raise ConfigError([f"presence is {policy!r}, expected {POLICIES}, for example hold:6"])
    return int(held[1])


def with_presence(trace: Trace, policy: str) -> Trace:
    """The trace with the fixes that `policy` adds: a held device keeps its position and its recorded AP.

    A device without any fix stays away under every policy. Raises TraceError for more steps of presence than
    can be meant.
    """
    hold = hold_steps(policy)
    if hold == 0 or not len(trace.step):
        return trace
    rows = np.lexsort((trace.step, trace.device))
    step, device = trace.step[rows].astype(np.int64), trace.device[rows]
    last_of_device = np.concatenate((np.diff(device) != 0, [True]))
    until = np.where(last_of_device, trace.steps, np.concatenate((step[1:], [0])))  # its next fix
    if hold is None:
        first_of_device = np.concatenate(([True], last_of_device[:-1]))
        begin = np.where(first_of_device, 0, step)
    else:
        begin, until = step, np.minimum(until, step + hold + 1)
    counts = until - begin
    if counts.sum() > MAX_SAMPLES:
        raise TraceError(
            f"presence {policy}: devices are there in {counts.sum():,} steps together, "
            f"more than {MAX_SAMPLES:,}: give fewer steps, or longer ones"
        )
    source = np.repeat(np.arange(len(rows)), counts)
    at = begin[source] + np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.lexsort((device[source], at))
    taken = rows[source[order]]
    return trace.with_fixes(taken, at[order].astype(np.int32), trace.device[taken])
