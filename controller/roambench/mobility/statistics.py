"""Statistics of a trace: the numbers that decide how a learning system fares on it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roambench.mobility.association import FixedAp, NearestAp, RingWalkAp, distance_statistics
from roambench.mobility.outages import empty_because, marked_outages
from roambench.mobility.trace import Trace

#: Within this distance of its AP a device is on Wi-Fi (MOHAWK §3.2).
WIFI_M = 100.0
_DAY_S = 86_400.0
_FIRST_RECORDING_S = 100_000_000  # 1973: times before count from the start of a simulation
_DENSE_CELLS = 50_000_000  # (step, AP) pairs that are counted in one array; beyond, by sorting


@dataclass(frozen=True, slots=True)
class Distribution:
    """Order statistics of a sample; all NaN for an empty one."""

    min: float
    p5: float
    p25: float
    median: float
    mean: float
    p75: float
    p90: float
    p95: float
    max: float
    sd: float  # population


_NONE = Distribution(*[math.nan] * 10)


@dataclass(frozen=True, slots=True)
class AggregatedModels:
    """Models that a hierarchy could aggregate if no device ever failed: presence alone decides it."""

    per_step: float  # mean number of models aggregated at steps 1 .. steps - 1
    trainings: int
    wasted_share: float  # of the trainings, those whose model no edge aggregation used


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """`trace_statistics` of one trace. Distances in metres, gaps in steps.

    What is said of access points is said of the nearest ones, or of those that the trace records.
    """

    steps: int
    step_s: float
    devices: int
    devices_before_cut: int  # that existed before the busiest were chosen; `devices` where nothing was cut
    places: int
    aps: int
    fixes: int
    made_up: bool  # access points stand nowhere: what is said of distances is NaN
    present: Distribution  # devices per step
    present_mean_nonempty: float  # the mean over steps with any device
    empty_steps: int
    outage_steps: int | None  # of the empty ones those that the trace marks as its recorder's; None: no marks
    outages: int | None  # runs of them
    empty_because: Mapping[str, int] | None  # the empty ones by the import's reason for each; None: untold
    steps_per_device: Distribution
    recorded_aps: bool  # the trace records its APs, and the next five are about these
    occupied_aps: Distribution  # APs with at least one device, per non-empty step
    devices_per_occupied_ap: Distribution
    busiest_ap_share: float  # of all fixes
    ap_change_rate: float  # share of consecutive appearances of a device at another AP
    ap_change_rate_next_step: float  # the same over appearances in consecutive steps
    gap_steps: Distribution  # between consecutive appearances of a device (1: the very next step)
    nearest_m: Distribution
    share_on_wifi: float  # within WIFI_M of the nearest AP
    fixed_m: Distribution
    ring_walk_mean_m: float
    ring_walk_sd_m: float
    hierfavg: AggregatedModels
    mohawk_k2_2: AggregatedModels
    mohawk_k2_5: AggregatedModels
    mohawk_k2_10: AggregatedModels
    hour_profile: tuple[float, ...]  # mean number present by local hour 0 .. 23; NaN for an hour never seen
    utc_offset_h: float | None  # None: unknown, the hours are UTC
    solar_offset_h: int | None  # by the box's longitude, to the hour; None: it has no longitude


def trace_statistics(trace: Trace, *, seed: int = 0, utc_offset_h: float | None = None) -> TraceStatistics:
    """All statistics of `trace`; `seed` keys MACFL's ring walk.

    `utc_offset_h` shifts the hour profile to local time; None takes the trace's own (provenance). Recorded
    movement that says none has none.
    Raises TraceError for a trace without access points or without a single fix.
    """
    nearest, fixed, ring = NearestAp(trace), FixedAp(trace), RingWalkAp(trace, seed)
    per_step = np.bincount(trace.step, minlength=trace.steps)
    ring_mean_m, ring_sd_m = (math.nan, math.nan) if trace.made_up else distance_statistics(ring)
    aps = nearest.aps if trace.ap is None else trace.ap
    occupied_aps, devices_per_ap = _occupation(trace, aps)
    appearances = _appearances(trace)
    changed = aps[appearances.later] != aps[appearances.earlier]
    gaps = trace.step[appearances.later] - trace.step[appearances.earlier]
    outages = marked_outages(trace)
    marked = {at for first, length in outages for at in range(first, min(first + length, trace.steps))}
    if utc_offset_h is None:
        utc_offset_h = stated_offset_h(trace)
    return TraceStatistics(
        steps=trace.steps,
        step_s=trace.step_s,
        devices=len(trace.device_names),
        devices_before_cut=_devices_before_cut(trace),
        places=len(trace.place_x_m),
        aps=len(trace.ap_names),
        fixes=len(trace.step),
        made_up=trace.made_up,
        present=distribution(per_step),
        present_mean_nonempty=float(per_step[per_step > 0].mean()),
        empty_steps=int((per_step == 0).sum()),
        outage_steps=sum(1 for step in marked if per_step[step] == 0) if outages else None,
        outages=len(outages) if outages else None,
        empty_because=empty_because(trace),
        steps_per_device=distribution(np.bincount(trace.device, minlength=len(trace.device_names))),
        recorded_aps=trace.ap is not None,
        occupied_aps=distribution(occupied_aps),
        devices_per_occupied_ap=distribution(devices_per_ap),
        busiest_ap_share=float(np.bincount(aps).max() / len(aps)),
        ap_change_rate=_mean(changed),
        ap_change_rate_next_step=_mean(changed[gaps == 1]),
        gap_steps=distribution(gaps),
        nearest_m=_NONE if trace.made_up else distribution(nearest.distances_m),
        share_on_wifi=math.nan if trace.made_up else float((nearest.distances_m <= WIFI_M).mean()),
        fixed_m=_NONE if trace.made_up else distribution(fixed.distances_m),
        ring_walk_mean_m=ring_mean_m,
        ring_walk_sd_m=ring_sd_m,
        hierfavg=_next_step_of(trace, appearances),
        mohawk_k2_2=_dynamic_of(trace, appearances, 2),
        mohawk_k2_5=_dynamic_of(trace, appearances, 5),
        mohawk_k2_10=_dynamic_of(trace, appearances, 10),
        hour_profile=_hour_profile(trace, per_step, utc_offset_h or 0.0),
        utc_offset_h=utc_offset_h,
        solar_offset_h=_solar_offset_h(trace),
    )


def distribution(sample: npt.NDArray[np.integer] | npt.NDArray[np.floating]) -> Distribution:
    """Mean, spread and quantiles of a sample, NaN of an empty one."""
    if not len(sample):
        return _NONE
    low, p5, p25, median, p75, p90, p95, high = np.quantile(
        sample, (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
    ).tolist()
    return Distribution(low, p5, p25, median, float(sample.mean()), p75, p90, p95, high, float(sample.std()))


def aggregated_at_next_step(trace: Trace) -> AggregatedModels:
    """HierFAVG and MACFL: of the devices that train at t those present at t + 1 are aggregated.

    Everybody present trains, except at the last step.
    """
    return _next_step_of(trace, _appearances(trace))


def aggregated_dynamically(trace: Trace, k2: int) -> AggregatedModels:
    """MOHAWK, Alg. 1: a device present at t that trained since the last cloud aggregation is aggregated.

    Per step: present devices in Tr are aggregated and leave Tr; when t % k2 == 0 (t > 0) Tr is cleared; then
    everybody present trains and enters Tr, except at the last step.
    """
    return _dynamic_of(trace, _appearances(trace), k2)


def aggregated_per_step(trace: Trace, k2: int | None = None) -> npt.NDArray[np.int64]:
    """Count the models that each step aggregates, shape (steps,): `k2` as `aggregated_dynamically`, None as
    `aggregated_at_next_step`.
    """
    appearances = _appearances(trace)
    rows = appearances.later[_used(trace, appearances, k2)]
    return np.bincount(trace.step[rows], minlength=trace.steps).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Appearances:
    """Rows of consecutive appearances of one device each, by device and step: shape (pairs,)."""

    earlier: npt.NDArray[np.intp]
    later: npt.NDArray[np.intp]


def _appearances(trace: Trace) -> _Appearances:
    order = np.argsort(trace.device, kind="stable")  # the columns are sorted by step already
    same_device = np.diff(trace.device[order]) == 0
    return _Appearances(order[:-1][same_device], order[1:][same_device])


def _used(trace: Trace, appearances: _Appearances, k2: int | None) -> npt.NDArray[np.bool_]:
    """Tell for every pair of appearances if the later one aggregates the model trained at the earlier one.

    The cloud's clearing in step s comes after that step's edge aggregation and before its training: a model
    of step t is still there in step u unless a multiple of k2 lies in t + 1 .. u - 1.
    """
    earlier, later = trace.step[appearances.earlier], trace.step[appearances.later]
    if k2 is None:
        return np.asarray(later - earlier == 1)
    return np.asarray((later - 1) // k2 == earlier // k2)


def _next_step_of(trace: Trace, appearances: _Appearances) -> AggregatedModels:
    return _aggregated(trace, int(_used(trace, appearances, None).sum()))


def _dynamic_of(trace: Trace, appearances: _Appearances, k2: int) -> AggregatedModels:
    return _aggregated(trace, int(_used(trace, appearances, k2).sum()))


def _aggregated(trace: Trace, aggregated: int) -> AggregatedModels:
    trainings = int((trace.step < trace.steps - 1).sum())
    wasted = 1.0 - aggregated / trainings if trainings else float("nan")
    return AggregatedModels(aggregated / max(1, trace.steps - 1), trainings, wasted)


def _occupation(
    trace: Trace, aps: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Occupied APs of every non-empty step, and the devices at every (step, occupied AP)."""
    columns = len(trace.ap_names)
    cells = trace.step.astype(np.int64) * columns + aps
    if trace.steps * columns <= _DENSE_CELLS:
        counts = np.bincount(cells, minlength=trace.steps * columns)
        occupied = np.flatnonzero(counts)
        devices = counts[occupied]
    else:
        occupied, devices = np.unique(cells, return_counts=True)
    per_step = np.bincount(occupied // columns, minlength=trace.steps)
    return per_step[per_step > 0], devices


def _devices_before_cut(trace: Trace) -> int:
    counts, derived = trace.provenance.get("counts"), trace.provenance.get("derived")
    stated = counts.get("devices_before_cut") if isinstance(counts, Mapping) else None
    for made in derived if isinstance(derived, Sequence) else ():
        cut = made.get("busiest_devices") if isinstance(made, Mapping) else None
        if isinstance(cut, Mapping) and stated is None:
            stated = cut.get("of")
    return stated if isinstance(stated, int) else len(trace.device_names)


def stated_offset_h(trace: Trace) -> float | None:
    """Offset of the trace's local time from UTC, h, if it states one; a generator's or simulator's clock is
    local."""
    stated = trace.provenance.get("utc_offset_h")
    if isinstance(stated, int | float):
        return float(stated)
    recorded = trace.provenance.get("made_by") == "import" and trace.start_utc_s > _FIRST_RECORDING_S
    return None if recorded else 0.0


def _solar_offset_h(trace: Trace) -> int | None:
    recipe = trace.provenance.get("recipe")
    box = recipe.get("box") if isinstance(recipe, Mapping) else None
    longitude = box.get("longitude") if isinstance(box, Mapping) else None
    return round(longitude / 15.0) if isinstance(longitude, int | float) else None


def _mean(flags: npt.NDArray[np.bool_]) -> float:
    return float(flags.mean()) if len(flags) else float("nan")


def _hour_profile(trace: Trace, per_step: npt.NDArray[np.int64], utc_offset_h: float) -> tuple[float, ...]:
    local_s = trace.start_utc_s + np.arange(trace.steps) * trace.step_s + utc_offset_h * 3600.0
    hours = (local_s % _DAY_S // 3600.0).astype(np.int64)
    steps = np.bincount(hours, minlength=24)
    means = np.bincount(hours, weights=per_step, minlength=24) / np.maximum(steps, 1)
    return tuple(np.where(steps > 0, means, np.nan).tolist())
