"""Figures of presence: availability over the steps, the mean day, the steps of every device."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from roambench.mobility.outages import HOLES, empty_because, marked_outages
from roambench.mobility.statistics import aggregated_per_step, stated_offset_h
from roambench.mobility.trace import Trace
from roambench.report.figures.figure import Figure, drawn, hover
from roambench.report.figures.look import PAPER
from roambench.report.traces.axes import BLUE, GREEN, GREY, ORANGE, grouped, panels, timestamp, timestamps

_LINES: Final = (
    ("HierFAVG, MACFL", None, ORANGE),
    ("MOHAWK, k2 = 2", 2, "var(--green-light)"),
    ("MOHAWK, k2 = 5", 5, "var(--green-middle)"),
    ("MOHAWK, k2 = 10", 10, GREEN),
)


def availability_figure(trace: Trace) -> Figure:
    """MOHAWK's Fig. 3: devices present and models that can be aggregated, and these relative to the most."""
    per_step = np.bincount(trace.step, minlength=trace.steps)
    opens, unit = timestamps(trace)
    curves = [aggregated_per_step(trace, k2) for _, k2, _ in _LINES]
    together = _together(trace)
    starts = np.arange(0, trace.steps, together)
    wholes = np.add.reduceat(np.maximum.reduce(curves), starts)
    traces = [
        go.Scatter(
            mode="lines",
            name="present",
            x=opens,
            y=grouped(per_step),
            line={"color": GREY, "width": 1, "shape": "hvh"},
            fill="tozeroy",
            fillcolor="var(--shade)",
            hovertemplate="%{x}: %{y:.3g} present<extra></extra>",
        )
    ]
    for (label, _, colour), curve in zip(_LINES, curves, strict=True):
        line = {"color": colour, "width": 1.1}
        common = {"mode": "lines", "name": label, "legendgroup": label, "x": opens, "line": line}
        parts = np.add.reduceat(curve, starts)
        relative = np.divide(parts, wholes, out=np.full(len(starts), np.nan), where=wholes > 0)
        strip = {"x": [timestamp(trace, step) for step in [*starts.tolist(), trace.steps]], "yaxis": "y2"}
        steps = {"line": {"color": colour, "width": 1.8, "shape": "hv"}, "showlegend": False}
        level = [None if np.isnan(part) else round(float(part), 4) for part in relative]
        traces += [
            go.Scatter(common, y=grouped(curve), hovertemplate=hover("%{x}: %{y:.3g}", label)),
            go.Scatter(
                {**common, **strip, **steps},
                y=[*level, level[-1]],
                hovertemplate=hover("from %{x}: %{y:.0%}", label),
            ),
        ]
    shapes = [
        {
            "type": "rect",
            "yref": "paper",
            "x0": timestamp(trace, first),
            "x1": timestamp(trace, first + length),
            "y0": 0,
            "y1": 1,
            "fillcolor": "var(--hole)",
            "line": {"width": 0},
            "layer": "below",
        }
        for first, length in marked_outages(trace)
    ]
    return drawn(
        "fig3",
        "Fig. 3: devices available, and available for aggregation",
        "As MOHAWK's Fig. 3. Top: devices present, and how many of their models each system can aggregate if "
        "none ever fails (HierFAVG and MACFL: of those present at t and t + 1). Bottom: the same relative "
        f"to the most that any of them can, {_words(trace, together)}. {_about_holes(trace)}".rstrip(),
        traces,
        520,
        narrow={"height": 560},
        xaxis={"title": unit, "anchor": "y2", "showgrid": False},
        yaxis={"title": "devices", "domain": [0.4, 1.0], "rangemode": "tozero"},
        yaxis2={"title": "relative", "domain": [0.0, 0.32], "range": [0, 1.04], "tickformat": ".0%"},
        shapes=shapes,
    )


def _together(trace: Trace) -> int:
    """Steps that a level of the strip sums up: a day, where that makes a strip, else a fortieth of all."""
    day = max(1, round(86_400.0 / trace.step_s))
    return day if trace.steps >= 4 * day else max(1, -(-trace.steps // 40))


def _words(trace: Trace, together: int) -> str:
    if together == 1:
        return "step by step"
    return "day by day" if together * trace.step_s == 86_400.0 else f"{together} steps together"


def _about_holes(trace: Trace) -> str:
    """Known holes in the recording: the trace's marks, or what its import took for some."""
    if marked_outages(trace):
        return "Shaded: holes in the recording, as the trace marks them."
    because = empty_because(trace)
    if because is None:
        return ""
    found = because[HOLES]
    if not found:
        return "The import saw no hole in the recording."
    return (
        f"The import took {found} empty steps for holes in the recording and kept them as they are "
        "(`--outage mark` has them shaded)."
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
        narrow={},
        xaxis={"title": "hour of the day", "dtick": 2, "showgrid": False},
        yaxis={"title": "devices present", "rangemode": "tozero"},
        bargap=0.2,
        showlegend=len(traces) > 1,
    )


def hours_figure(trace: Trace) -> Figure:
    """The number of steps in which each device is present: as a histogram, and by rank."""
    counts = np.bincount(trace.device, minlength=len(trace.device_names))
    width = max(1, round(int(counts.max()) / 50))
    bins = np.arange(0, int(counts.max()) + width + 1, width)
    found, edges = np.histogram(counts, bins)
    ranked = np.sort(counts)[::-1]
    shown = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), 2000)).round().astype(np.int64))
    axes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"title": "steps present", "rangemode": "tozero", "showgrid": False}, {"title": "devices"}),
        ({"title": "rank", "rangemode": "tozero"}, {"title": "steps present", "rangemode": "tozero"}),
    ]
    low, middle, high = np.quantile(counts, (0.25, 0.5, 0.75)).tolist()
    return drawn(
        "steps-per-device",
        "Steps per device",
        f"First: devices by the number of steps in which they are present. Then: the same by rank. Quartiles "
        f"{low:g}, {middle:g}, {high:g}; the busiest has {int(counts.max()):,} of {trace.steps:,}.",
        [
            go.Bar(
                x=((edges[:-1] + edges[1:] - 1) / 2).tolist(),
                y=found.tolist(),
                width=width,
                marker={"color": BLUE, "line": {"color": PAPER, "width": 0.5}},
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
        narrow=panels(axes, 1, 200),
        **panels(axes, 2, 254),
        showlegend=False,
        bargap=0,
    )
