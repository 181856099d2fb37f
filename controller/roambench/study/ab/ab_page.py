"""A comparison as one self-contained page, in the look of the other reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import plotly.graph_objects as go

from roambench.contract.counts import count
from roambench.report import numbers
from roambench.report.figures.figure import Figure, drawn, names_axis, safe, wrapped_names
from roambench.report.figures.look import MUTED, RUN_COLOURS
from roambench.report.pages.page import Parts, document, folded, warnings
from roambench.report.spread import interval_text
from roambench.report.table import ReportTable
from roambench.study.ab.ab_files import interval_cell, results_table, verdict
from roambench.study.ab.ab_plan import AbPlan, ArmName
from roambench.study.ab.ab_results import AbTable, Ended
from roambench.study.campaign.cooling import Cooled


def ab_page(
    plan: AbPlan,
    table: AbTable,
    ended: Ended,
    starts: Mapping[tuple[ArmName, int], Cooled],
    notes: Sequence[str],
) -> str:
    """The document; nothing in it is loaded from anywhere."""
    parts = Parts([results_table(plan, table)], [factor_figure(plan, table)])
    a, b = plan.labels["A"], plan.labels["B"]
    lead = (
        f"{a} against {b}: {table.whole_pairs} of {plan.pairs} pairs of runs on the {plan.asked.fleet} "
        f"fleet, in the order {order_of(plan)}."
    )
    claims = [
        f"{row.compared.title}: {verdict(row.found, plan.labels)}, "
        f"{interval_text(row.found.a, share=row.compared.share)} against "
        f"{interval_text(row.found.b, share=row.compared.share)}"
        for row in table.rows
        if row.found.resolved
    ]
    verdicts = ("verdicts", claims or ["nothing is resolved"])
    sections = [
        ("Verdicts", "verdicts", [verdicts, *warnings((), notes)]),
        ("How much better", "factors", parts.at("factors", "ab")),
        ("What differs", "differences", folded([_differences(plan)] if plan.differences else [])),
        ("Every run", "runs", folded([_runs(plan, ended, starts)])),
    ]
    heading, footer = finding_of(plan, table), f"roambench {version('roambench')}."
    return document(heading, heading, sections, lead=lead, footer=footer)


def finding_of(plan: AbPlan, table: AbTable) -> str:
    """Return what one wasted beside the other: joules, else trainings; without either, who is compared."""
    wastes = {
        "wasted_j": "energy",
        "modelled_wasted_j": "energy (modelled)",
        "wasted_share": "share of trainings",
    }
    found = {row.compared.name: row.found for row in table.rows}
    a, b = plan.labels["A"], plan.labels["B"]
    name = next((name for name in wastes if name in found and found[name].factor), None)
    if name is None:
        return f"{a} against {b}"
    beside, waste = found[name], wastes[name]
    factor, winner, pairs = beside.factor or 1.0, beside.winner, count(beside.pairs, "pair")
    if "no claim" in beside.doubt:
        return f"The wasted {waste} of {a} and {b}, {beside.doubt}"
    if not winner:
        shown = f"{factor:.3f} × {interval_cell(beside.factor_interval)}"
        return f"The wasted {waste} of {b} is {shown} that of {a}: {beside.doubt} in {pairs} of runs"
    more, less, times = (b, a, factor) if winner == "A" else (a, b, 1.0 / factor)
    return f"{more} wasted {times:.2f} × the {waste} of {less}, in {pairs} of runs"


def order_of(plan: AbPlan) -> str:
    """ABBA ABBA."""
    arms = "".join(turn.arm for turn in plan.turns)
    return " ".join(arms[at : at + 4] for at in range(0, len(arms), 4))


def factor_figure(plan: AbPlan, table: AbTable) -> Figure | None:
    """Each factor with its interval around the line where A and B are equal; None without any."""
    rows = [row for row in table.rows if row.found.factor is not None]
    if not rows:
        return None
    traces = []
    for colour, symbol, name, winner in (
        (RUN_COLOURS[2], "circle", "A is better", "A"),
        (RUN_COLOURS[1], "square", "B is better", "B"),
        (MUTED, "circle-open", "not resolved", ""),
    ):
        chosen = [row for row in rows if row.found.winner == winner]
        if not chosen:
            continue
        factors = [row.found.factor or 0.0 for row in chosen]
        intervals = [row.found.factor_interval for row in chosen]
        above = [i.high - f if i else 0.0 for i, f in zip(intervals, factors, strict=True)]
        below = [f - i.low if i else 0.0 for i, f in zip(intervals, factors, strict=True)]
        traces.append(
            go.Scatter(
                mode="markers",
                name=name,
                x=factors,
                y=[safe(row.compared.title) for row in chosen],
                error_x={"array": above, "arrayminus": below, "color": colour, "thickness": 1.5},
                marker={"color": colour, "symbol": symbol, "size": 10},
                hovertemplate="%{y}: %{x:.3f} ×<extra></extra>",
            )
        )
    names = [row.compared.title for row in rows]
    across = {"title": "A is better by, times (log)", "type": "log"}
    return drawn(
        "factors",
        f"How many times better A ({plan.labels['A']}) is than B ({plan.labels['B']})",
        "Of costs B ÷ A, of scores A ÷ B, with 95 % intervals. Right of the dotted line A is better. The "
        "axis is logarithmic: twice as good is as far to the right as half as good is to the left.",
        traces,
        130 + 30 * len(rows),
        xaxis=across,
        yaxis=names_axis(names),
        narrow={
            "height": 130 + 48 * len(names),
            "xaxis": across | {"nticks": 4, "tickangle": 0},
            "yaxis": names_axis(names) | wrapped_names(names),
        },
        shapes=[{"x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1}],
    )


def _differences(plan: AbPlan) -> ReportTable:
    return ReportTable(
        "ab-differences",
        "What differs between A and B",
        "Keys of the resolved experiments, but for names and seeds.",
        ("key", "A", "B"),
        plan.differences,
        numeric_from=999,
    )


def _runs(plan: AbPlan, ended: Ended, starts: Mapping[tuple[ArmName, int], Cooled]) -> ReportTable:
    rows = []
    for turn in plan.turns:
        cooled = starts.get((turn.arm, turn.pair))
        warm = numbers.NONE if cooled is None or cooled.highest_c is None else f"{cooled.highest_c:.1f} °C"
        rows.append(
            (
                f"{turn.arm}{turn.pair}",
                str(turn.point.seed),
                "finished" if (turn.arm, turn.pair) in ended else "open",
                numbers.NONE if cooled is None else numbers.seconds(cooled.waited_s),
                warm,
                cooled.note if cooled is not None else "",
                f"points/{turn.point.folder_name}",
            )
        )
    return ReportTable(
        "ab-runs",
        "Every run, in the order they were run",
        "Waited: before it began, for the boards to cool; then the warmest board.",
        ("run", "seed", "state", "waited", "began at", "note", "folder"),
        tuple(rows),
        numeric_from=3,
        text_from=5,
    )
