"""What a trace is like, in the numbers that decide how a learning system fares on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roambench.mobility.association import FixedAp, NearestAp, RingWalkAp, distance_statistics
from roambench.mobility.trace import Trace

#: Within this distance of its AP a device is on Wi-Fi (MOHAWK §3.2).
WIFI_M = 100.0
_DAY_S = 86_400.0


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


@dataclass(frozen=True, slots=True)
class AggregatedModels:
    """What a hierarchy could aggregate if nobody ever failed: presence alone decides it."""

    per_step: float  # mean number of models aggregated at steps 1 .. steps - 1
    trainings: int
    wasted_share: float  # of the trainings, those whose model no edge aggregation used


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """`trace_statistics` of one trace. Distances in metres, gaps in steps."""

    steps: int
    step_s: float
    devices: int
    places: int
    aps: int
    fixes: int
    present: Distribution  # devices per step
    empty_steps: int
    steps_per_device: Distribution
    occupied_aps: Distribution  # nearest APs with at least one device, per non-empty step
    devices_per_occupied_ap: Distribution
    ap_change_rate: float  # share of consecutive appearances of a device with another nearest AP
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
    utc_offset_h: float


def trace_statistics(trace: Trace, *, seed: int = 0, utc_offset_h: float | None = None) -> TraceStatistics:
    """All statistics of `trace`; `seed` keys MACFL's ring walk.

    `utc_offset_h` shifts the hour profile to local time; None takes the trace's own (provenance), else 0.
    Raises TraceError for a trace without access points or without a single fix.
    """
    nearest, fixed, ring = NearestAp(trace), FixedAp(trace), RingWalkAp(trace, seed)
    per_step = np.bincount(trace.step, minlength=trace.steps)
    ring_mean_m, ring_sd_m = distance_statistics(ring)
    occupied = np.unique(trace.step.astype(np.int64) * len(trace.ap_names) + nearest.aps, return_counts=True)
    change_rate, gaps = _between_appearances(trace, nearest.aps)
    if utc_offset_h is None:
        stated = trace.provenance.get("utc_offset_h", 0.0)
        utc_offset_h = float(stated) if isinstance(stated, int | float) else 0.0
    return TraceStatistics(
        steps=trace.steps,
        step_s=trace.step_s,
        devices=len(trace.device_names),
        places=len(trace.place_x_m),
        aps=len(trace.ap_names),
        fixes=len(trace.step),
        present=distribution(per_step),
        empty_steps=int((per_step == 0).sum()),
        steps_per_device=distribution(np.bincount(trace.device, minlength=len(trace.device_names))),
        occupied_aps=distribution(np.unique(occupied[0] // len(trace.ap_names), return_counts=True)[1]),
        devices_per_occupied_ap=distribution(occupied[1]),
        ap_change_rate=change_rate,
        gap_steps=distribution(gaps),
        nearest_m=distribution(nearest.distances_m),
        share_on_wifi=float((nearest.distances_m <= WIFI_M).mean()),
        fixed_m=distribution(fixed.distances_m),
        ring_walk_mean_m=ring_mean_m,
        ring_walk_sd_m=ring_sd_m,
        hierfavg=aggregated_at_next_step(trace),
        mohawk_k2_2=aggregated_dynamically(trace, 2),
        mohawk_k2_5=aggregated_dynamically(trace, 5),
        mohawk_k2_10=aggregated_dynamically(trace, 10),
        hour_profile=_hour_profile(trace, per_step, utc_offset_h),
        utc_offset_h=utc_offset_h,
    )


def distribution(sample: npt.NDArray[np.integer] | npt.NDArray[np.floating]) -> Distribution:
    if not len(sample):
        return Distribution(*([float("nan")] * 10))
    low, p5, p25, median, p75, p90, p95, high = np.quantile(
        sample, (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
    ).tolist()
    return Distribution(low, p5, p25, median, float(sample.mean()), p75, p90, p95, high, float(sample.std()))


def aggregated_at_next_step(trace: Trace) -> AggregatedModels:
    """HierFAVG and MACFL: of the devices that train at t those present at t + 1 are aggregated.

    Everybody present trains, except at the last step.
    """
    aggregated = sum(
        len(np.intersect1d(trace.present(step - 1), trace.present(step), assume_unique=True))
        for step in range(1, trace.steps)
    )
    return _aggregated(trace, aggregated)


def aggregated_dynamically(trace: Trace, k2: int) -> AggregatedModels:
    """MOHAWK, Alg. 1: a device present at t that trained since the last cloud aggregation is aggregated.

    Per step: present devices in Tr are aggregated and leave Tr; when t % k2 == 0 (t > 0) Tr is cleared; then
    everybody present trains and enters Tr, except at the last step.
    """
    outstanding = np.zeros(len(trace.device_names), np.bool_)
    aggregated = 0
    for step in range(trace.steps):
        present = trace.present(step)
        aggregated += int(outstanding[present].sum())
        outstanding[present] = False
        if step and step % k2 == 0:
            outstanding[:] = False
        outstanding[present] = True
    return _aggregated(trace, aggregated)


def _aggregated(trace: Trace, aggregated: int) -> AggregatedModels:
    trainings = int((trace.step < trace.steps - 1).sum())
    wasted = 1.0 - aggregated / trainings if trainings else float("nan")
    return AggregatedModels(aggregated / max(1, trace.steps - 1), trainings, wasted)


def _between_appearances(trace: Trace, aps: npt.NDArray[np.int32]) -> tuple[float, npt.NDArray[np.int32]]:
    """Share of consecutive appearances of a device at another AP, and their distances in steps."""
    order = np.lexsort((trace.step, trace.device))
    same_device = np.diff(trace.device[order]) == 0
    changed = (np.diff(aps[order]) != 0)[same_device]
    gaps = np.diff(trace.step[order])[same_device]
    return (float(changed.mean()) if len(changed) else float("nan")), gaps


def _hour_profile(trace: Trace, per_step: npt.NDArray[np.int64], utc_offset_h: float) -> tuple[float, ...]:
    local_s = trace.start_utc_s + np.arange(trace.steps) * trace.step_s + utc_offset_h * 3600.0
    hours = (local_s % _DAY_S // 3600.0).astype(np.int64)
    steps = np.bincount(hours, minlength=24)
    means = np.bincount(hours, weights=per_step, minlength=24) / np.maximum(steps, 1)
    return tuple(np.where(steps > 0, means, np.nan).tolist())
