"""The report's figures as values: Plotly traces and layouts in plain JSON types.

Text that came from a run (names, reasons) is HTML-escaped here: Plotly reads markup in labels.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from roambench.contract.phases import Phase
from roambench.report.summary import RunSummary

#: One colour per run, told apart by people with colour-blindness; lines also differ in dash and symbol.
RUN_COLOURS: Final = ("#1f5fbf", "#d9622b", "#1a8f6a", "#8250c4", "#b8397a", "#5f6b7a")
RUN_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
RUN_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x")
PHASE_COLOURS: Final[dict[Phase, str]] = {
    Phase.IDLE: "#dfe5ec",
    Phase.ABSENT: "#b9c3cf",
    Phase.WAIT: "#cdd8e4",
    Phase.DOWNLOAD: "#4ea3d8",
    Phase.TRAIN: "#f2a73b",
    Phase.UPLOAD: "#7b5cc9",
    Phase.EXCHANGE: "#2aa79b",
    Phase.LOST: "#e3b7b7",
}
INK: Final = "#1d2733"
FAINT: Final = "#e7ebf0"
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Figure:
    """`data` and `layout` as `Plotly.newPlot` takes them."""

    key: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 360


def base_layout(**changes: Any) -> dict[str, Any]:
    """The common look: white, thin grid, legend above the plot."""
    layout: dict[str, Any] = {
        "template": "none",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 13, "color": INK},
        "margin": {"l": 64, "r": 20, "t": 44, "b": 52},
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "xanchor": "left",
            "traceorder": "normal",
        },
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#aab4c0", "activecolor": "#1f5fbf"},
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": _FONT, "size": 12}},
    }
    return layout | changes


def axis(title: str, **changes: Any) -> dict[str, Any]:
    """A Plotly axis in the report's style."""
    return {
        "title": {"text": title, "standoff": 10, "font": {"size": 13}},
        "gridcolor": FAINT,
        "zeroline": False,
        "linecolor": "#aab4c0",
        "ticks": "outside",
        "tickcolor": "#aab4c0",
        "ticklen": 4,
        "automargin": True,
        **changes,
    }


def safe(text: str) -> str:
    """Text for a Plotly label or hover: markup in it is shown, not obeyed."""
    return html.escape(text, quote=True)


def run_colour(index: int) -> str:
    """The colour of a run, by its place in the report."""
    return RUN_COLOURS[index % len(RUN_COLOURS)]


def accuracy_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Accuracy and loss of the global model by step, side by side; None when nothing was ever scored."""
    data: list[dict[str, Any]] = []
    for index, run in enumerate(runs):
        points = [point for point in run.learning.points if point.accuracy is not None]
        if not points:
            continue
        common: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": safe(run.label),
            "legendgroup": safe(run.label),
            "x": [point.step for point in points],
            "line": {"color": run_colour(index), "dash": RUN_DASHES[index % 6], "width": 2, "shape": "hv"},
            "marker": {
                "symbol": RUN_SYMBOLS[index % 6],
                "color": run_colour(index),
                # Only where the cloud made a new model; elsewhere the line just goes on.
                "size": [8 if point.cloud else 0.1 for point in points],
            },
        }
        data.append(
            common
            | {
                "y": [None if point.accuracy is None else 100.0 * point.accuracy for point in points],
                "hovertemplate": "step %{x}: %{y:.1f} %<extra>" + safe(run.label) + "</extra>",
            }
        )
        data.append(
            common
            | {
                "y": [point.loss for point in points],
                "xaxis": "x2",
                "yaxis": "y2",
                "showlegend": False,
                "hovertemplate": "step %{x}: loss %{y:.3f}<extra>" + safe(run.label) + "</extra>",
            }
        )
    if not data:
        return None
    shapes = [
        {
            "type": "line",
            "xref": "x domain",
            "x0": 0,
            "x1": 1,
            "y0": 100.0 * threshold,
            "y1": 100.0 * threshold,
            "line": {"color": "#8894a3", "width": 1, "dash": "dot"},
            "label": {
                "text": f"threshold {100.0 * threshold:g} %",
                "textposition": "start",
                "yanchor": "bottom",
                "font": {"size": 11, "color": "#667384"},
            },
        }
        for threshold in sorted({run.learning.threshold for run in runs})
    ]
    tallest = max(max(run.learning.best_accuracy or 0.0, run.learning.threshold) for run in runs)
    with_server = [run for run in runs if run.peers is None]
    notes = []
    if with_server:
        notes.append(
            "The global model on the test set after every step. Markers: steps in which the cloud "
            "aggregated; only these change it."
        )
    if len(with_server) < len(runs):
        notes.append("Without a server: the mean over the devices' own models, whenever they are scored.")
    whose = "the global model" if len(with_server) == len(runs) else "the models"
    layout = base_layout(
        xaxis=axis("step", domain=[0, 0.46]),
        yaxis=axis(f"accuracy of {whose}, %", range=[0.0, min(104.0, max(1.0, 112.0 * tallest))]),
        xaxis2=axis("step", domain=[0.56, 1], anchor="y2"),
        yaxis2=axis("loss on the test set", anchor="x2", rangemode="tozero"),
        shapes=shapes,
    )
    return Figure(
        "accuracy",
        "Accuracy and loss",
        " ".join(notes),
        data,
        layout,
    )


def accuracy_per_joule_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Accuracy against the energy consumed so far: what a run's joules bought."""
    data = []
    for index, run in enumerate(runs):
        if run.measured is None:
            continue
        spent, total = {}, 0.0
        by_step = run.measured.consumed_by_step
        for point in run.learning.points:
            spent[point.step] = total  # what was spent on trainings before this step's aggregation
            total += by_step.get(point.step, 0.0)
        points = [point for point in run.learning.points if point.cloud and point.accuracy is not None]
        if points:
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": safe(run.label),
                    "x": [round(spent[point.step], 3) for point in points],
                    "y": [100.0 * (point.accuracy or 0.0) for point in points],
                    "line": {"color": run_colour(index), "dash": RUN_DASHES[index % 6], "width": 2},
                    "marker": {"symbol": RUN_SYMBOLS[index % 6], "size": 8, "color": run_colour(index)},
                    "customdata": [point.step for point in points],
                    "hovertemplate": "step %{customdata}: %{y:.1f} % after %{x:,.0f} J<extra>"
                    + safe(run.label)
                    + "</extra>",
                }
            )
    if not data:
        return None
    return Figure(
        "accuracy-per-joule",
        "What the joules bought",
        "Accuracy at every cloud aggregation against the energy that download, training and upload of all "
        "trainings ordered before it took (gross, all boards). Higher and further left is better.",
        data,
        base_layout(
            xaxis=axis("consumed so far, J", rangemode="tozero"),
            yaxis=axis("accuracy, %", rangemode="tozero"),
        ),
    )


def aggregated_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Models aggregated in each step; None where no run has a server."""
    data = [
        {
            "type": "bar",
            "name": safe(run.label),
            "x": [point.step for point in run.learning.points],
            "y": [point.aggregated for point in run.learning.points],
            "marker": {"color": run_colour(index)},
            "hovertemplate": "step %{x}: %{y} models<extra>" + safe(run.label) + "</extra>",
        }
        for index, run in enumerate(runs)
        if run.learning.points and run.peers is None
    ]
    if not data:
        return None
    return Figure(
        "aggregated",
        "Devices aggregated per step",
        "How many devices' models the access points aggregated in each step. Nothing can arrive in step 0.",
        data,
        base_layout(
            barmode="group",
            bargap=0.25,
            xaxis=axis("step"),
            yaxis=axis("models aggregated", rangemode="tozero", tickformat="d"),
        ),
        300,
    )
