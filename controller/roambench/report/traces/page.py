"""Page about a trace: maps, presence, distances, and MOHAWK's Fig. 2, Fig. 3 and Table 5."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roambench.contract.counts import count
from roambench.mobility.paper import CHECKIN_TARGETS, PAPER_TARGETS, PaperTarget
from roambench.mobility.statistics import AggregatedModels, TraceStatistics
from roambench.mobility.trace import MADE_UP, Trace
from roambench.report.figures.figure import Figure
from roambench.report.numbers import NONE, number
from roambench.report.pages.page import Parts, document, folded
from roambench.report.table import ReportTable


def trace_page(
    name: str, trace: Trace, found: TraceStatistics, figures: Sequence[Figure], content_hash: str
) -> str:
    """The whole document, self-contained. `figures`: `trace_figures` of the same trace."""
    parts = Parts([table5(found)], figures)
    made = trace.provenance.get("made_by", "unknown")
    lost = "outages not marked" if found.outage_steps is None else f"{found.outage_steps} of them outages"
    if found.empty_because is not None:
        lost = ", ".join(f"{steps}: {why}" for why, steps in found.empty_because.items() if steps)
    empty = f"{found.empty_steps} steps are empty" + (f" ({lost})" if found.empty_steps and lost else "")
    facts = (
        f"{count(found.steps, 'step')} of {found.step_s:g} s, {count(found.devices, 'device')}, "
        f"{found.fixes:,} fixes",
        f"{found.aps:,} access points, {found.places:,} candidate places",
        *([MADE_UP] if found.made_up else []),
        f"present per step: mean {found.present.mean:.3g}, at most {found.present.max:g}; {empty}",
        f"made by {made}; content hash {content_hash}",
    )
    sections = [
        ("Places", "places", parts.at("fig2", "trace-map", "presence-map")),
        ("Presence", "presence", parts.at("fig3", "mean-day", "steps-per-device")),
        ("Access points", "aps", parts.at("table5", "ap-distance", "ap-occupancy")),
        ("Beside published traces", "targets", folded(target_tables(found))),
    ]
    return document(f"roambench: {name}", name, sections, facts=facts, kind="trace")


def table5(found: TraceStatistics) -> ReportTable:
    """MOHAWK's Table 5 made of this trace, the paper's figures in brackets."""

    def cell(ours: float, paper: float) -> str:
        return f"{number(ours)} ({paper:g})"

    def gain(models: AggregatedModels, paper: float) -> str:
        if not models.per_step:
            return NONE
        return f"+{100 * (1 - found.hierfavg.per_step / models.per_step):.2f} % (+{paper} %)"

    def spread(mean_m: float, sd_m: float, paper: str) -> str:
        return f"{number(mean_m / 1e3)} ± {number(sd_m / 1e3)} ({paper})"

    baseline = cell(found.hierfavg.per_step, 15)
    rows = [
        (
            "models aggregated per step",
            k2,
            baseline,
            baseline,
            cell(models.per_step, ours),
            gain(models, paper),
        )
        for k2, models, ours, paper in (
            ("2", found.mohawk_k2_2, 18, 12.84),
            ("5", found.mohawk_k2_5, 22, 29.69),
            ("10", found.mohawk_k2_10, 26, 39.78),
        )
    ]
    baselines_m = (found.fixed_m.mean + found.ring_walk_mean_m) / 2
    rows.append(
        (
            "distance to the access point, km",
            "-",
            spread(found.fixed_m.mean, found.fixed_m.sd, "7.08 ± 3.92"),
            spread(found.ring_walk_mean_m, found.ring_walk_sd_m, "7.01 ± 3.83"),
            spread(found.nearest_m.mean, found.nearest_m.sd, "0.91 ± 0.75"),
            f"{baselines_m / found.nearest_m.mean:.2f} × (7.74 ×)" if found.nearest_m.mean > 0 else NONE,
        )
    )
    return ReportTable(
        "table5",
        "Table 5: models aggregated per step and distances, this trace (the paper)",
        "If no device ever fails. The paper's improvement in models fits 1 - baseline / MOHAWK.",
        ("", "k2", "HierFAVG", "MACFL", "MOHAWK", "improvement"),
        tuple(rows),
    )


def target_tables(found: TraceStatistics) -> list[ReportTable]:
    """Published figures beside this trace's."""
    return [
        _targets("targets-mohawk", "MOHAWK (IoTDI 2023)", PAPER_TARGETS, found),
        _targets("targets-checkins", "New York's check-ins (TSMC2014)", CHECKIN_TARGETS, found),
    ]


def _targets(key: str, title: str, targets: Sequence[PaperTarget], found: TraceStatistics) -> ReportTable:
    rows = []
    for target in targets:
        published = _short(target.paper) + ("" if target.to is None else f" to {_short(target.to)}")
        off = target.deviation(found)
        unit = f", {target.unit}" if target.unit not in ("", "steps") else ""
        rows.append(
            (
                f"{target.label}{unit}",
                published,
                _short(target.ours(found)),
                NONE if math.isnan(off) else f"{100 * off:+.1f} %",
                target.source,
            )
        )
    return ReportTable(key, title, "", ("", "published", "this trace", "off by", "where"), tuple(rows))


def _short(value: float) -> str:
    """Whole numbers as they are, others to three significant figures."""
    if not math.isfinite(value):
        return NONE
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"
