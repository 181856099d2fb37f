"""Common parts of a trace's figures: timestamps, colours."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.mobility.trace import Trace

BLUE: Final = "#1f5fbf"
ORANGE: Final = "#d9622b"
GREEN: Final = "#1a8f6a"
GREY: Final = "#8894a3"
_MOST_TIMESTAMPS: Final = 3000  # of a curve over the steps


def timestamps(trace: Trace) -> tuple[list[str] | list[float], str]:
    """The beginning of every (group of) steps, and what the axis says."""
    every = _together(trace.steps)
    steps = range(0, trace.steps, every)
    unit = f", means of {every} steps" if every > 1 else ""
    if trace.start_utc_s:
        return [timestamp(trace, step) for step in steps], f"UTC{unit}"
    return [float(timestamp(trace, step)) for step in steps], f"hours{unit}"


def timestamp(trace: Trace, step: int) -> Any:
    """When a step begins: a UTC date, or hours where the trace knows no calendar."""
    seconds = trace.start_utc_s + step * trace.step_s
    if trace.start_utc_s:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return round(seconds / 3600.0, 6)


def grouped(per_step: npt.NDArray[Any]) -> list[float]:
    """The means that belong to `timestamps`, of a count per step."""
    every = _together(len(per_step))
    starts = np.arange(0, len(per_step), every)
    sums = np.add.reduceat(per_step.astype(np.float64), starts)
    means: list[float] = np.round(sums / np.diff([*starts.tolist(), len(per_step)]), 4).tolist()
    return means


def _together(steps: int) -> int:
    return max(1, -(-steps // _MOST_TIMESTAMPS))
