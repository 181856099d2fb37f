"""Figures of decentralised runs: accuracies over the devices, the gap by mobility, neighbours, mixing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from roambench.contract.metric import ACCURACY, Metric
from roambench.report.figures.figure import (
    Figure,
    below_each_other,
    drawn,
    hover,
    hover_value,
    one_in,
    run_colour,
    run_style,
    safe,
)
from roambench.report.summaries.peers import Floats, PeerSummary
from roambench.report.summaries.run import RunSummary

_Found = Sequence[tuple[int, RunSummary, PeerSummary]]
_MOST_POINTS = 2000  # of a line by iteration; of more, every n-th is drawn


def peer_figures(runs: Sequence[RunSummary]) -> list[Figure | None]:
    """[] where every run has a server."""
    found = [(index, run, run.peers) for index, run in enumerate(runs) if run.peers is not None]
    figures: list[Figure | None] = []
    for metric in dict.fromkeys(peers.metric for _, _, peers in found):
        judged = [each for each in found if each[2].metric == metric]
        figures += [_scores(metric, judged), _gap(metric, judged)]
    return [*figures, _neighbours(found), _mixing(found)] if found else []


def _scores(metric: Metric, found: _Found) -> Figure | None:
    """Mean over the devices with a band from the worst to the best, and the mean model as a thin line."""
    value = hover_value(metric)
    traces = []
    for index, run, peers in found:
        if not peers.points:
            continue
        steps = [point.step for point in peers.points]
        band = [metric.shown(point.best) for point in peers.points]
        band += [metric.shown(point.worst) for point in reversed(peers.points)]
        group, average = safe(run.label), f"{run.label}, mean model"
        traces += [
            go.Scatter(
                legendgroup=group,
                mode="lines",
                x=[*steps, *reversed(steps)],
                y=band,
                fill="toself",
                opacity=0.15,
                fillcolor=run_colour(index),
                line_width=0,
                hoverinfo="skip",
                showlegend=False,
            ),
            go.Scatter(
                run_style(index, run),
                legendgroup=group,
                mode="lines+markers",
                x=steps,
                y=[metric.shown(point.mean) for point in peers.points],
                marker_size=6,
                hovertemplate=hover(f"step %{{x}}: {value}", run.label),
            ),
            go.Scatter(
                legendgroup=group,
                mode="lines",
                name=safe(average),
                x=steps,
                y=[metric.shown(point.average) for point in peers.points],
                line={"color": run_colour(index), "dash": "dot", "width": 1},
                hovertemplate=hover(f"step %{{x}}: {value}", average),
            ),
        ]
    if not traces:
        return None
    return drawn(
        "peer-accuracy" if metric == ACCURACY else f"peer-metric-{metric.key}",
        "Accuracy over the devices" if metric == ACCURACY else f"{safe(metric.name)} over the devices",
        "Lines with markers: mean over all devices; band: from the worst to the best; dots: the mean of all "
        "models.",
        traces,
        xaxis={"title": "iteration"},
        yaxis={"title": safe(metric.axis), "rangemode": "tozero" if metric == ACCURACY else "normal"},
    )


def _gap(metric: Metric, found: _Found) -> Figure | None:
    """High- minus low-mobility devices (de Heredia Fig. 5, 6)."""
    value = "%{y:+.2f}" if metric == ACCURACY else "%{y:+.4g}"
    traces = [
        _line(index, run, steps, np.array(gaps), value).update(mode="lines+markers")
        for index, run, peers in found
        if (steps := [point.step for point in peers.points if point.gap is not None])
        and (gaps := [metric.shown(point.gap) for point in peers.points if point.gap is not None])
    ]
    if not traces:
        return None
    unit, axis = "in percentage points", "points of accuracy"
    if metric != ACCURACY:
        unit, axis = f"{metric.better} is better", f"difference of {safe(metric.name)}"
    return drawn(
        "peer-gap" if metric == ACCURACY else f"peer-gap-{metric.key}",
        "High- against low-mobility devices",
        f"Mean {safe(metric.name)} of the high-mobility devices less that of the others, {unit}.",
        traces,
        300,
        xaxis={"title": "iteration"},
        yaxis={"title": axis, "zeroline": True},
    )


def _neighbours(found: _Found) -> Figure | None:
    """Cumulative neighbours by class of mobility (de Heredia Fig. 7, 8)."""
    traces = [line for index, run, peers in found for line in _classes(index, run, peers)]
    if not traces:
        return None
    return drawn(
        "peer-neighbours",
        "Neighbours so far",
        "How many neighbours a device has had on average, repeats counted: solid, of high mobility; dashed, "
        "of low.",
        traces,
        300,
        xaxis={"title": "iteration"},
        yaxis={"title": "neighbours", "rangemode": "tozero"},
    )


def _classes(index: int, run: RunSummary, peers: PeerSummary) -> Iterator[Any]:
    for column, name, dash in ((0, "high", "solid"), (1, "low", "dash")):
        values = peers.neighbours[:, column]
        if np.isfinite(values).all():
            line = _line(index, run, range(len(values)), values, "%{y:.1f}")
            yield line.update(name=safe(f"{run.label}, {name}"), line_dash=dash)


def _mixing(found: _Found) -> Figure | None:
    """Distance of what devices reach to everybody's classes, beside the spectral gap."""
    traces = []
    for index, run, peers in found:
        if np.isfinite(peers.distribution_distances).any():
            steps = range(len(peers.distribution_distances))
            traces.append(_line(index, run, steps, peers.distribution_distances, "%{y:.3f}"))
        if np.isfinite(peers.spectral_gaps).any():
            steps = range(len(peers.spectral_gaps))
            line = _line(index, run, steps, peers.spectral_gaps, "%{y:.4f}")
            traces.append(line.update(xaxis="x2", yaxis="y2", showlegend=False))
    if not traces:
        return None
    up = {"title": "distance of classes", "rangemode": "tozero"}
    up2 = {"title": "spectral gap", "anchor": "x2"}
    return drawn(
        "peer-mixing",
        "Mixing",
        "Left: mean distance between the classes that a device reaches and everybody's; 0 is a fair sample. "
        "Right: spectral gap of the iteration's W; 0 where some part hears nothing of the rest, "
        "below 0 only where its columns do not sum to 1.",
        traces,
        300,
        xaxis={"title": "iteration", "domain": [0, 0.46]},
        yaxis=up,
        xaxis2={"title": "iteration", "domain": [0.56, 1], "anchor": "y2"},
        yaxis2=up2,
        narrow=below_each_other("iteration", up, up2),
    )


def _line(index: int, run: RunSummary, steps: Sequence[int], values: Floats, value: str) -> Any:
    every = one_in(len(steps), _MOST_POINTS)
    return go.Scatter(
        run_style(index, run),
        mode="lines",
        legendgroup=safe(run.label),
        x=list(steps)[::every],
        y=[round(value, 6) if np.isfinite(value) else None for value in values.tolist()[::every]],
        hovertemplate=hover(f"step %{{x}}: {value}", run.label),
    )
