"""Figures of decentralised runs: accuracies over the devices, the gap by mobility, neighbours, mixing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from roambench.report.figures import RUN_DASHES, RUN_SYMBOLS, Figure, axis, base_layout, run_colour, safe
from roambench.report.peer_summary import Floats, PeerSummary
from roambench.report.summary import RunSummary

_Found = Sequence[tuple[int, RunSummary, PeerSummary]]
_MOST_POINTS = 2000  # of a line by iteration; of more, every n-th is drawn


def peer_figures(runs: Sequence[RunSummary]) -> list[Figure | None]:
    """[] where every run has a server."""
    found = [(index, run, run.peers) for index, run in enumerate(runs) if run.peers is not None]
    return [_accuracy(found), _gap(found), _neighbours(found), _mixing(found)] if found else []


def _accuracy(found: _Found) -> Figure | None:
    """Mean over the devices with a band from the worst to the best, and the mean model as a thin line."""
    data: list[dict[str, Any]] = []
    for index, run, peers in found:
        if not peers.points:
            continue
        steps = [point.step for point in peers.points]
        band = [100.0 * point.most for point in peers.points]
        band += [100.0 * point.least for point in reversed(peers.points)]
        group = {"legendgroup": safe(run.label), "type": "scatter"}
        data += [
            group
            | {
                "mode": "lines",
                "x": [*steps, *reversed(steps)],
                "y": band,
                "fill": "toself",
                "opacity": 0.15,
                "fillcolor": run_colour(index),
                "line": {"width": 0},
                "hoverinfo": "skip",
                "showlegend": False,
            },
            group
            | {
                "mode": "lines+markers",
                "name": safe(run.label),
                "x": steps,
                "y": [100.0 * point.mean for point in peers.points],
                "line": {"color": run_colour(index), "dash": RUN_DASHES[index % 6], "width": 2},
                "marker": {"symbol": RUN_SYMBOLS[index % 6], "size": 6, "color": run_colour(index)},
                "hovertemplate": "step %{x}: %{y:.1f} %<extra>" + safe(run.label) + "</extra>",
            },
            group
            | {
                "mode": "lines",
                "name": safe(f"{run.label}, mean model"),
                "x": steps,
                "y": [100.0 * point.average for point in peers.points],
                "line": {"color": run_colour(index), "dash": "dot", "width": 1},
                "hovertemplate": "step %{x}: %{y:.1f} %<extra>" + safe(run.label) + ", mean model</extra>",
            },
        ]
    if not data:
        return None
    return Figure(
        "peer-accuracy",
        "Accuracy over the devices",
        "Lines with markers: mean over all devices; band: from the worst to the best; dots: the mean of all "
        "models.",
        data,
        base_layout(xaxis=axis("iteration"), yaxis=axis("accuracy, %", rangemode="tozero")),
    )


def _gap(found: _Found) -> Figure | None:
    """High- minus low-mobility devices (de Heredia Fig. 5, 6)."""
    data = [
        _line(index, run, steps, np.array(gaps), "%{y:+.2f}")
        for index, run, peers in found
        if (steps := [point.step for point in peers.points if point.gap is not None])
        and (gaps := [100.0 * point.gap for point in peers.points if point.gap is not None])
    ]
    if not data:
        return None
    return Figure(
        "peer-gap",
        "High- against low-mobility devices",
        "Mean accuracy of the high-mobility devices less that of the others, in percentage points.",
        data,
        base_layout(xaxis=axis("iteration"), yaxis=axis("points of accuracy", zeroline=True)),
        300,
    )


def _neighbours(found: _Found) -> Figure | None:
    """Cumulative neighbours by class of mobility (de Heredia Fig. 7, 8)."""
    data = [line for index, run, peers in found for line in _classes(index, run, peers)]
    if not data:
        return None
    return Figure(
        "peer-neighbours",
        "Neighbours so far",
        "How many neighbours a device has had on average, repeats counted: solid, of high mobility; dashed, "
        "of low.",
        data,
        base_layout(xaxis=axis("iteration"), yaxis=axis("neighbours", rangemode="tozero")),
        300,
    )


def _classes(index: int, run: RunSummary, peers: PeerSummary) -> Iterator[dict[str, Any]]:
    for column, name, dash in ((0, "high", "solid"), (1, "low", "dash")):
        values = peers.neighbours[:, column]
        if np.isfinite(values).all():
            line = _line(index, run, range(len(values)), values, "%{y:.1f}")
            yield line | {
                "name": safe(f"{run.label}, {name}"),
                "line": {"color": run_colour(index), "dash": dash, "width": 2},
            }


def _mixing(found: _Found) -> Figure | None:
    """Distance of what devices reach to everybody's classes, beside the spectral gap."""
    data = []
    for index, run, peers in found:
        if np.isfinite(peers.distribution_distances).any():
            steps = range(len(peers.distribution_distances))
            data.append(_line(index, run, steps, peers.distribution_distances, "%{y:.3f}"))
        if np.isfinite(peers.spectral_gaps).any():
            steps = range(len(peers.spectral_gaps))
            line = _line(index, run, steps, peers.spectral_gaps, "%{y:.4f}")
            data.append(line | {"xaxis": "x2", "yaxis": "y2", "showlegend": False})
    if not data:
        return None
    return Figure(
        "peer-mixing",
        "Mixing",
        "Left: mean distance between the classes that a device reaches and everybody's; 0 is a fair sample. "
        "Right: spectral gap of the iteration's W; 0 where some part hears nothing of the rest.",
        data,
        base_layout(
            xaxis=axis("iteration", domain=[0, 0.46]),
            yaxis=axis("distance of classes", rangemode="tozero"),
            xaxis2=axis("iteration", domain=[0.56, 1], anchor="y2"),
            yaxis2=axis("spectral gap", anchor="x2"),
        ),
        300,
    )


def _line(index: int, run: RunSummary, steps: Sequence[int], values: Floats, told: str) -> dict[str, Any]:
    every = max(1, -(-len(steps) // _MOST_POINTS))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": safe(run.label),
        "legendgroup": safe(run.label),
        "x": list(steps)[::every],
        "y": [round(value, 6) if np.isfinite(value) else None for value in values.tolist()[::every]],
        "line": {"color": run_colour(index), "dash": RUN_DASHES[index % 6], "width": 2},
        "hovertemplate": f"step %{{x}}: {told}<extra>{safe(run.label)}</extra>",
    }
