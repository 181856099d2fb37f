"""Holes in a recording: steps in which the collector failed, not those in which no device came. Pure.

No source says which is which; a run of empty steps is taken for a hole where it is too unlikely that no
device came. How many devices are to be expected follows the hour of the day: the mean over the steps that
are in no hole. If devices come independently, none comes in a run in which S are expected with a chance of
e^-S. The run counts as a hole where fewer than `CHANCE` runs as unlikely are to be expected in the whole
trace, and S is at least `LEAST`. So 40 empty nights are no holes where nights are quiet, and one empty noon
may be.

Holes are left out of the mean that they are found by. At first what is to be expected follows from the steps
with any device alone (the mean of a Poisson distribution whose zeros are not seen); then from all steps that
are in no hole, until no more run turns out to be none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.errors import TraceError
from roambench.mobility.trace import Trace

#: Why steps of an imported trace are empty.
HOLES: Final = "holes in the recording"
QUIET: Final = "likely no device came"
UNCOVERED: Final = "before the source's first fix or after its last"
CUT: Final = "only devices that --top left out"

CHANCE: Final = 0.5
LEAST: Final = 3.0
_MOST: Final = 64.0  # expected devices, beyond which an empty step is out of the question
_DAY_S: Final = 86_400

OutagePolicy = Literal["keep", "drop", "mark"]
OUTAGE_POLICIES: Final = ("keep", "drop", "mark")

Runs = tuple[tuple[int, int], ...]
"""(first step, number of steps) of every run, ascending."""


def empty_runs(present: npt.NDArray[np.integer]) -> Runs:
    """The runs of steps in which no device is present; `present` counts devices, shape (steps,)."""
    edges = np.diff(np.concatenate(([0], (present == 0).astype(np.int8), [0])))
    first, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return tuple(zip(first.tolist(), (end - first).tolist(), strict=True))


def outage_runs(present: npt.NDArray[np.integer], step_s: float, start_utc_s: int = 0) -> Runs:
    """Find the empty runs that look like holes; a run is a hole as a whole or not at all.

    `present` counts the devices of every step before any were cut, from the first to the last that the source
    covers. The hour of the day is that of UTC: by which clock one sorts the hours of a window changes
    nothing, but for a change to summer time in it. An hour of the day in which no device was ever seen
    expects none.
    """
    runs = np.array(empty_runs(present), np.int64).reshape(-1, 2)
    first, end = runs[:, 0], runs.sum(axis=1)
    opening_s = start_utc_s + np.arange(len(present)) * step_s
    hours = (opening_s % _DAY_S // 3600).astype(np.int64)
    steps = np.bincount(hours, minlength=24)
    devices = np.bincount(hours, weights=present, minlength=24)
    seen = np.bincount(hours[np.asarray(present) > 0], minlength=24)
    mean = np.maximum(_without_zeros(devices / np.maximum(seen, 1)), devices / np.maximum(steps, 1))
    hole = np.ones(len(runs), np.bool_)
    while True:
        expected = np.concatenate(([0.0], np.cumsum(mean[hours])))
        still = hole & (expected[end] - expected[first] > _enough(mean, steps))
        if (still == hole).all():
            return tuple((at, length) for at, length in runs[hole].tolist())
        hole = still
        opened = np.bincount(first[hole], minlength=len(present) + 1)
        closed = np.bincount(end[hole], minlength=len(present) + 1)
        counted = np.bincount(hours[np.cumsum(opened - closed)[:-1] == 0], minlength=24)
        mean = devices / np.maximum(counted, 1)


def _without_zeros(mean: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The means of Poisson distributions of which only what is not 0 has these means; 0 up to a mean of 1."""

    above = np.maximum(mean, 1.0 + 1e-9)  # mean = m / (1 - e^-m), solved for m
    solved: npt.NDArray[np.float64] = above + scipy.special.lambertw(-above * np.exp(-above)).real
    return solved.clip(min=0.0)


def _enough(mean: npt.NDArray[np.float64], steps: npt.NDArray[np.int64]) -> float:
    """The number of expected devices from which on an empty run is a hole; `mean` and `steps` by hour of the
    day. A step in which more are expected anyway begins no likelier run than that."""
    low, high = LEAST, _MOST
    for _ in range(30):
        middle = (low + high) / 2
        if (steps * np.exp(-np.maximum(middle, mean))).sum() >= CHANCE:
            low = middle
        else:
            high = middle
    return high


def with_outages(trace: Trace, runs: Runs, policy: OutagePolicy) -> Trace:
    """`keep`: as it is. `drop`: without these steps, the later ones move up. `mark`: the trace tells them.

    Raises TraceError where nothing would be left.
    """
    if policy == "keep" or not runs:
        return trace
    marks = [list(run) for run in runs]
    if policy == "mark":
        return replace(trace, provenance={**trace.provenance, "outages": marks})
    dropped = np.zeros(trace.steps, np.bool_)
    for first, length in runs:
        dropped[first : first + length] = True
    steps = trace.steps - int(dropped.sum())
    if not steps:
        raise TraceError("every step is an outage: nothing is left when they are dropped")
    later = (np.cumsum(~dropped) - 1).astype(np.int32)
    rows = np.flatnonzero(~dropped[trace.step])
    provenance = {**trace.provenance, "dropped_outages": marks}
    return trace.with_fixes(
        rows, later[trace.step[rows]], trace.device[rows], steps=steps, provenance=provenance
    )


def marked_outages(trace: Trace) -> Runs:
    """The runs that `mark` left, in the trace's own steps; none where nothing is marked."""
    marks = trace.provenance.get("outages", ())
    if not isinstance(marks, Sequence) or isinstance(marks, str):
        return ()
    runs = [tuple(run) for run in marks if isinstance(run, Sequence) and len(run) == 2]
    return tuple(
        (first, length)
        for first, length in runs
        if isinstance(first, int) and isinstance(length, int) and first >= 0 and length >= 1
    )


def empty_because(trace: Trace) -> Mapping[str, int] | None:
    """Every empty step of an imported trace by the one reason that its import gives for it.

    None where the import left none as they were (`drop`, held presence), or the trace is only part of it.
    """
    counts, recipe, derived = (trace.provenance.get(key) for key in ("counts", "recipe", "derived"))
    if (
        not isinstance(counts, Mapping)
        or not isinstance(recipe, Mapping)
        or not isinstance(derived, Sequence)
    ):
        return None
    numbers = [counts.get(key) for key in ("outage_steps", "quiet_steps", "steps_not_covered")]
    if (
        recipe.get("presence") not in ("event", "interval")
        or recipe.get("outage") not in ("keep", "mark")
        or [list(step) for step in derived if isinstance(step, Mapping)] != [["busiest_devices"]]
        or not all(isinstance(number, int) for number in numbers)
    ):
        return None
    holes, quiet, uncovered = (int(str(number)) for number in numbers)
    empty = trace.steps - len(np.unique(trace.step))
    cut = empty - holes - quiet - uncovered
    return None if cut < 0 else {HOLES: holes, QUIET: quiet, UNCOVERED: uncovered, CUT: cut}


def clipped(runs: Runs, first: int, steps: int) -> list[list[int]]:
    """The runs as a window of `steps` steps from `first` on sees them, in its own steps."""
    cut = [(max(at, first), min(at + length, first + steps)) for at, length in runs]
    return [[begin - first, end - begin] for begin, end in cut if begin < end]
