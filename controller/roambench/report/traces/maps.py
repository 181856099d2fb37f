"""Maps of a trace: its places, its access points, and where its devices are."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn, Trace
from roambench.report.figures.figure import MAP_AXES, Figure, drawn, km, one_in, safe
from roambench.report.figures.look import PAPER
from roambench.report.traces.access_points import shown_aps, shown_kind
from roambench.report.traces.axes import BLUE, panels

_MOST_POINTS: Final = 5000  # of places on one map; more only make the page heavy
_CELLS: Final = 35  # across a heat map: 500 m each in a box of 17.5 km
_HEAT: Final = [[at, f"var(--heat-{number})"] for number, at in enumerate((0, 0.02, 0.15, 0.45, 1), 1)]


def places_figure(trace: Trace, seed: int) -> Figure | None:
    """MOHAWK's Fig. 2: as many places spread evenly, the real ones, and the heat maps of both."""
    count = len(trace.place_x_m)
    if not count:
        return None
    (west, east), (south, north) = _extent(trace)
    draws = generator(seed, "uniform places").random((count, 2))
    even = (west + draws[:, 0] * (east - west), south + draws[:, 1] * (north - south))
    real = (trace.place_x_m, trace.place_y_m)
    heats = [_heat(x_m, y_m, ((west, east), (south, north))) for x_m, y_m in (even, real)]
    most = max(float(heat.max()) for heat in heats)
    traces = []
    titles = ("(a) spread evenly", "(b) heat map of (a)", "(c) this trace", "(d) heat map of (c)")
    short = ("(a) even", "(b) map of (a)", "(c) this trace", "(d) map of (c)")  # for two beside each other
    for panel in range(len(titles)):
        name = "" if panel == 0 else str(panel + 1)
        if panel % 2 == 0:
            trace_of = _dots(*(even, real)[panel // 2], "var(--dots)", 2.2, 0.5)
        else:
            trace_of = _heat_trace(heats[panel // 2], ((west, east), (south, north)), "places")
        traces.append(trace_of.update(xaxis=f"x{name}", yaxis=f"y{name}"))

    def arranged(columns: int, row_px: int) -> dict[str, Any]:
        every = max(1.0, round((east - west) / 4e3))
        axes = []
        for panel in range(len(titles)):
            name = "" if panel == 0 else str(panel + 1)
            common = {"showgrid": False, "constrain": "domain", "tick0": 0, "dtick": every}
            across = {"title": "east, km", "range": km(np.array((west, east)))}
            up = {"title": "" if panel % columns else "north, km", "range": km(np.array((south, north)))}
            axes.append((common | across, common | up | {"scaleanchor": f"x{name}"}))
        return panels(axes, columns, row_px, titles=titles if columns > 2 else short)

    return drawn(
        "fig2",
        f"Fig. 2: {count:,} places, even and as they are",
        "As MOHAWK's Fig. 2: an even spread over the same box, beside this trace's places. "
        + _thinned(count),
        traces,
        narrow=arranged(2, 130) | {"coloraxis": _scale(most, "places", below_px=70, of_px=348)},
        **arranged(4, 210),
        coloraxis=_scale(most, "places"),
        showlegend=False,
    )


def map_figure(trace: Trace) -> Figure:
    """Places and access points; an access point is as large as it is busy."""
    aps = shown_aps(trace)
    load = np.bincount(aps, minlength=len(trace.ap_names))
    size = 6.0 + 20.0 * np.sqrt(load / max(1, int(load.max())))
    traces = []
    if len(trace.place_x_m):
        traces.append(_dots(trace.place_x_m, trace.place_y_m, "var(--faint)", 3, 0.9).update(name="places"))
    traces.append(
        go.Scatter(
            mode="markers",
            name="access points",
            x=km(trace.ap_x_m),
            y=km(trace.ap_y_m),
            text=[safe(name) for name in trace.ap_names],
            customdata=load.tolist(),
            marker={"size": size.round(1).tolist(), "color": BLUE, "opacity": 0.75},
            marker_line={"color": PAPER, "width": 1},
            hovertemplate="%{text}: %{customdata} fixes at %{x:.2f}, %{y:.2f} km<extra></extra>",
        )
    )
    return drawn(
        "trace-map",
        "Places and access points",
        f"Each access point is as large as it is busy (fixes whose {shown_kind(trace)} access point it is). "
        + _thinned(len(trace.place_x_m)),
        traces,
        620,
        narrow={"height": 400},
        **MAP_AXES,
    )


def presence_heat_map(trace: Trace) -> Figure:
    """Device-steps by cell: where the devices are."""
    extent = _extent(trace)
    counts = _heat(trace.x_m, trace.y_m, extent)
    most = float(counts.max())
    return drawn(
        "presence-map",
        "Where the devices are",
        f"Fixes in each of {_CELLS} x {_CELLS} cells, all steps together.",
        [_heat_trace(counts, extent, "device-steps")],
        560,
        narrow={"height": 460, "coloraxis": _scale(most, "device-steps", below_px=70, of_px=300)},
        coloraxis=_scale(most, "device-steps"),
        **MAP_AXES,
    )


def _extent(trace: Trace) -> tuple[tuple[float, float], tuple[float, float]]:
    """Everything that the trace knows a place of, as ((west, east), (south, north)) in metres."""
    columns = ((trace.x_m, trace.place_x_m, trace.ap_x_m), (trace.y_m, trace.place_y_m, trace.ap_y_m))
    bounds = []
    for parts in columns:
        low = min(float(part.min()) for part in parts if len(part))
        high = max(float(part.max()) for part in parts if len(part))
        bounds.append((low, high if high > low else low + 1.0))
    return bounds[0], bounds[1]


def _heat(
    x_m: FloatColumn, y_m: FloatColumn, extent: tuple[tuple[float, float], tuple[float, float]]
) -> FloatColumn:
    """Points per cell, rows from the south: shape (cells, cells)."""
    counts, _, _ = np.histogram2d(y_m, x_m, bins=_CELLS, range=[extent[1], extent[0]])
    return np.asarray(counts, np.float64)


def _heat_trace(
    counts: FloatColumn, extent: tuple[tuple[float, float], tuple[float, float]], what: str
) -> Any:
    (west, east), (south, north) = extent
    return go.Heatmap(
        x0=(west + (east - west) / (2 * _CELLS)) / 1e3,
        dx=(east - west) / _CELLS / 1e3,
        y0=(south + (north - south) / (2 * _CELLS)) / 1e3,
        dy=(north - south) / _CELLS / 1e3,
        # A few cells hold most: by the root the rest still differs.
        z=np.sqrt(counts).round(3).tolist(),
        customdata=counts.astype(np.int64).tolist(),
        coloraxis="coloraxis",
        hovertemplate="%{customdata} " + what + "<extra></extra>",
    )


def _scale(most: float, what: str, below_px: float = 0.0, of_px: float = 1.0) -> dict[str, Any]:
    """Colours of heat maps by roots; the bar is marked with the counts themselves.

    It stands beside the maps, or lies so far below panels that are `of_px` high.
    """
    counts = [0, *(count for power in range(8) for count in (10**power, 3 * 10**power) if count < 0.8 * most)]
    marks = [*counts, round(most)]
    marks = [count for count in marks if count == 0 or count >= 0.01 * most]  # the rest would overlap
    lying = {"orientation": "h", "x": 0.5, "y": -below_px / of_px, "yanchor": "top", "len": 1.0}
    bar = {
        "title": {"text": what, "side": "top"},
        "thickness": 12,
        "tickvals": [count**0.5 for count in marks],
        "ticktext": [f"{count:,}" for count in marks],
        **(lying if below_px else {}),
    }
    return {"colorscale": _HEAT, "cmin": 0, "cmax": max(1.0, most) ** 0.5, "colorbar": bar}


def _dots(x_m: FloatColumn, y_m: FloatColumn, colour: str, size: float, opacity: float) -> Any:
    every = one_in(len(x_m), _MOST_POINTS)
    return go.Scatter(
        mode="markers",
        x=km(x_m[::every]),
        y=km(y_m[::every]),
        marker={"size": size, "color": colour, "opacity": opacity},
        hoverinfo="skip",
    )


def _thinned(count: int) -> str:
    every = one_in(count, _MOST_POINTS)
    return "" if every == 1 else f"Of the places every {every}th is drawn; heat maps count all."
