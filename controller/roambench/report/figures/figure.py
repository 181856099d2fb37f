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
    """The names of an axis for a narrow screen: smaller ones, over several lines."""
    lines = ["<br>".join(safe(line) for line in textwrap.wrap(name, 18)) for name in names]
    return {"tickvals": [safe(name) for name in names], "ticktext": lines, "tickfont": {"size": 11}}
