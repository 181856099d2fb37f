"""Figures of presence: availability over the steps, the mean day, the steps of every device."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go

from roambench.mobility.outages import marked_outages
from roambench.mobility.statistics import aggregated_per_step, stated_offset_h
from roambench.mobility.trace import Trace
from roambench.report.figures.figure import Figure, drawn, hover
from roambench.report.traces.axes import BLUE, GREEN, GREY, ORANGE, grouped, timestamp, timestamps

_LINES: Final = (
    ("HierFAVG, MACFL: present at t and t + 1", None, ORANGE),
    ("MOHAWK, k2 = 2", 2, "#9ccbb8"),
    ("MOHAWK, k2 = 5", 5, "#4fae8e"),
    ("MOHAWK, k2 = 10", 10, GREEN),
)


def availability_figure(trace: Trace) -> Figure:
    """MOHAWK's Fig. 3: devices present and models that can be aggregated, and these relative to the most."""
    per_step = np.bincount(trace.step, minlength=trace.steps)
    opens, unit = timestamps(trace)
    curves = [aggregated_per_step(trace, k2) for _, k2, _ in _LINES]
    most = np.maximum.reduce(curves)
    traces = [
        go.Scatter(
            mode="lines",
            name="present",
            x=opens,
            y=grouped(per_step),
            line={"color": GREY, "width": 1, "shape": "hvh"},
            fill="tozeroy",
            fillcolor="rgba(136,148,163,0.16)",
            hovertemplate="%{x}: %{y:.3g} present<extra></extra>",
        )
    ]
    for (label, _, colour), curve in zip(_LINES, curves, strict=True):
        line = {"color": colour, "width": 1.1}
        common = {"mode": "lines", "name": label, "legendgroup": label, "x": opens, "line": line}
        relative = np.divide(curve, most, out=np.zeros(len(curve)), where=most > 0)
        traces += [
            go.Scatter(common, y=grouped(curve), hovertemplate=hover("%{x}: %{y:.3g}", label)),
            go.Scatter(common, y=grouped(relative), yaxis="y2", showlegend=False),
        ]
    shapes = [
        {
            "type": "rect",
            "yref": "paper",
            "x0": timestamp(trace, first),
            "x1": timestamp(trace, first + length),
            "y0": 0,
            "y1": 1,
            "fillcolor": "rgba(184,57,122,0.13)",
            "line": {"width": 0},
            "layer": "below",
        }
        for first, length in marked_outages(trace)
    ]
    told = (
        " Shaded: the recorder failed (the trace marks these steps as outages)."
        if shapes
        else " The trace marks no outages of its recorder."
    )
    return drawn(
        "fig3",
        "Fig. 3: devices available, and available for aggregation",
        "As MOHAWK's Fig. 3. Top: devices present, and how many of their models each system can aggregate if "
        "nobody ever fails. Bottom: the same relative to the most that any of them can in that step." + told,
        traces,
        520,
        xaxis={"title": unit, "anchor": "y2", "showgrid": False},
        yaxis={"title": "devices", "domain": [0.4, 1.0], "rangemode": "tozero"},
        yaxis2={"title": "relative", "domain": [0.0, 0.32], "range": [0, 1.04]},
        shapes=shapes,
    )


def day_figure(trace: Trace) -> Figure | None:
    """The mean day by local hour, with and without the marked outages; None for a trace under a day."""
    if trace.steps * trace.step_s < 86_400.0 or trace.step_s > 7200.0:
        return None
    stated = stated_offset_h(trace)
    offset_h = stated or 0.0
    zone = "UTC, as the trace does not say its local time" if stated is None else f"UTC{stated:+g} h"
    local_s = trace.start_utc_s + np.arange(trace.steps) * trace.step_s + offset_h * 3600.0
    hour = (local_s % 86_400.0 // 3600.0).astype(np.int64)
    per_step = np.bincount(trace.step, minlength=trace.steps)
    up = np.ones(trace.steps, np.bool_)
    for first, length in marked_outages(trace):
        up[first : first + length] = False
    traces = []
    for name, kept, colour in (("all steps", up | True, BLUE), ("outages left out", up, GREEN)):
        if name != "all steps" and up.all():
            continue
        steps = np.bincount(hour[kept], minlength=24)
        means = np.bincount(hour[kept], weights=per_step[kept], minlength=24) / np.maximum(steps, 1)
        traces.append(
            go.Bar(
                name=name,
                x=list(range(24)),
                y=means.round(3).tolist(),
                marker_color=colour,
                hovertemplate=hover("%{x} h: %{y:.1f}", name),
            )
        )
    return drawn(
        "mean-day",
        "The mean day",
        f"Devices present by hour of the day ({zone}), mean over all days.",
        traces,
        320,
        xaxis={"title": "hour of the day", "dtick": 2, "showgrid": False},
        yaxis={"title": "devices present", "rangemode": "tozero"},
        bargap=0.2,
        showlegend=len(traces) > 1,
    )


def hours_figure(trace: Trace) -> Figure:
    """How many steps each device is present in: as a histogram, and by rank."""
    counts = np.bincount(trace.device, minlength=len(trace.device_names))
    width = max(1, round(int(counts.max()) / 50))
    bins = np.arange(0, int(counts.max()) + width + 1, width)
    found, edges = np.histogram(counts, bins)
    ranked = np.sort(counts)[::-1]
    shown = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), 2000)).round().astype(np.int64))
    low, middle, high = np.quantile(counts, (0.25, 0.5, 0.75)).tolist()
    return drawn(
        "steps-per-device",
        "Steps per device",
        f"Left: devices by the number of steps in which they are present. Right: the same by rank. Quartiles "
        f"{low:g}, {middle:g}, {high:g}; the busiest has {int(counts.max()):,} of {trace.steps:,}.",
        [
            go.Bar(
                x=((edges[:-1] + edges[1:] - 1) / 2).tolist(),
                y=found.tolist(),
                width=width,
                marker={"color": BLUE, "line": {"color": "white", "width": 0.5}},
                hovertemplate="about %{x} steps: %{y} devices<extra></extra>",
            ),
            go.Scatter(
                mode="lines",
                x=(shown + 1).tolist(),
                y=ranked[shown].tolist(),
                xaxis="x2",
                yaxis="y2",
                line={"color": BLUE, "width": 2},
                hovertemplate="rank %{x}: %{y} steps<extra></extra>",
            ),
        ],
        340,
        showlegend=False,
        bargap=0,
        xaxis={"title": "steps present", "domain": [0, 0.46], "rangemode": "tozero", "showgrid": False},
        yaxis={"title": "devices"},
        xaxis2={"title": "rank", "domain": [0.56, 1], "anchor": "y2", "rangemode": "tozero"},
        yaxis2={"title": "steps present", "anchor": "x2", "rangemode": "tozero"},
    )
