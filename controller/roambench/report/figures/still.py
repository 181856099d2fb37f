"""Figures as still pictures for readers without JavaScript: SVG from a figure's data, in the page's colours.

They have axes, lines, marks, bars, cells and a legend; no buttons and no hover text. Of very many points only
some are drawn.
"""

from __future__ import annotations

import html
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

from roambench.report.figures.figure import Figure, one_in

_WIDTH: Final = 1000
_LEFT, _RIGHT, _BOTTOM = 70, 40, 48
_LEGEND_ROW: Final = 18
_LETTER: Final = 6.4  # mean width of a letter of 12 pixels
#: More points of one trace, or more rectangles of one figure, would make the page too large.
_MOST_POINTS: Final = 300
_MOST_CELLS: Final = 3000
_DASHES: Final = {
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "11 4",
    "longdashdot": "11 4 2 4",
}


class _Axis:
    """An axis whose ends are those of the values that it was asked for, unless its layout gives others."""

    def __init__(self, layout: Mapping[str, Any], start: float, end: float) -> None:
        low, high = layout.get("domain") or (0.0, 1.0)
        self.layout = layout
        self.start, self.end = (start + part * (end - start) for part in (low, high))
        self.names: list[str] = list(layout.get("categoryarray") or ())
        # Names that lie below each other need a line's height, those side by side their length.
        self._tick_px = 11.0 if start > end else 160.0
        self._is_log = layout.get("type") == "log"
        self._seen: list[float] = []

    def values(self, coordinates: Iterable[Any]) -> list[float]:
        """Coordinates as numbers: NaN for none, its place for a name; the axis will hold them."""
        found = [self._number(at) for at in coordinates]
        self._seen += [value for value in found if math.isfinite(value)]
        return found

    def _number(self, at: Any) -> float:
        if isinstance(at, str):
            if at not in self.names:
                self.names.append(at)
            return float(self.names.index(at))
        if at is None or (self._is_log and at <= 0):
            return math.nan
        return math.log10(at) if self._is_log else float(at)

    def ends(self) -> tuple[float, float]:
        """The values at its start and its end."""
        given = self.layout.get("range")
        if given and None not in given:
            return float(given[0]), float(given[1])
        low, high = min(self._seen, default=0.0), max(self._seen, default=1.0)
        if self.names:
            low, high = -0.6, len(self.names) - 0.4
        elif self.layout.get("rangemode") == "tozero":
            low, high = min(0.0, low), 1.05 * max(0.0, high) or 1.0
        else:
            room = 0.04 * (high - low) or 0.5
            low, high = low - room, high + room
        return (high, low) if self.layout.get("autorange") == "reversed" else (low, high)

    def pixel(self, value: float) -> float:
        """The place of a value."""
        low, high = self.ends()
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Values and their texts."""
        low, high = sorted(self.ends())
        if self.names:
            every = one_in(len(self.names), max(1, int(abs(self.end - self.start) / self._tick_px)))
            found = [(float(place), name) for place, name in enumerate(self.names)][::every]
        else:
            raw = (high - low) / max(2.0, min(6.0, abs(self.end - self.start) / 45.0)) or 1.0
            power = 10.0 ** math.floor(math.log10(raw))
            step = next(part * power for part in (1, 2, 5, 10) if part * power >= raw * 0.999)
            step = max(1.0, step) if self._is_log else step
            places = [
                number * step
                for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
            ]
            found = [(at, f"{10.0**at if self._is_log else at + 0.0:,.6g}") for at in places]
        return [tick for tick in found if low <= tick[0] <= high]


def still(figure: Figure) -> str:
    """The figure as an SVG element; "" where it would have too many cells."""
    return _Drawing(figure).svg()


class _Drawing:
    """One figure on its way to be an SVG."""

    def __init__(self, figure: Figure) -> None:
        self._layout, self._height = figure.layout, int(figure.layout["height"])
        self._data = [trace for trace in figure.data if trace.get("visible", True) is True]
        named = [it for it in self._data if it.get("name") and it.get("showlegend", True) is not False]
        self._legend = list(_placed_legend(named)) if self._layout.get("showlegend", True) else []
        self._top = 32 + _LEGEND_ROW * (1 + max((row for row, _, _ in self._legend), default=-1))
        names = [
            str(name) for it in self._data if it.get("orientation") == "h" for name in _flat(it.get("y"))
        ]
        names += [name for it in self._data for name in _flat(it.get("y")) if isinstance(name, str)]
        self._left = min(
            330.0, max(_LEFT, 14 + _LETTER * max((len(_plain(name)) for name in names), default=0))
        )
        self._axes: dict[str, _Axis] = {}
        self._sums: dict[tuple[str, float, bool], float] = defaultdict(float)

    def svg(self) -> str:
        later = [self._shape(trace) for trace in self._data]  # the ends of axes are known after the last one
        pairs = dict.fromkeys((trace.get("xaxis", "x"), trace.get("yaxis", "y")) for trace in self._data)
        parts = [part for x, y in pairs for part in self._frame(self._axis(x), self._axis(y))]
        for shape in later:
            parts += shape()
            if len(parts) > _MOST_CELLS:
                return ""
        parts += self._notes()
        for row, left, trace in self._legend:
            at = 12 + _LEGEND_ROW * row
            parts.append(
                f'<rect x="{left:.0f}" y="{at - 5}" width="16" height="9" style="fill:{_colour(trace)}"/>'
            )
            parts.append(_text(trace["name"], left + 22, at + 4))
        return f'<svg class="still" viewBox="0 0 {_WIDTH} {self._height}">{"".join(parts)}</svg>'

    def _axis(self, name: str) -> _Axis:
        if name not in self._axes:
            layout = self._layout.get(f"{name[0]}axis{name[1:]}") or {}
            ends = (self._left, _WIDTH - _RIGHT) if name[0] == "x" else (self._height - _BOTTOM, self._top)
            self._axes[name] = _Axis(layout, *ends)
        return self._axes[name]

    def _shape(self, trace: Mapping[str, Any]) -> Any:
        x, y = self._axis(trace.get("xaxis", "x")), self._axis(trace.get("yaxis", "y"))
        if trace["type"] == "heatmap":
            columns = x.values(trace.get("x") or range(len(trace["z"][0])))
            rows = y.values(trace.get("y") or range(len(trace["z"])))
            return lambda: _cells(trace, x, y, columns, rows)
        if trace["type"] == "bar":
            lengths, places, bars = (x, y, "x") if trace.get("orientation") == "h" else (y, x, "y")
            at = places.values(_flat(trace.get("y" if bars == "x" else "x") or range(len(trace[bars]))))
            spans = []
            for place, length in zip(at, trace[bars], strict=True):
                key = (f"{id(lengths)}", place, (length or 0) < 0)
                start = self._sums[key] if self._layout.get("barmode") in ("stack", "relative") else 0.0
                self._sums[key] = start + (length or 0.0)
                spans.append((place, start, self._sums[key]))
            lengths.values([0.0, *(end for _, _, end in spans)])
            beside: list[Mapping[str, Any]] = [it for it in self._data if it["type"] == "bar"]
            if self._layout.get("barmode", "group") != "group":
                beside = [trace]
            part = (next(k for k, it in enumerate(beside) if it is trace), len(beside))
            return lambda: _bars(trace, spans, lengths, places, bars == "x", part)
        across = x.values(_flat(trace.get("x") or range(len(trace.get("y") or ()))))
        up = y.values(_flat(trace.get("y") or range(len(across))))
        if trace.get("fill") == "tozeroy":
            y.values([0.0])
        return lambda: _points(trace, across, up, x, y)

    def _frame(self, x: _Axis, y: _Axis) -> Iterator[str]:
        left, right, low, high = x.start, x.end, y.start, y.end
        frame = f'<path class="axis" d="M{left:.0f} {high:.0f}V{low:.0f}H{right:.0f}"/>'
        for value, text in y.ticks():
            at = y.pixel(value)
            if not y.names:
                yield f'<path class="grid" d="M{left:.0f} {at:.1f}H{right:.0f}"/>'
            if y.layout.get("showticklabels", True):
                yield _text(text, left - 7, at + 4, "end")
        if x.layout.get("showticklabels", True):
            for value, text in x.ticks():
                yield _text(text, x.pixel(value), low + 17, "middle")
            yield _text(_title(x), right, low + 36, "end")
        yield _text(_title(y), max(2.0, left - _LEFT + 8), high - 7)
        yield frame

    def _notes(self) -> Iterator[str]:
        for note in self._layout.get("annotations") or ():
            if note.get("xref", "paper") == note.get("yref", "paper") == "paper":
                across = self._left + note.get("x", 0.0) * (_WIDTH - _RIGHT - self._left)
                up = self._height - _BOTTOM - note.get("y", 1.0) * (self._height - _BOTTOM - self._top)
                yield _text(note.get("text", ""), across, up - 5)


def _cells(
    trace: Mapping[str, Any], x: _Axis, y: _Axis, columns: Sequence[float], rows: Sequence[float]
) -> list[str]:
    values = [value for row in trace["z"] for value in row if value is not None]
    if not values:
        return []
    low, high = trace.get("zmin", min(values)), trace.get("zmax", max(values))
    scale = trace.get("colorscale") or [[0.0, "var(--scale-1)"], [1.0, "var(--scale-5)"]]

    def colour(value: float | None) -> str:
        part = -1.0 if value is None else (value - low) / ((high - low) or 1.0)
        return str(next((name for end, name in reversed(scale) if end <= part + 1e-9), "none"))

    half = (columns[1] - columns[0]) / 2 if len(columns) > 1 else 0.5
    tall = (rows[1] - rows[0]) / 2 if len(rows) > 1 else 0.5
    found = []
    for at, row in zip(rows, trace["z"], strict=True):
        top, bottom = sorted((y.pixel(at - tall), y.pixel(at + tall)))
        for name, run in groupby(zip(columns, row, strict=True), lambda cell: colour(cell[1])):
            spans = [place for place, _ in run]
            left, right = sorted((x.pixel(spans[0] - half), x.pixel(spans[-1] + half)))
            found.append(_rect(left, top, right - left, bottom - top - 1, name))
    return found


def _bars(
    trace: Mapping[str, Any],
    spans: Sequence[tuple[float, float, float]],
    lengths: _Axis,
    places: _Axis,
    lying: bool,
    part: tuple[int, int],
) -> list[str]:
    """Bars from a start to an end at their places; `part`: which of how many that stand beside each other."""
    steps = sorted({place for place, _, _ in spans})
    wide = 0.7 * min((b - a for a, b in pairwise(steps)), default=1.0)
    colours = (trace.get("marker") or {}).get("color") or "var(--accent)"
    found = []
    for index, (place, start, end) in enumerate(spans):
        if not math.isfinite(place) or start == end:
            continue
        one, other = sorted((lengths.pixel(start), lengths.pixel(end)))
        edges = (place + wide * ((part[0] + side) / part[1] - 0.5) for side in (0, 1))
        low, high = sorted(map(places.pixel, edges))
        colour = colours if isinstance(colours, str) else colours[index]
        box = (one, low, other - one, high - low) if lying else (low, one, high - low, other - one)
        found.append(_rect(*box, str(colour)))
    return found


def _points(
    trace: Mapping[str, Any], across: Sequence[float], up: Sequence[float], x: _Axis, y: _Axis
) -> list[str]:
    mode, every = str(trace.get("mode") or "lines"), one_in(len(across), _MOST_POINTS)
    points = [(x.pixel(a), y.pixel(b)) for a, b in list(zip(across, up, strict=False))[::every]]
    line, marker, found = trace.get("line") or {}, trace.get("marker") or {}, []
    opacity = f";opacity:{trace['opacity']}" if trace.get("opacity") is not None else ""
    shape = str(line.get("shape") or "")
    path, down = "", False
    for a, b in points:
        there = math.isfinite(a) and math.isfinite(b)
        if there and down:
            path += f"H{a:.1f}V{b:.1f}" if shape.startswith("hv") else f"L{a:.1f} {b:.1f}"
        elif there:
            path += f"M{a:.1f} {b:.1f}"
        down = there
    if trace.get("fill") and path:
        ends = (
            f"V{y.pixel(0.0):.1f}H{points[0][0]:.1f}Z"
            if trace["fill"] == "tozeroy" and len(path) < 1e5
            else "Z"
        )
        found.append(f'<path d="{path}{ends}" style="fill:{trace.get("fillcolor") or "none"}{opacity}"/>')
    if "lines" in mode and path and line.get("width") != 0:
        dash = f";stroke-dasharray:{_DASHES[line['dash']]}" if line.get("dash") in _DASHES else ""
        style = f"fill:none;stroke:{_colour(trace)};stroke-width:{line.get('width', 2)}{dash}{opacity}"
        found.append(f'<path d="{path}" style="{style}"/>')
    found += _bars_of_error(trace, across[::every], up[::every], x, y, every)
    seen = [(a, b) for a, b in points if math.isfinite(a) and math.isfinite(b)]
    if "markers" in mode and seen:
        size = marker.get("size", 6)
        sizes = size[::every] if isinstance(size, list) else [size] * len(points)
        dots = "".join(
            f"M{a:.1f} {b:.1f}h0"
            for (a, b), wide in zip(points, sizes, strict=False)
            if (wide or 0) >= 1 and math.isfinite(a + b)
        )
        wide = sum(part or 0 for part in sizes) / len(sizes)
        style = f"stroke:{_colour(trace, 'marker')};stroke-width:{wide};stroke-linecap:round{opacity}"
        found.append(f'<path d="{dots}" style="{style}"/>')
    texts = trace.get("text")
    if "text" in mode and isinstance(texts, list):
        anchor = "start" if "right" in str(trace.get("textposition")) else "middle"
        lift = 4 if anchor == "start" else -8
        found += [
            _text(words, a, b + lift, anchor)
            for (a, b), words in zip(points, texts[::every], strict=False)
            if math.isfinite(a + b)
        ]
    return found


def _bars_of_error(
    trace: Mapping[str, Any], across: Sequence[float], up: Sequence[float], x: _Axis, y: _Axis, every: int
) -> list[str]:
    path = ""
    for name in ("error_x", "error_y"):
        bars = trace.get(name) or {}
        more = (bars.get("array") or [])[::every]
        less = (bars.get("arrayminus") or bars.get("array") or [])[::every]
        for a, b, plus, minus in zip(across, up, more, less, strict=False):
            if not math.isfinite(a + b) or plus is None or minus is None:
                continue
            if name == "error_x":
                path += f"M{x.pixel(a - minus):.1f} {y.pixel(b):.1f}H{x.pixel(a + plus):.1f}"
            else:
                path += f"M{x.pixel(a):.1f} {y.pixel(b - minus):.1f}V{y.pixel(b + plus):.1f}"
    return [f'<path d="{path}" style="stroke:{_colour(trace)};stroke-width:1"/>'] if path else []


def _placed_legend(named: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, float, Mapping[str, Any]]]:
    """The row, the left edge and the trace of each name."""
    row, left = 0, 8.0
    for trace in named:
        wide = 44 + _LETTER * len(_plain(trace["name"]))
        if left + wide > _WIDTH and left > 8.0:
            row, left = row + 1, 8.0
        yield row, left, trace
        left += wide


def _colour(trace: Mapping[str, Any], first: str = "line") -> str:
    for part in (first, "line", "marker"):
        colour = (trace.get(part) or {}).get("color")
        if isinstance(colour, str):
            return colour
    return str(trace.get("fillcolor") or "var(--accent)")


def _flat(values: Any) -> list[Any]:
    """Coordinates, those of two levels as one text each."""
    flat = list(values if values is not None else ())
    if flat and isinstance(flat[0], list):
        return [" ".join(dict.fromkeys(map(str, levels))) for levels in zip(*flat, strict=True)]
    return flat


def _title(axis: _Axis) -> str:
    title = axis.layout.get("title") or ""
    return str(title if isinstance(title, str) else title.get("text") or "")


def _plain(text: str) -> str:
    """A label of Plotly's without its markup."""
    return html.unescape(re.sub(r"</?(?:b|br|i|sub|sup)\s*/?>", " ", str(text))).strip()


def _text(text: str, x: float, y: float, anchor: str = "start") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}"{where}>{html.escape(_plain(text))}</text>' if text else ""


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    size = f'width="{max(0.5, width):.1f}" height="{max(0.5, height):.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} style="fill:{colour}"/>'
