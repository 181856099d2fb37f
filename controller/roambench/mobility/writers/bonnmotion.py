"""BonnMotion's `.movements`: one line of waypoints `t x y` per device, and its `.params`.

A waypoint at every step; between two of them BonnMotion's nodes move in a straight line. The last one stands
at the end of the last step. The format has no absence. Devices that never come have no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from roambench.mobility.trace import Trace
from roambench.mobility.writers.writer import Absent, Writer, Written, decimal, standing


def write(trace: Trace, absent: Absent) -> Written:
    """Line i is the i-th device that ever comes; `absent` is always `stand`."""
    whole, notes = standing(trace)
    return Written({"": _lines(whole), ".params": _parameters(whole)}, notes)


def _lines(trace: Trace) -> Iterator[str]:
    times = [decimal(step * trace.step_s) for step in range(trace.steps)]
    end = decimal(trace.steps * trace.step_s)
    order = np.lexsort((trace.step, trace.device))
    for rows in np.split(order, np.flatnonzero(np.diff(trace.device[order])) + 1):
        points = [f"{decimal(x)} {decimal(y)}" for x, y in zip(trace.x_m[rows], trace.y_m[rows], strict=True)]
        waypoints = [f"{time} {point}" for time, point in zip(times, points, strict=True)]
        yield " ".join([*waypoints, f"{end} {points[-1]}"])


def _parameters(trace: Trace) -> Iterator[str]:
    yield "model=roambench"
    yield f"x={decimal(trace.x_m.max())}"
    yield f"y={decimal(trace.y_m.max())}"
    yield f"duration={decimal(trace.steps * trace.step_s)}"
    yield f"nn={len(np.unique(trace.device))}"


BONNMOTION: Final = Writer("bonnmotion", "BonnMotion's .movements and .params", write, omits=False)
