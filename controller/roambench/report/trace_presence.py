"""Figures of presence: availability over the steps, the mean day, the steps of every device."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from roambench.mobility.outages import marked_outages
from roambench.mobility.statistics import aggregated_per_step, stated_offset_h
from roambench.mobility.trace import Trace
from roambench.report.figures import Figure, axis, base_layout
from roambench.report.trace_axes import BLUE, GREEN, GREY, ORANGE, grouped, timestamp, timestamps

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
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "present",
            "x": opens,
            "y": grouped(per_step),
            "line": {"color": GREY, "width": 1, "shape": "hvh"},
            "fill": "tozeroy",
            "fillcolor": "rgba(136,148,163,0.16)",
            "hovertemplate": "%{x}: %{y:.3g} present<extra></extra>",
        }
    ]
    for (label, _, colour), curve in zip(_LINES, curves, strict=True):
        common: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines",
            "name": label,
            "legendgroup": label,
            "x": opens,
            "line": {"color": colour, "width": 1.1},
        }
        data.append(
            common | {"y": grouped(curve), "hovertemplate": "%{x}: %{y:.3g}<extra>" + label + "</extra>"}
        )
        relative = np.divide(curve, most, out=np.zeros(len(curve)), where=most > 0)
        data.append(common | {"y": grouped(relative), "yaxis": "y2", "showlegend": False})
    shapes = [
        {
            "type": "rect",
            "xref": "x",
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
    return Figure(
        "fig3",
        "Fig. 3: devices available, and available for aggregation",
        "As MOHAWK's Fig. 3. Top: devices present, and how many of their models each system can aggregate if "
        "nobody ever fails. Bottom: the same relative to the most that any of them can in that step." + told,
        data,
        base_layout(
            xaxis=axis(unit, anchor="y2", showgrid=False),
            yaxis=axis("devices", domain=[0.4, 1.0], rangemode="tozero"),
            yaxis2=axis("relative", domain=[0.0, 0.32], range=[0, 1.04]),
            shapes=shapes,
        ),
        520,
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
    data = []
    for name, kept, colour in (("all steps", up | True, BLUE), ("outages left out", up, GREEN)):
        if name != "all steps" and up.all():
            continue
        steps = np.bincount(hour[kept], minlength=24)
        means = np.bincount(hour[kept], weights=per_step[kept], minlength=24) / np.maximum(steps, 1)
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": list(range(24)),
                "y": means.round(3).tolist(),
                "marker": {"color": colour},
                "hovertemplate": "%{x} h: %{y:.1f}<extra>" + name + "</extra>",
            }
        )
    return Figure(
        "mean-day",
        "The mean day",
        f"Devices present by hour of the day ({zone}), mean over all days.",
        data,
        base_layout(
            xaxis=axis("hour of the day", dtick=2, showgrid=False),
            yaxis=axis("devices present", rangemode="tozero"),
            bargap=0.2,
            showlegend=len(data) > 1,
        ),
        320,
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
    return Figure(
        "steps-per-device",
        "Steps per device",
        f"Left: devices by the number of steps in which they are present. Right: the same by rank. Quartiles "
        f"{low:g}, {middle:g}, {high:g}; the busiest has {int(counts.max()):,} of {trace.steps:,}.",
        [
            {
                "type": "bar",
                "x": ((edges[:-1] + edges[1:] - 1) / 2).tolist(),
                "y": found.tolist(),
                "width": width,
                "marker": {"color": BLUE, "line": {"color": "white", "width": 0.5}},
                "hovertemplate": "about %{x} steps: %{y} devices<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "lines",
                "x": (shown + 1).tolist(),
                "y": ranked[shown].tolist(),
                "xaxis": "x2",
                "yaxis": "y2",
                "line": {"color": BLUE, "width": 2},
                "hovertemplate": "rank %{x}: %{y} steps<extra></extra>",
            },
        ],
        base_layout(
            showlegend=False,
            bargap=0,
            xaxis=axis("steps present", domain=[0, 0.46], rangemode="tozero", showgrid=False),
            yaxis=axis("devices"),
            xaxis2=axis("rank", domain=[0.56, 1], anchor="y2", rangemode="tozero"),
            yaxis2=axis("steps present", anchor="x2", rangemode="tozero"),
        ),
        340,
    )
