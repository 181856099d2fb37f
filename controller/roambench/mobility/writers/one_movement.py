"""The ONE's ExternalMovement: a header of bounds, then `time id x y` at every step; ids are device indices.

The simulator wants every node in its first sample and one constant interval, so absent devices `stand`. With
`omit` only who is present is listed, which is how our own reader tells presence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roambench.mobility.trace import Trace
from roambench.mobility.writers.writer import Absent, Writer, Written, decimal, standing


def write(trace: Trace, absent: Absent) -> Written:
    """Times count from the trace's first step; positions are metres, read back as the same numbers."""
    notes: tuple[str, ...] = ()
    if absent == "stand":
        trace, notes = standing(trace)
    return Written({"": _lines(trace)}, notes)


def _lines(trace: Trace) -> Iterator[str]:
    bounds = [0.0, trace.steps * trace.step_s]
    for column in (trace.x_m, trace.y_m):
        bounds += [float(column.min(initial=0.0)), float(column.max(initial=0.0))]
    yield " ".join(decimal(bound) for bound in bounds)
    rows = zip(*(column.tolist() for column in (trace.step, trace.device, trace.x_m, trace.y_m)), strict=True)
    for step, device, x_m, y_m in rows:
        yield f"{decimal(step * trace.step_s)} {device} {decimal(x_m)} {decimal(y_m)}"


ONE: Final = Writer("one", "The ONE's ExternalMovement", write, omits=True)
