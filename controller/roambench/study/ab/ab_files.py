"""A comparison's table for people and for programs: cells, terminal, JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from roambench.report.improvement import Improvement
from roambench.report.numbers import NONE
from roambench.report.spread import Interval, Spread, interval_text, places_of
from roambench.report.table import ReportTable
from roambench.study.ab.ab_figures import figures_of
from roambench.study.ab.ab_plan import AbPlan, ArmName
from roambench.study.ab.ab_results import AbTable, Ended, PairedFigure
from roambench.study.campaign.cooling import Cooled
from roambench.study.sweep.sweep_folder import PointEnd

#: Raised when a key changes its meaning or disappears; new keys do not raise it.
SCHEMA: Final = "roambench.ab/2"


def results_table(plan: AbPlan, table: AbTable) -> ReportTable:
    """One row per figure: both means with their intervals, the factor with its own, and the verdict."""
    a, b = plan.labels["A"], plan.labels["B"]
    return ReportTable(
        "ab",
        f"A ({a}) against B ({b})",
        f"{table.whole_pairs} pairs of runs. ± and [ ] are 95 % intervals (Student's t over the pairs); the "
        "factor's also holds what the meters may have wrong, as far as it does not cancel between A and B. "
        "Above 1 × A is better. Consumed: in download, training, upload and exchange; wasted: the part of it "
        "whose model was not used. Each interval is about its own row: of 20 rows with no true difference "
        "one will seem to have one.",
        ("figure", f"A: {a}", f"B: {b}", "A better by", "95 %", "verdict"),
        tuple(_cells(row, plan) for row in table.rows),
        text_from=5,
    )


def _cells(row: PairedFigure, plan: AbPlan) -> tuple[str, ...]:
    found, share = row.found, row.compared.share
    factor = NONE if found.factor is None else f"{found.factor:.3f} ×"
    return (
        row.compared.title,
        interval_text(found.a, share=share),
        interval_text(found.b, share=share),
        factor if found.factor is not None else difference_cell(found, share=share),
        interval_cell(found.factor_interval if found.factor is not None else None),
        verdict(found, plan.labels),
    )


def difference_cell(found: Improvement, *, share: bool = False) -> str:
    """B - A where there is no ratio: B + 6.0 ± 2.5."""
    scale, unit = (100.0, " %") if share else (1.0, "")
    interval = found.difference_interval
    half = 0.0 if interval is None else scale * interval.half
    places = places_of(half if half > 0.0 else scale * found.difference)
    shown = f"B {scale * found.difference:+,.{places}f}"
    return shown + (f" ± {half:,.{places}f}" if interval is not None else "") + unit


def verdict(found: Improvement, labels: Mapping[ArmName, str]) -> str:
    """A is better, or B; else the doubt."""
    if found.doubt:
        return found.doubt
    return f"{found.winner} ({labels['A' if found.winner == 'A' else 'B']}) is better"


def interval_cell(interval: Interval | None) -> str:
    """[0.981, 1.034]; a dash for none."""
    return NONE if interval is None else f"[{interval.low:.3f}, {interval.high:.3f}]"


def ab_document(
    plan: AbPlan,
    table: AbTable,
    ended: Ended,
    starts: Mapping[tuple[ArmName, int], Cooled],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Everything in plain JSON types; unknown is null."""
    return {
        "schema": SCHEMA,
        "a": {"label": plan.labels["A"], "file": plan.asked.a.name, "set": list(plan.asked.own("A"))},
        "b": {"label": plan.labels["B"], "file": plan.asked.b.name, "set": list(plan.asked.own("B"))},
        "fleet": plan.asked.fleet,
        "same_seed": plan.asked.same_seed,
        "repeats": plan.pairs,
        "whole_pairs": table.whole_pairs,
        "order": [f"{turn.arm}{turn.pair}" for turn in plan.turns],
        "differences": [{"key": key, "a": a, "b": b} for key, a, b in plan.differences],
        "notes": list(notes),
        "figures": {row.compared.name: _row(row) for row in table.rows},
        "runs": [
            {
                "arm": turn.arm,
                "pair": turn.pair,
                "seed": turn.point.seed,
                "folder": f"points/{turn.point.folder_name}",
                "finished": (turn.arm, turn.pair) in ended,
                "start": _start(starts.get((turn.arm, turn.pair))),
                "figures": _values(ended.get((turn.arm, turn.pair))),
            }
            for turn in plan.turns
        ],
    }


def _values(run: PointEnd | None) -> dict[str, float]:
    return {} if run is None else {name: figure.value for name, figure in figures_of(run).items()}


def _row(row: PairedFigure) -> dict[str, Any]:
    found = row.found
    return {
        "title": row.compared.title,
        "better": found.better,
        "pairs": found.pairs,
        "a": _mean(found.a),
        "b": _mean(found.b),
        "factor": found.factor,
        "factor_interval": _ends(found.factor_interval),
        "u_meter": None if math.isnan(found.u_meter) else found.u_meter,
        "difference": found.difference,
        "difference_interval": _ends(found.difference_interval),
        "resolved": found.resolved,
        "winner": found.winner or None,
        "doubt": found.doubt or None,
        "reason": found.reason or None,
    }


def _mean(mean: Spread) -> dict[str, Any]:
    return {
        "mean": mean.mean,
        "sd": mean.sd,
        "interval": _ends(mean.interval),
        "runs": mean.n,
        "u_meter": mean.u,
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _start(cooled: Cooled | None) -> dict[str, Any] | None:
    if cooled is None:
        return None
    return {
        "waited_s": round(cooled.waited_s, 1),
        "highest_c": cooled.highest_c,
        "where": cooled.where,
        "note": cooled.note,
    }
