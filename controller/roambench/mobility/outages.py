"""Holes in a recording: steps in which the collector failed, told from those in which nobody came. Pure.

A step without any device is part of an outage if its run of empty steps is at least `MIN_RUN` long, or covers
an hour of the day in which, over the whole trace, `BUSY_HOUR` devices or more are present on average. Any
other empty step is taken as it is: nobody was there.

The average is that of the steps with anybody: holes must not hide holes. What it misses are hours in which
nobody really came, and where five are expected these are one in 150 (e^-5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.trace import Trace

MIN_RUN: Final = 2
BUSY_HOUR: Final = 5.0
_DAY_S: Final = 86_400

OutagePolicy = Literal["keep", "drop", "mark"]
OUTAGE_POLICIES: Final = ("keep", "drop", "mark")

Runs = tuple[tuple[int, int], ...]
"""(first step, number of steps) of every run, ascending."""


def empty_runs(present: npt.NDArray[np.integer]) -> Runs:
    """The runs of steps in which nobody is present; `present` counts devices, shape (steps,)."""
    edges = np.diff(np.concatenate(([0], (present == 0).astype(np.int8), [0])))
    first, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return tuple(zip(first.tolist(), (end - first).tolist(), strict=True))


def outage_runs(present: npt.NDArray[np.integer], step_s: float, start_utc_s: int = 0) -> Runs:
    """Of the empty runs those that are outages.

    `present` counts the devices of every step before any were cut. The hour of the day is that of UTC: by
    which clock one sorts the hours of a window changes nothing, but for a change to summer time in it. An
    hour of the day in which nobody was ever seen is not a busy one.
    """
    opening_s = start_utc_s + np.arange(len(present)) * step_s
    hours = (opening_s % _DAY_S // 3600).astype(np.int64)
    steps = np.maximum(np.bincount(hours[np.asarray(present) > 0], minlength=24), 1)
    mean = np.bincount(hours, weights=present, minlength=24) / steps
    return tuple(
        (first, length)
        for first, length in empty_runs(present)
        if length >= MIN_RUN or mean[hours[first : first + length]].max() >= BUSY_HOUR
    )


def with_outages(trace: Trace, runs: Runs, policy: OutagePolicy) -> Trace:
    """`keep`: as it is. `drop`: without these steps, the later ones move up. `mark`: the trace tells them.

    Raises TraceError where nothing would be left.
    """
    if policy == "keep" or not runs:
        return trace
    told = [list(run) for run in runs]
    if policy == "mark":
        return replace(trace, provenance={**trace.provenance, "outages": told})
    dropped = np.zeros(trace.steps, np.bool_)
    for first, length in runs:
        dropped[first : first + length] = True
    steps = trace.steps - int(dropped.sum())
    if not steps:
        raise TraceError("every step is an outage: nothing is left when they are dropped")
    later = (np.cumsum(~dropped) - 1).astype(np.int32)
    rows = np.flatnonzero(~dropped[trace.step])
    return replace(
        trace,
        steps=steps,
        step=later[trace.step[rows]],
        device=trace.device[rows],
        x_m=trace.x_m[rows],
        y_m=trace.y_m[rows],
        ap=None if trace.ap is None else trace.ap[rows],
        provenance={**trace.provenance, "dropped_outages": told},
    )


def marked_outages(trace: Trace) -> Runs:
    """The runs that `mark` told, in the trace's own steps; none where nothing is marked."""
    told = trace.provenance.get("outages", ())
    if not isinstance(told, Sequence) or isinstance(told, str):
        return ()
    runs = [tuple(run) for run in told if isinstance(run, Sequence) and len(run) == 2]
    return tuple(
        (first, length)
        for first, length in runs
        if isinstance(first, int) and isinstance(length, int) and first >= 0 and length >= 1
    )


def clipped(runs: Runs, first: int, steps: int) -> list[list[int]]:
    """The runs as a window of `steps` steps from `first` on sees them, in its own steps."""
    cut = [(max(at, first), min(at + length, first + steps)) for at, length in runs]
    return [[begin - first, end - begin] for begin, end in cut if begin < end]
