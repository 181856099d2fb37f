"""Charts as Plotly's figures, for pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from roambench.report.figures.chart import Bars, Chart, ChartAxis, ChartLevel, Series, total_text
from roambench.report.figures.figure import Figure, drawn, hover, safe
from roambench.report.figures.look import MUTED, PAPER, pattern

_UNMARKED: Final = 0.1  # the size of a mark that is not to be seen


def page_figure(chart: Chart) -> Figure:
    """A page's figure of the chart."""
    layout: dict[str, Any] = {"xaxis": _axis(chart.x), "yaxis": _axis(chart.y)}
    if chart.rows:
        layout |= {"yaxis": _ROW_AXIS, "barmode": "stack", "bargap": 0.3}
    if chart.totals:
        layout["margin_r"] = 70  # room for their numbers
    if chart.levels:
        layout["shapes"] = _levels(chart.levels)
    traces = _bars(chart) if chart.rows else _traces(chart)
    return drawn(chart.key, chart.title, chart.caption, traces, chart.height, None, **layout)


def side_by_side(left: Chart, right: Chart) -> Figure:
    """One figure of two charts, with the left one's title and caption; a narrow screen has the right one
    below. A name stands once in the legend."""
    across, across2, up, up2 = (_axis(axis) for axis in (left.x, right.x, left.y, right.y))
    seen = {series.name for series in left.series}
    traces = [*_traces(left), *_traces(right, {"xaxis": "x2", "yaxis": "y2"}, seen)]
    return drawn(
        left.key,
        left.title,
        left.caption,
        traces,
        left.height,
        xaxis=across | {"domain": [0, 0.46]},
        yaxis=up,
        xaxis2=across2 | {"domain": [0.56, 1], "anchor": "y2"},
        yaxis2=up2 | {"anchor": "x2"},
        shapes=_levels(left.levels),
        narrow={
            "height": 640,
            "xaxis": across | {"domain": [0, 1]},
            "yaxis": up | {"domain": [0.58, 1]},
            "xaxis2": across2 | {"domain": [0, 1], "anchor": "y2"},
            "yaxis2": up2 | {"anchor": "x2", "domain": [0, 0.42]},
        },
    )


_ROW_AXIS: Final[Mapping[str, Any]] = {
    "showgrid": False,
    "ticks": "",
    "dividercolor": "var(--border)",
    "autorange": "reversed",
}


def _axis(axis: ChartAxis) -> dict[str, Any]:
    found: dict[str, Any] = {"title": safe(f"{axis.title}, {axis.unit}" if axis.unit else axis.title)}
    if axis.from_zero:
        found["rangemode"] = "tozero"
    if axis.log:
        found["type"] = "log"
    if axis.limits is not None:
        found["range"] = [math.log10(end) if axis.log else end for end in axis.limits]
    return found


def _traces(
    chart: Chart, axes: Mapping[str, str] | None = None, seen: set[str] | None = None
) -> Iterator[go.Scatter]:
    for series in chart.series:
        again = series.name in (seen or ())
        if series.dash and series.lower:
            yield _band(series).update(axes)
        trace = _line(series) if series.dash else _marks(series)
        trace.update(axes, showlegend=False if again or not series.named else None)
        yield trace.update(legendgroup=safe(series.group) if series.group else None)


def _line(series: Series) -> go.Scatter:
    sizes = [series.mark_size if marked else _UNMARKED for marked in series.marked] or series.mark_size
    return go.Scatter(
        _common(series),
        mode="lines+markers" if series.mark else "lines",
        line={"color": series.colour, "dash": series.dash, "width": series.width},
        line_shape="hv" if series.stepped else None,
        marker={"color": series.colour, "symbol": series.mark, "size": sizes} if series.mark else None,
    )


def _marks(series: Series) -> go.Scatter:
    bars = None
    if series.lower:
        ends = list(zip(series.lower, series.y, series.upper, strict=True))
        bars = {
            "array": [high - (at or 0.0) for _, at, high in ends],
            "arrayminus": [(at or 0.0) - low for low, at, _ in ends],
            "color": series.colour,
            "thickness": 1.5,
            "width": 4,
        }
    return go.Scatter(
        _common(series),
        mode="markers",
        error_y=bars,
        marker={"symbol": series.mark, "color": series.colour, "size": series.mark_size},
        marker_line={"color": series.colour, "width": 1.5},
    )


def _common(series: Series) -> dict[str, Any]:
    return {
        "name": safe(series.name),
        "x": list(series.x),
        "y": list(series.y),
        "customdata": list(series.notes) or None,
        "hovertemplate": hover(series.hover, series.name) if series.hover else None,
    }


def _band(series: Series) -> go.Scatter:
    x, lower, upper = list(series.x), list(series.lower), list(series.upper)
    if series.stepped:  # each value lasts until the next
        x = [at for at in x for _ in "ab"][1:]
        lower, upper = ([value for value in ends for _ in "ab"][:-1] for ends in (lower, upper))
    return go.Scatter(
        mode="lines",
        x=[*x, *reversed(x)],
        y=[*upper, *reversed(lower)],
        fill="toself",
        fillcolor=series.colour,
        opacity=0.15,
        line_width=0,
        hoverinfo="skip",
        showlegend=False,
        legendgroup=safe(series.group) if series.group else None,
    )


def _levels(levels: Sequence[ChartLevel]) -> list[dict[str, Any]]:
    font = {"size": 11, "color": MUTED}
    return [
        {
            "xref": "x domain",
            "x0": 0,
            "x1": 1,
            "y0": level.value,
            "y1": level.value,
            "line_color": MUTED,
            "label": {"text": level.text, "textposition": "start", "yanchor": "bottom", "font": font},
        }
        for level in levels
    ]


def _bars(chart: Chart) -> Iterator[Any]:
    names = [safe(row.name) for row in chart.rows]
    grouped = any(row.group for row in chart.rows)
    rows = [[safe(row.group) for row in chart.rows], names] if grouped else names
    for bars in chart.bars:
        yield _bar(bars, rows, [f"{length:g}" for length in bars.lengths] if chart.counted else None)
    if chart.totals:
        ends = [total.joules + 2.0 * total.u_joules for total in chart.totals]
        yield go.Scatter(
            mode="text",
            y=rows,
            x=ends,
            error_x={
                "array": [0.0] * len(ends),
                "arrayminus": [4.0 * total.u_joules for total in chart.totals],
                "color": "var(--ink)",
                "thickness": 1,
                "width": 3,
            },
            text=[f"  {total_text(total)} J" for total in chart.totals],
            textposition="middle right",
            showlegend=False,
            hoverinfo="skip",
            cliponaxis=False,
        )


def _bar(bars: Bars, rows: Sequence[Any], texts: Sequence[str] | None) -> go.Bar:
    return go.Bar(
        orientation="h",
        name=safe(bars.name),
        y=rows,
        x=[round(length, 3) for length in bars.lengths],
        text=texts,
        marker={
            "color": bars.colour,
            "line": {"color": PAPER, "width": 1},
            "pattern": pattern(bars.pattern),
        },
        hovertemplate=hover(bars.hover, bars.name) if bars.hover else None,
    )
