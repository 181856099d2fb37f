"""Where the joules went, as Plotly figures: wasted and consumed, and every phase of the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roambench.contract.phases import ACTIVE_PHASES, Phase

#: One colour per run, told apart by people with colour-blindness; lines also differ in dash and symbol.
from roambench.report.figures import (
    PHASE_COLOURS,
    Figure,
    axis,
    base_layout,
    safe,
)
from roambench.report.summary import RunSummary


def energy_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Consumed and wasted joules of every run, stacked by phase."""
    measured = [(run, run.measured) for run in reversed(runs) if run.measured is not None]
    if not measured:
        return None
    labels = [[safe(run.label)] * 2 for run, _ in measured]
    rows = [label for pair in labels for label in pair]
    kinds = ["wasted", "consumed"] * len(measured)
    data: list[dict[str, Any]] = []
    for phase in Phase:
        if phase not in ACTIVE_PHASES:
            continue
        values: list[float] = []
        for _, energy in measured:
            spent = sum(item.gross.joules for item in energy.phases if item.phase is phase)
            values += [energy.wasted_by_phase.get(phase, 0.0), spent]
        if any(values):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": phase.value,
                    "y": [rows, kinds],
                    "x": [round(value, 3) for value in values],
                    "marker": {"color": PHASE_COLOURS[phase], "line": {"color": "white", "width": 1}},
                    "hovertemplate": "%{x:,.1f} J<extra>" + phase.value + "</extra>",
                }
            )
    if not data:
        return None
    totals = [
        total
        for _, energy in measured
        for total in (energy.gross.cumulative_wasted.joules, energy.gross.cumulative_consumed.joules)
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "text",
            "y": [rows, kinds],
            "x": totals,
            "text": [f"  {total:,.0f} J" if total >= 100 else f"  {total:.1f} J" for total in totals],
            "textposition": "middle right",
            "showlegend": False,
            "hoverinfo": "skip",
            "cliponaxis": False,
        }
    )
    return Figure(
        "energy",
        "Consumed and wasted energy",
        "Gross joules of download, training and upload over all boards; below each, the part that went into "
        "models no edge aggregation used.",
        data,
        base_layout(
            barmode="stack",
            bargap=0.3,
            xaxis=axis("energy, J", rangemode="tozero"),
            yaxis=axis("", showgrid=False, ticks="", dividercolor="#cfd7e0"),
            margin={"l": 150, "r": 70, "t": 44, "b": 52},
        ),
        130 + 84 * len(measured),
    )


def whole_run_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Where all of a run's joules went, background phases included."""
    measured = [(run, run.measured) for run in reversed(runs) if run.measured is not None]
    if not measured:
        return None
    data = []
    for phase in (
        *sorted(ACTIVE_PHASES, key=list(Phase).index),
        Phase.WAIT,
        Phase.IDLE,
        Phase.ABSENT,
        Phase.LOST,
    ):
        values = [
            sum(item.gross.joules for item in energy.phases if item.phase is phase) for _, energy in measured
        ]
        if any(values):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": phase.value,
                    "y": [safe(run.label) for run, _ in measured],
                    "x": [round(value, 3) for value in values],
                    "marker": {"color": PHASE_COLOURS[phase], "line": {"color": "white", "width": 1}},
                    "hovertemplate": "%{x:,.1f} J<extra>" + phase.value + "</extra>",
                }
            )
    return Figure(
        "spent",
        "Where all the joules went",
        "Gross energy of all boards over the whole run by phase. A board draws power also while it idles, "
        "waits for the step to close, or is absent in the trace.",
        data,
        base_layout(
            barmode="stack",
            bargap=0.35,
            xaxis=axis("energy, J", rangemode="tozero"),
            yaxis=axis("", showgrid=False, ticks=""),
            margin={"l": 150, "r": 30, "t": 44, "b": 52},
        ),
        130 + 48 * len(measured),
    )
