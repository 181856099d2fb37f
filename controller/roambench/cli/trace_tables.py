"""Tables of `roambench trace stats` and `show`, made of a trace's own numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from roambench.mobility.association import Placement
from roambench.mobility.paper import CHECKIN_TARGETS, PAPER_TARGETS, PaperTarget
from roambench.mobility.statistics import AggregatedModels, Distribution, TraceStatistics
from roambench.mobility.trace import MADE_UP, Trace
from roambench.report.table import ReportTable

_QUANTILES = ("min", "p5", "p25", "median", "mean", "p75", "p90", "p95", "max", "sd")
_BAR = 40  # characters of the longest bar


def statistics_tables(found: TraceStatistics) -> list[ReportTable]:
    """Everything `trace_statistics` gives, and published figures beside ours."""
    return [
        _counts(found),
        _distributions(found),
        _aggregated(found),
        _hours(found),
        target_table("Beside MOHAWK (IoTDI 2023)", PAPER_TARGETS, found),
        target_table("Beside New York's check-ins (TSMC2014, 17.5 km, 744 h)", CHECKIN_TARGETS, found),
    ]


def target_table(title: str, targets: Sequence[PaperTarget], found: TraceStatistics) -> ReportTable:
    """A table of a trace's statistics beside the paper's."""
    rows = []
    for target in targets:
        published = number(target.paper) + ("" if target.to is None else f" to {number(target.to)}")
        off = target.deviation(found)
        rows.append(
            (
                target.label,
                published,
                number(target.ours(found)),
                "--" if math.isnan(off) else f"{100 * off:+.0f} %" if abs(off) >= 0.005 else "0",
                target.unit,
                target.source,
            )
        )
    head = ("", "published", "this trace", "off by", "unit", "where")
    return ReportTable("targets", title, "", head, tuple(rows), text_from=4)


def statistics_document(found: TraceStatistics, content_hash: str) -> dict[str, Any]:
    """The same for JSON: the statistics by their names, the targets, the trace's hash."""
    targets = {
        name: [
            {
                "label": target.label,
                "published": target.paper if target.to is None else [target.paper, target.to],
                "this_trace": target.ours(found),
                "deviation": target.deviation(found),
                "unit": target.unit,
                "where": target.source,
            }
            for target in rows
        ]
        for name, rows in (("mohawk", PAPER_TARGETS), ("new_york_checkins", CHECKIN_TARGETS))
    }
    return {"content_hash": content_hash, "statistics": asdict(found), "targets": targets}


def overview_document(trace: Trace, content_hash: str) -> dict[str, Any]:
    """Return what `overview_table` shows, with the devices present at every step."""
    return {
        "steps": trace.steps,
        "step_s": trace.step_s,
        "start_utc_s": trace.start_utc_s or None,
        "devices": len(trace.device_names),
        "fixes": len(trace.step),
        "access_points": len(trace.ap_names),
        "candidate_places": len(trace.place_x_m),
        "content_hash": content_hash,
        "provenance": dict(trace.provenance),
        "present": [len(trace.present(step)) for step in range(trace.steps)],
    }


def step_document(trace: Trace, placement: Placement) -> dict[str, Any]:
    """Return what `step_table` shows; positions of a trace that has none are null."""
    rows = trace.rows(placement.step)
    known = not trace.made_up
    columns = zip(
        placement.devices, trace.x_m[rows], trace.y_m[rows], placement.aps, placement.distances_m, strict=True
    )
    return {
        "step": placement.step,
        "devices": len(trace.device_names),
        "present": [
            {
                "device": trace.device_names[device],
                "x_m": float(x_m) if known else None,
                "y_m": float(y_m) if known else None,
                "ap": trace.ap_names[at],
                "distance_m": float(distance_m) if known else None,
            }
            for device, x_m, y_m, at, distance_m in columns
        ],
    }


def overview_table(trace: Trace, content_hash: str) -> ReportTable:
    """Counts, provenance, and a bar of the devices present for every step (up to 240, then means)."""
    rows = [
        ("steps", f"{trace.steps} of {trace.step_s:g} s, from {_when(trace, 0)}"),
        ("devices", str(len(trace.device_names))),
        ("fixes", str(len(trace.step))),
        ("access points", f"{len(trace.ap_names)} ({len(trace.place_x_m)} candidate places)"),
        ("content hash", content_hash),
    ]
    for key, value in trace.provenance.items():
        rows.append(
            (key.replace("_", " "), value if isinstance(value, str) else json.dumps(value, default=str))
        )
    rows.append(("", ""))
    present = [len(trace.present(step)) for step in range(trace.steps)]
    most = max([1, *present])
    together = max(1, math.ceil(trace.steps / 240))
    for first in range(0, trace.steps, together):
        part = present[first : first + together]
        mean = sum(part) / len(part)
        rows.append((_when(trace, first), f"{'█' * round(_BAR * mean / most)} {number(mean)}"))
    return ReportTable("overview", "", "", ("", ""), tuple(rows), numeric_from=2)


def step_table(trace: Trace, placement: Placement) -> ReportTable:
    """Every device present at the placement's step, with its AP: the recorded one, else the nearest."""
    step = placement.step
    title = (
        f"Step {step}, {_when(trace, step)}: {len(placement.devices)} of {len(trace.device_names)} present"
    )
    rows = trace.rows(step)
    positions = zip(
        placement.devices, placement.aps, trace.x_m[rows], trace.y_m[rows], placement.distances_m, strict=True
    )
    cells = tuple(
        (
            trace.device_names[device],
            trace.ap_names[at],
            "--" if trace.made_up else f"{x_m / 1e3:.3f}",
            "--" if trace.made_up else f"{y_m / 1e3:.3f}",
            "--" if trace.made_up else f"{distance_m:.0f}",
        )
        for device, at, x_m, y_m, distance_m in positions
    )
    ap = "nearest AP" if trace.ap is None else "recorded AP"
    return ReportTable("step", title, "", ("device", ap, "x km", "y km", "distance m"), cells, numeric_from=2)


def number(value: float) -> str:
    """Whole numbers with thousands separated, others to three significant figures; -- for NaN."""
    if math.isnan(value):
        return "--"
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _counts(found: TraceStatistics) -> ReportTable:
    rows = []
    rows.append(("steps", f"{found.steps} of {found.step_s:g} s"))
    rows.append(("empty steps", number(found.empty_steps)))
    if found.empty_because is not None:
        for reason, steps in found.empty_because.items():
            rows.append((f"of them: {reason}", number(steps)))
        marked = "no" if found.outages is None else f"{found.outage_steps} in {found.outages} runs"
        rows.append(("holes marked in the trace", marked))
    elif found.outage_steps is None or found.outages is None:
        rows.append(("of them outages of the recorder", "not marked"))
    else:
        rows.append(("of them outages of the recorder", f"{found.outage_steps} in {found.outages} runs"))
        rows.append(("of them without any device", number(found.empty_steps - found.outage_steps)))
    rows.append(("devices present, mean of non-empty steps", number(found.present_mean_nonempty)))
    rows.append(("devices before the busiest were kept", number(found.devices_before_cut)))
    for label, value in (
        ("devices", found.devices),
        ("fixes", found.fixes),
        ("candidate places", found.places),
        ("access points", found.aps),
    ):
        rows.append((label, number(value)))
    kind = "recorded" if found.recorded_aps else "nearest"
    rows.append((f"another {kind} AP at the next appearance", _percent(found.ap_change_rate)))
    rows.append(("... where that is in the next step", _percent(found.ap_change_rate_next_step)))
    rows.append((f"fixes at the busiest {kind} AP", _percent(found.busiest_ap_share)))
    rows.append(("within Wi-Fi reach of the nearest AP", _percent(found.share_on_wifi)))
    rows.append(
        (
            "distance to ring-walk AP, mean ± sd m",
            f"{number(found.ring_walk_mean_m)} ± {number(found.ring_walk_sd_m)}",
        )
    )
    caption = MADE_UP if found.made_up else ""
    return ReportTable("counts", "Trace", caption, ("", ""), tuple(rows))


def _percent(share: float) -> str:
    return "--" if math.isnan(share) else f"{share:.1%}"


def _distributions(found: TraceStatistics) -> ReportTable:
    rows: tuple[tuple[str, Distribution], ...] = (
        ("devices present per step", found.present),
        ("steps per device", found.steps_per_device),
        ("occupied APs per step", found.occupied_aps),
        ("devices per occupied AP", found.devices_per_occupied_ap),
        ("steps between appearances", found.gap_steps),
        ("nearest AP m", found.nearest_m),
        ("fixed AP m", found.fixed_m),
    )
    cells = tuple((name, *(number(getattr(sample, name)) for _, sample in rows)) for name in _QUANTILES)
    return ReportTable("distributions", "Distributions", "", ("", *(label for label, _ in rows)), cells)


def _aggregated(found: TraceStatistics) -> ReportTable:
    rows: tuple[tuple[str, AggregatedModels], ...] = (
        ("HierFAVG", found.hierfavg),
        ("MOHAWK k2 = 2", found.mohawk_k2_2),
        ("MOHAWK k2 = 5", found.mohawk_k2_5),
        ("MOHAWK k2 = 10", found.mohawk_k2_10),
    )
    cells = tuple(
        (label, number(models.per_step), number(models.trainings), f"{models.wasted_share:.1%}")
        for label, models in rows
    )
    title = "Models aggregated if no device ever failed"
    return ReportTable("aggregated", title, "", ("", "per step", "trainings", "wasted"), cells)


def _hours(found: TraceStatistics) -> ReportTable:
    zone = "UTC" if found.utc_offset_h is None else f"UTC{found.utc_offset_h:+g} h"
    title = f"Devices present by hour of the day ({zone})"
    caption = ""
    if found.utc_offset_h is None:
        solar = found.solar_offset_h
        caption = "The trace does not say its local time: give --utc-offset-h" + (
            "" if solar is None else f"; by the sun it is about UTC{solar:+d} h there"
        )
    most = max([1.0, *(mean for mean in found.hour_profile if not math.isnan(mean))])
    rows = []
    for hour, mean in enumerate(found.hour_profile):
        bar = "" if math.isnan(mean) else "█" * round(_BAR * mean / most)
        rows.append((f"{hour:02d}", f"{bar} {number(mean)}"))
    return ReportTable("hours", title, caption, ("", ""), tuple(rows), numeric_from=2)


def _when(trace: Trace, step: int) -> str:
    seconds = trace.start_utc_s + round(step * trace.step_s)
    if trace.start_utc_s:
        return datetime.fromtimestamp(seconds, UTC).strftime("%a %Y-%m-%d %H:%M")
    return f"day {seconds // 86400 + 1} {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}"
