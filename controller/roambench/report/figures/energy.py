"""Where the joules went, as Plotly figures: wasted and consumed, and every phase of the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.report.figures.figure import Figure, drawn, hover, safe
from roambench.report.figures.look import PAPER, PHASE_COLOURS, PHASE_PATTERNS, pattern
from roambench.report.joule_names import WASTED
from roambench.report.summaries.run import RunSummary

_AXES: Final[dict[str, Any]] = {
    "xaxis": {"title": "energy, J", "rangemode": "tozero"},
    "yaxis": {"showgrid": False, "ticks": "", "dividercolor": "var(--border)"},
}


def energy_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Consumed and wasted joules of every run, stacked by phase."""
    measured = [(run, run.measured) for run in reversed(runs) if run.measured is not None]
    if not measured:
        return None
    labels = [[safe(run.label)] * 2 for run, _ in measured]
    rows = [label for pair in labels for label in pair]
    kinds = [WASTED, "used"] * len(measured)  # the whole name does not fit on a phone
    traces = []
    for phase in Phase:
        if phase not in ACTIVE_PHASES:
            continue
        values: list[float] = []
        for _, energy in measured:
            spent = sum(item.gross.joules for item in energy.phases if item.phase is phase)
            values += [energy.wasted_by_phase.get(phase, 0.0), spent]
        if any(values):
            traces.append(_bar(phase, [rows, kinds], values))
    if not traces:
        return None
    totals = [
        total
        for _, energy in measured
        for total in (energy.gross.cumulative_wasted.joules, energy.gross.cumulative_consumed.joules)
    ]
    traces.append(
        go.Scatter(
            mode="text",
            y=[rows, kinds],
            x=totals,
            text=[f"  {total:,.0f} J" if total >= 100 else f"  {total:.1f} J" for total in totals],
            textposition="middle right",
            showlegend=False,
            hoverinfo="skip",
            cliponaxis=False,
        )
    )
    return drawn(
        "energy",
        "Energy used for learning and wasted",
        "Gross joules of download, training and upload over all boards; below each, the part that went into "
        "models that the system had no use for.",
        traces,
        130 + 84 * len(measured),
        **_AXES,
        barmode="stack",
        bargap=0.3,
        margin_r=70,
    )


def whole_run_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Where all of a run's joules went, background phases included."""
    measured = [(run, run.measured) for run in reversed(runs) if run.measured is not None]
    if not measured:
        return None
    traces = []
    for phase in (
        *sorted(ACTIVE_PHASES, key=list(Phase).index),
        Phase.REST,
        Phase.WAIT,
        Phase.IDLE,
        Phase.ABSENT,
        Phase.LOST,
    ):
        values = [
            sum(item.gross.joules for item in energy.phases if item.phase is phase) for _, energy in measured
        ]
        if any(values):
            traces.append(_bar(phase, [safe(run.label) for run, _ in measured], values))
    return drawn(
        "spent",
        "Where all the joules went",
        "Gross energy of boards in all, idling too, by phase. A board draws power also while it idles, "
        "rests around what is measured, waits for the step to close, or is absent in the trace.",
        traces,
        130 + 48 * len(measured),
        **_AXES,
        barmode="stack",
        bargap=0.35,
    )


def _bar(phase: Phase, rows: Sequence[Any], joules: Sequence[float]) -> Any:
    return go.Bar(
        orientation="h",
        name=phase.value,
        y=rows,
        x=[round(value, 3) for value in joules],
        marker={
            "color": PHASE_COLOURS[phase],
            "line": {"color": PAPER, "width": 1},
            "pattern": pattern(PHASE_PATTERNS[phase]),
        },
        hovertemplate=hover("%{x:,.1f} J", phase.value),
    )
