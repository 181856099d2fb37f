"""The report's figures: traces and layouts that plotly has checked, in plain JSON types.

Text that came from a run (names, reasons) is HTML-escaped here: Plotly reads markup in labels.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from roambench.contract.metric import ACCURACY, Metric
from roambench.mobility.trace import FloatColumn
from roambench.report.figures.look import MUTED, RUN_COLOURS, RUN_DASHES, RUN_PATTERNS, RUN_SYMBOLS, pattern
from roambench.report.joule_names import LEARNING
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.modelled import ModelledSummary
from roambench.report.summaries.run import RunSummary

#: Of a map: as many pixels for a kilometre to the north as to the east.
MAP_AXES: Final[dict[str, Any]] = {
    "xaxis": {"title": "east, km", "scaleanchor": "y", "scaleratio": 1, "constrain": "domain"},
    "yaxis": {"title": "north, km", "constrain": "domain"},
}


@dataclass(frozen=True, slots=True)
class Figure:
    """`data` and `layout` as `Plotly.newPlot` takes them, beside the template `LOOK`.

    `narrow` is what a narrow screen's layout has instead, by the names of `layout`; None: nothing.
    """

    key: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    narrow: dict[str, Any] | None = None


def drawn(
    key: str,
    title: str,
    caption: str,
    traces: Iterable[Any],
    height: int = 360,
    narrow: Mapping[str, Any] | None = None,
    **layout: Any,
) -> Figure:
    """The figure of these traces (`plotly.graph_objects`), `height` pixels high. ValueError, from plotly, for
    a property or a value that it does not know."""
    data = [trace.to_plotly_json() for trace in traces]
    there = go.Layout(height=height, **layout).to_plotly_json()
    instead = None if narrow is None else go.Layout(**narrow).to_plotly_json()
    return Figure(key, title, caption, data, there, instead)


def below_each_other(across: str, up: dict[str, Any], up2: dict[str, Any]) -> dict[str, Any]:
    """What a narrow screen has of two panels that stand side by side: the x axes' title, the y axes."""
    return {
        "height": 640,
        "xaxis": {"title": across, "domain": [0, 1]},
        "yaxis": up | {"domain": [0.58, 1]},
        "xaxis2": {"title": across, "domain": [0, 1], "anchor": "y2"},
        "yaxis2": up2 | {"domain": [0, 0.42]},
    }


def one_in(count: int, most: int) -> int:
    """n of "every n-th is drawn", so that of `count` points `most` are at the most."""
    return max(1, -(-count // most))


def safe(text: str) -> str:
    """Text for a Plotly label or hover: markup in it is shown, not obeyed."""
    return html.escape(text, quote=False)  # of entities Plotly knows only a few, and quotes are none of them


def km(metres: FloatColumn) -> list[float]:
    """Kilometres, to the decimetre."""
    kilometres: list[float] = np.round(metres / 1000.0, 4).tolist()
    return kilometres


def hover(text: str, name: str) -> str:
    """Hover text: a Plotly template, and beside it the name."""
    return f"{text}<extra>{safe(name)}</extra>"


def hover_value(metric: Metric) -> str:
    """The place of a metric's value in a hover text."""
    return "%{y:.1f} %" if metric == ACCURACY else "%{y:.4g}"


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names, the first at the top."""
    order = [safe(name) for name in reversed(names)]
    span = [-0.6, len(names) - 0.4]
    return {"categoryorder": "array", "categoryarray": order, "ticks": "", "range": span}


def wrapped_names(names: Sequence[str]) -> dict[str, Any]:
    """What an axis of names has besides on a narrow screen: smaller ones, over several lines."""
    lines = ["<br>".join(safe(line) for line in textwrap.wrap(name, 18)) for name in names]
    return {"tickvals": [safe(name) for name in names], "ticktext": lines, "tickfont": {"size": 11}}


def run_colour(index: int) -> str:
    """The colour of a run, by its place in the report."""
    return RUN_COLOURS[index % len(RUN_COLOURS)]


def run_style(index: int, run: RunSummary) -> dict[str, Any]:
    """Name, line and marker of a run's scatter trace."""
    return {
        "name": safe(run.label),
        "line": {"color": run_colour(index), "dash": RUN_DASHES[index % 6], "width": 2},
        "marker": {"color": run_colour(index), "symbol": RUN_SYMBOLS[index % 6]},
    }


def score_figures(runs: Sequence[RunSummary]) -> list[Figure]:
    """Accuracy and loss of the global model by step, side by side, and the same of what other tasks are
    judged by; none where nothing was ever scored."""
    found = [_score_figure(metric, runs) for metric in judged_by(runs)]
    return [figure for figure in found if figure is not None]


def thresholds_of(metric: Metric, runs: Sequence[RunSummary]) -> list[float]:
    """The thresholds of the runs that are judged by the metric, each once, ascending."""
    found = {run.learning.threshold for run in runs if run.learning.metric == metric}
    return sorted(value for value in found if value is not None)


def judged_by(runs: Sequence[RunSummary]) -> list[Metric]:
    """What the runs are judged by, each once."""
    return list(dict.fromkeys(run.learning.metric for run in runs))


def _score_figure(metric: Metric, runs: Sequence[RunSummary]) -> Figure | None:
    traces = []
    for index, run in enumerate(runs):
        points = [point for point in run.learning.points if point.score is not None]
        if not points or run.learning.metric != metric:
            continue
        common = run_style(index, run) | {
            "mode": "lines+markers",
            "legendgroup": safe(run.label),
            "x": [point.step for point in points],
            # Only where the cloud made a new model; elsewhere the line just goes on.
            "marker_size": [8 if point.cloud else 0.1 for point in points],
            "line_shape": "hv",
        }
        scores = [metric.shown(point.score or 0.0) for point in points]
        value = hover_value(metric)
        traces += [
            go.Scatter(common, y=scores, hovertemplate=hover(f"step %{{x}}: {value}", run.label)),
            go.Scatter(
                common,
                y=[point.loss for point in points],
                xaxis="x2",
                yaxis="y2",
                showlegend=False,
                hovertemplate=hover("step %{x}: loss %{y:.3f}", run.label),
            ),
        ]
    if not traces:
        return None
    shapes = [
        {
            "xref": "x domain",
            "x0": 0,
            "x1": 1,
            "y0": metric.shown(threshold),
            "y1": metric.shown(threshold),
            "line_color": MUTED,
            "label": {
                "text": f"threshold {metric.wanted(threshold)}",
                "textposition": "start",
                "yanchor": "bottom",
                "font": {"size": 11, "color": MUTED},
            },
        }
        for threshold in thresholds_of(metric, runs)
    ]
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
    up: dict[str, Any] = {"title": safe(metric.axis)}
    if metric == ACCURACY:
        tallest = max([*(run.learning.best_accuracy or 0.0 for run in runs), *thresholds_of(metric, runs)])
        up = {"title": f"accuracy of {whose}, %", "range": [0.0, min(104.0, max(1.0, 112.0 * tallest))]}
    up2 = {"title": "loss on the test set", "anchor": "x2", "rangemode": "tozero"}
    return drawn(
        "accuracy" if metric == ACCURACY else f"metric-{metric.key}",
        "Accuracy and loss" if metric == ACCURACY else f"{safe(metric.name)} and loss",
        " ".join(notes),
        traces,
        xaxis={"title": "step", "domain": [0, 0.46]},
        yaxis=up,
        xaxis2={"title": "step", "domain": [0.56, 1], "anchor": "y2"},
        yaxis2=up2,
        shapes=shapes,
        narrow=below_each_other("step", up, up2),
    )


@dataclass(frozen=True, slots=True)
class Bought:
    """The score of a step's cloud aggregation, and the gross joules consumed before it."""

    step: int
    joules: float
    score: float


def bought(run: RunSummary, energy: EnergySummary | ModelledSummary | None) -> list[Bought]:
    """What a run had for its joules at every scored cloud aggregation; empty without energy."""
    if energy is None:
        return []
    found, total = [], 0.0
    for point in run.learning.points:
        if point.cloud and point.score is not None:
            found.append(Bought(point.step, total, point.score))
        total += energy.consumed_by_step.get(point.step, 0.0)  # trainings ordered in this step come later
    return found


def per_joule_figures(runs: Sequence[RunSummary]) -> list[Figure]:
    """Accuracy, or what a task is judged by, against the energy consumed so far: what joules bought."""
    found = [_per_joule_figure(metric, runs) for metric in judged_by(runs)]
    return [figure for figure in found if figure is not None]


def _per_joule_figure(metric: Metric, runs: Sequence[RunSummary]) -> Figure | None:
    traces = []
    for index, run in enumerate(runs):
        points = bought(run, run.measured)
        if points and run.learning.metric == metric:
            value = hover_value(metric)
            traces.append(
                go.Scatter(
                    run_style(index, run),
                    mode="lines+markers",
                    x=[round(point.joules, 3) for point in points],
                    y=[metric.shown(point.score) for point in points],
                    marker_size=8,
                    customdata=[point.step for point in points],
                    hovertemplate=hover(f"step %{{customdata}}: {value} after %{{x:,.0f}} J", run.label),
                )
            )
    if not traces:
        return None
    higher, name = metric.better.capitalize(), metric.name[0].upper() + metric.name[1:]
    return drawn(
        "accuracy-per-joule" if metric == ACCURACY else f"joules-{metric.key}",
        "What the joules bought",
        f"{name} at every cloud aggregation against the energy that download, training and upload of all "
        f"local updates ordered before it took (gross, all boards). {higher} and further left is better.",
        traces,
        xaxis={"title": f"{LEARNING} so far, J", "rangemode": "tozero"},
        yaxis={"title": safe(metric.axis), "rangemode": "tozero"},
    )


def aggregated_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Models aggregated in each step; None where no run has a server."""
    traces = [
        go.Bar(
            name=safe(run.label),
            x=[point.step for point in run.learning.points],
            y=[point.aggregated for point in run.learning.points],
            marker={"color": run_colour(index), "pattern": pattern(RUN_PATTERNS[index % 6])},
            hovertemplate=hover("step %{x}: %{y} models", run.label),
        )
        for index, run in enumerate(runs)
        if run.learning.points and run.peers is None
    ]
    if not traces:
        return None
    return drawn(
        "aggregated",
        "Devices aggregated per step",
        "How many devices' models the access points aggregated in each step. Where models go up a step after "
        "their training nothing can arrive in step 0.",
        traces,
        300,
        barmode="group",
        bargap=0.25,
        xaxis={"title": "step"},
        yaxis={"title": "models aggregated", "rangemode": "tozero", "tickformat": "d"},
    )
