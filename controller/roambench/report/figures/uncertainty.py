"""Figure of the sources of uncertainty, as stacked bars of variance."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from roambench.report.figures.figure import Figure, drawn, hover, safe, wrapped_names
from roambench.report.figures.look import PAPER, RUN_COLOURS, RUN_PATTERNS, pattern
from roambench.report.summaries.run import RunSummary
from roambench.report.tables.uncertainty import PARTS, budget_rows, part_j


def budget_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """The parts' shares of the squared uncertainty; None when no run was measured."""
    names: list[str] = []
    budgets = []
    several = sum(run.measured is not None for run in runs) > 1
    for run in runs:
        for name, energy in budget_rows(run):
            if energy.u_joules > 0.0:
                names.append(f"{run.label}: {name}" if several else name)
                budgets.append(energy.budget)
    if not budgets:
        return None
    traces = []
    for index, (part, field) in enumerate(PARTS):
        shares = [100.0 * (part_j(budget, field) / budget.total_j) ** 2 for budget in budgets]
        if any(share > 0.0 for share in shares):
            traces.append(
                go.Bar(
                    orientation="h",
                    name=part,
                    y=[safe(name) for name in names],
                    x=[round(share, 3) for share in shares],
                    customdata=[round(2.0 * part_j(budget, field), 4) for budget in budgets],
                    marker={
                        "color": RUN_COLOURS[index % len(RUN_COLOURS)],
                        "line": {"color": PAPER, "width": 1},
                        "pattern": pattern(
                            RUN_PATTERNS[(index + index // len(RUN_COLOURS)) % len(RUN_PATTERNS)]
                        ),
                    },
                    hovertemplate=hover("%{x:.1f} % of the variance, ± %{customdata:.3g} J", part),
                )
            )
    up = {"showgrid": False, "ticks": "", "autorange": "reversed"}
    return drawn(
        "budget",
        "What makes the uncertainty",
        "Shares of the squared uncertainty: parts add in quadrature, so half of the variance is 71 % of the "
        "uncertainty. The largest part dominates: reduce it first.",
        traces,
        120 + 26 * len(names),
        barmode="stack",
        bargap=0.3,
        xaxis={"title": "share of the variance, %", "range": [0, 100]},
        yaxis=up,
        narrow={
            "height": 120 + 36 * len(names),
            "xaxis": {"title": "variance, %", "range": [0, 100]},
            "yaxis": up | wrapped_names(names),
        },
    )
