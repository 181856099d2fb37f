"""Distances of a trace's devices from access points, and the use of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from roambench.mobility.association import FixedAp, NearestAp, RingWalkAp
from roambench.mobility.trace import FloatColumn, Trace
from roambench.report.figures.figure import Figure, drawn, km
from roambench.report.traces.axes import BLUE, GREEN, GREY, ORANGE, panels

_QUANTILES: Final = np.linspace(0.0, 1.0, 201)


def distance_figure(trace: Trace, seed: int) -> Figure:
    """Distance to the access point by each rule, as cumulative shares."""
    rules: Sequence[tuple[str, FloatColumn, str]] = (
        ("nearest (MOHAWK)", NearestAp(trace).distances_m, GREEN),
        ("fixed (HierFAVG)", FixedAp(trace).distances_m, ORANGE),
        ("ring walk (MACFL)", RingWalkAp(trace, seed).distances_m, BLUE),
    )
    traces = [
        go.Scatter(
            mode="lines",
            name=f"{name}: {distances.mean() / 1e3:.2f} ± {distances.std() / 1e3:.2f} km",
            x=km(np.quantile(distances, _QUANTILES)),
            y=(100.0 * _QUANTILES).round(1).tolist(),
            line={"color": colour, "width": 2},
            hovertemplate="%{y:.0f} % within %{x:.3g} km<extra></extra>",
        )
        for name, distances, colour in rules
    ]
    return drawn(
        "ap-distance",
        "Distance to the access point",
        "Share of the (device, step) pairs at most so far from their access point. In the legend mean and "
        "standard deviation, as in MOHAWK's Table 5. The dotted line is its Wi-Fi range of 100 m.",
        traces,
        narrow={},
        xaxis={"title": "distance, km", "rangemode": "tozero"},
        yaxis={"title": "share of pairs, %", "range": [0, 101]},
        shapes=[{"x0": 0.1, "x1": 0.1, "yref": "paper", "y0": 0, "y1": 1, "line_color": GREY}],
    )


def occupancy_figure(trace: Trace) -> Figure:
    """Occupied access points per step, devices at each, and how the fixes spread over the access points."""
    aps, columns = shown_aps(trace), len(trace.ap_names)
    cells, devices = np.unique(trace.step.astype(np.int64) * columns + aps, return_counts=True)
    occupied = np.bincount(np.bincount(cells // columns, minlength=trace.steps))
    together = np.bincount(devices)
    load = np.sort(np.bincount(aps, minlength=columns))[::-1]
    shown = (
        (list(range(len(occupied))), occupied.tolist(), "occupied access points", "steps"),
        (
            list(range(1, len(together))),
            together[1:].tolist(),
            "devices at one",
            "(step, access point) pairs",
        ),
        (list(range(1, columns + 1)), (100.0 * load / len(aps)).round(4).tolist(), "rank", "% of the fixes"),
    )
    traces = []
    axes: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number, (x, y, across, up) in enumerate(shown):
        name = "" if number == 0 else str(number + 1)
        few = {"dtick": 1} if len(x) <= 6 else {}
        axes.append(({"title": across, "showgrid": False, **few}, {"title": up, "rangemode": "tozero"}))
        traces.append(
            go.Bar(
                x=x,
                y=y,
                xaxis=f"x{name}",
                yaxis=f"y{name}",
                marker_color=BLUE,
                hovertemplate="%{x}: %{y}<extra></extra>",
            )
        )
    axes[1][1].update(type="log", dtick=1)
    return drawn(
        "ap-occupancy",
        "Access points in use",
        f"By {shown_kind(trace)} access point. First: how many are occupied in a step. Then: how many "
        "devices share one (logarithmic). Last: their shares of all fixes, the busiest first.",
        traces,
        narrow=panels(axes, 1, 180),
        **panels(axes, 3, 240),
        showlegend=False,
        bargap=0.08,
    )


def shown_aps(trace: Trace) -> npt.NDArray[np.int32]:
    """The access point of every fix to be shown: recorded, or the nearest."""
    return NearestAp(trace).aps if trace.ap is None else trace.ap


def shown_kind(trace: Trace) -> str:
    """The words for `shown_aps` in sentences."""
    return "nearest" if trace.ap is None else "recorded"
