"""Parts of a trace: a window of steps, the busiest devices, another draw of access points. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.outages import clipped, marked_outages
from roambench.mobility.trace import MAX_STEPS, Trace

ApDraw = Literal["pcg64", "pcg64_text", "mohawk"]
AP_DRAWS: Final = ("pcg64", "pcg64_text", "mohawk")


def window(trace: Trace, first: int, steps: int) -> Trace:
    """Steps `first` .. `first + steps - 1` of the trace, renumbered from 0. All devices are kept."""
    if not (first >= 0 and steps >= 1 and first + steps <= trace.steps):
        raise TraceError(f"steps {first}..{first + steps - 1} lie outside the trace's 0..{trace.steps - 1}")
    rows = slice(*np.searchsorted(trace.step, (first, first + steps)).tolist())
    return trace.with_fixes(
        rows,
        trace.step[rows] - np.int32(first),
        trace.device[rows],
        steps=steps,
        start_utc_s=trace.start_utc_s + round(first * trace.step_s),
        provenance=_with_marks(trace, first, steps).derived({"window": {"first": first, "steps": steps}}),
    )


def repeated(trace: Trace, times: int) -> Trace:
    """The trace played `times` times on end: step k of the n-th time is step n * steps + k."""
    if times < 1:
        raise TraceError(f"cannot play a trace {times} times")
    if times == 1:
        return trace
    if trace.steps * times > MAX_STEPS:
        raise TraceError(
            f"cannot play {trace.steps} steps {times:,} times: a trace holds at most {MAX_STEPS:,} steps"
        )
    turns = np.repeat(np.arange(times, dtype=np.int32), len(trace.step)) * np.int32(trace.steps)
    marks = [
        [first + turn * trace.steps, length]
        for turn in range(times)
        for first, length in marked_outages(trace)
    ]
    marked = {**trace.provenance, "outages": marks} if marks else trace.provenance
    return replace(
        trace,
        steps=trace.steps * times,
        step=np.tile(trace.step, times) + turns,
        device=np.tile(trace.device, times),
        x_m=np.tile(trace.x_m, times),
        y_m=np.tile(trace.y_m, times),
        ap=None if trace.ap is None else np.tile(trace.ap, times),
        provenance=replace(trace, provenance=marked).derived({"repeated": {"times": times}}),
    )


def busiest_devices(trace: Trace, devices: int, ranking: npt.NDArray[np.int64] | None = None) -> Trace:
    """The trace of its `devices` busiest devices; a device's index is its rank, its name is kept.

    Rank: steps present, descending; ties by first step present, then by index (MOHAWK §4.1 takes the top
    1,000 of 12,866); `ranking` has it where not all fixes are in the trace. Raises TraceError when the trace
    has fewer devices.
    """
    total = len(trace.device_names)
    if not 1 <= devices <= total:
        raise TraceError(f"cannot choose the {devices} busiest of {total} devices")
    kept = (_ranking(trace) if ranking is None else ranking)[:devices]
    rank = np.full(total, -1, np.int32)
    rank[kept] = np.arange(devices, dtype=np.int32)
    rows = np.flatnonzero(rank[trace.device] >= 0)
    rows = rows[np.lexsort((rank[trace.device[rows]], trace.step[rows]))]
    return trace.with_fixes(
        rows,
        trace.step[rows],
        rank[trace.device[rows]],
        device_names=tuple(trace.device_names[index] for index in kept),
        provenance=trace.derived({"busiest_devices": {"kept": devices, "of": total}}),
    )


def busiest_window_start(trace: Trace, steps: int, devices: int) -> int:
    """The first step of the window of `steps` steps whose `devices` busiest devices are present most.

    Counts (device, step) pairs of the window's own busiest devices; ties go to the earliest window.
    """
    if not 1 <= steps <= trace.steps:
        raise TraceError(f"a window of {steps} steps does not fit a trace of {trace.steps}")
    total = len(trace.device_names)
    if not 1 <= devices <= total:
        raise TraceError(f"cannot choose the {devices} busiest of {total} devices")
    counts = np.bincount(trace.device[trace.step < steps], minlength=total)
    best, best_first = -1, 0
    for first in range(trace.steps - steps + 1):
        if first:  # a device is in a step at most once, so fancy-index arithmetic counts right
            counts[trace.present(first - 1)] -= 1
            counts[trace.present(first + steps - 1)] += 1
        pairs = int(np.partition(counts, total - devices)[total - devices :].sum())
        if pairs > best:
            best, best_first = pairs, first
    return best_first


def with_aps(trace: Trace, aps: int, seed: int) -> Trace:
    """The same movement with `aps` access points drawn again from the trace's places; what the trace recorded
    of its old ones goes with them."""
    chosen = draw_places(len(trace.place_x_m), aps, seed)
    return replace(
        trace,
        ap_names=ap_names(aps),
        ap_x_m=trace.place_x_m[chosen],
        ap_y_m=trace.place_y_m[chosen],
        ap=None,
        provenance=trace.derived({"with_aps": {"aps": aps, "seed": seed}}),
    )


def draw_places(places: int, aps: int, seed: int, draw: ApDraw = "pcg64") -> npt.NDArray[np.int64]:
    """Indices of `aps` of `places` places; `pcg64`: Generator(PCG64(seed)).choice, no place twice, sorted.

    `mohawk` draws what numpy.random.seed(seed) and pandas' sample(n=aps) draw, in the order drawn: the same
    seed gives other places than `pcg64`.
    """
    if not 1 <= aps <= places:
        raise TraceError(f"cannot draw {aps} access points from {places} places")
    if draw == "mohawk":
        # pandas.sample hands the legacy global generator's `choice` the number of rows; its stream is frozen.
        legacy = np.random.RandomState(seed)
        return legacy.choice(places, aps, replace=False).astype(np.int64)
    chosen = np.random.Generator(np.random.PCG64(seed)).choice(places, aps, replace=False)
    return np.sort(chosen).astype(np.int64)


def ap_names(aps: int) -> tuple[str, ...]:
    """ "AP0", "AP1" and so on."""
    return tuple(f"AP{index}" for index in range(aps))


def _ranking(trace: Trace) -> npt.NDArray[np.int64]:
    total = len(trace.device_names)
    hours = np.bincount(trace.device, minlength=total)
    first = np.full(total, trace.steps, np.int64)
    np.minimum.at(first, trace.device, trace.step)
    return ranking_by(hours, first)


def ranking_by(hours: npt.NDArray[np.int64], first: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The devices by rank, from the number of steps in which each is present and the first of them."""
    return np.lexsort((np.arange(len(hours)), first, -hours)).astype(np.int64)


def _with_marks(trace: Trace, first: int, steps: int) -> Trace:
    """The trace with its marked outages in the steps of a window; only its provenance is right."""
    if "outages" not in trace.provenance:
        return trace
    marks = clipped(marked_outages(trace), first, steps)
    return replace(trace, provenance={**trace.provenance, "outages": marks})
