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
#: More points of one trace, or a longer picture, would make the page too large.
_MOST_POINTS: Final = 300
_MOST_BYTES: Final = 100_000
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
        self.is_linear = layout.get("type") != "log"
        self._seen: list[float] = []

    def values(self, coordinates: Iterable[Any]) -> list[float]:
        """Coordinates as numbers: NaN for none, its place for a name; the axis will hold them."""
        found = [self._number(at) for at in coordinates]
        self._seen += [value for value in found if math.isfinite(value)]
        return found

    def place(self, at: Any) -> float:
        """A coordinate as a number; of a name that the axis does not have its end."""
        return float(len(self.names)) if isinstance(at, str) and at not in self.names else self._number(at)

    def _number(self, at: Any) -> float:
        if isinstance(at, str):
            if at not in self.names:
                self.names.append(at)
            return float(self.names.index(at))
        if at is None or (not self.is_linear and at <= 0):
            return math.nan
        return float(at) if self.is_linear else math.log10(at)

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
            step = step if self.is_linear else max(1.0, step)
            places = [
                number * step
                for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
            ]
            found = [(at, f"{at + 0.0 if self.is_linear else 10.0**at:,.6g}") for at in places]
        return [tick for tick in found if low <= tick[0] <= high]


def still(figure: Figure) -> str:
    """The figure as an SVG element; "" where it would be too long."""
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
            if sum(map(len, parts)) > _MOST_BYTES:
                return ""
        parts += self._marks()
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
            self._axes[name] = _Axis(layout, *self._ends(name[0]))
        return self._axes[name]

    def _shape(self, trace: Mapping[str, Any]) -> Any:
        x, y = self._axis(trace.get("xaxis", "x")), self._axis(trace.get("yaxis", "y"))
        if trace["type"] == "heatmap" and not trace["z"]:
            return list
        if trace["type"] == "heatmap":
            columns = x.values(_places(trace, "x", len(trace["z"][0])))
            rows = y.values(_places(trace, "y", len(trace["z"])))
            for axis, middles in ((x, columns), (y, rows)):
                axis.values(_edges(axis, middles))
            scale = self._layout.get(str(trace.get("coloraxis"))) or {}
            return lambda: _cells({**trace, **scale}, x, y, columns, rows)
        if trace["type"] == "bar":
            lengths, places, bars = (x, y, "x") if trace.get("orientation") == "h" else (y, x, "y")
            at = places.values(_flat(trace.get("y" if bars == "x" else "x") or range(len(trace[bars]))))
            spans: list[tuple[float, float, float]] = []
            for place, length in zip(at, trace[bars], strict=True):
                key = (f"{id(lengths)}", place, (length or 0) < 0)
                start = self._sums[key] if self._layout.get("barmode") in ("stack", "relative") else 0.0
                self._sums[key] = start + (length or 0.0)
                begin, end = (lengths.place(value) if value else 0.0 for value in (start, self._sums[key]))
                spans.append((place, begin, end))
                lengths.values([0.0, self._sums[key]])
            places.values(_edges(places, at))
            beside: list[Mapping[str, Any]] = [
                it for it in self._data if it["type"] == "bar" and it.get("xaxis") == trace.get("xaxis")
            ]
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

    def _marks(self) -> Iterator[str]:
        """Lines and areas that stand for no trace: levels, limits, outages."""
        for shape in self._layout.get("shapes") or ():
            x0, x1 = (self._at(shape, "x", end) for end in ("x0", "x1"))
            y0, y1 = (self._at(shape, "y", end) for end in ("y0", "y1"))
            if shape.get("type") == "rect":
                box = (min(x0, x1), min(y0, y1), abs(x1 - x0), abs(y1 - y0))
                yield _rect(*box, str(shape.get("fillcolor") or "none"))
                continue
            colour = shape.get("line_color") or (shape.get("line") or {}).get("color") or "var(--muted)"
            yield f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" style="stroke:{colour};stroke-width:1"/>'
            yield _text((shape.get("label") or {}).get("text") or "", min(x0, x1) + 4, y1 - 4)

    def _at(self, shape: Mapping[str, Any], letter: str, end: str) -> float:
        """The pixel of a shape's end: on an axis, or a part of its length or of the whole picture's."""
        ref, at = str(shape.get(f"{letter}ref") or letter), shape[end]
        if ref == "paper":
            start, stop = self._ends(letter)
            return start + float(at) * (stop - start)
        axis = self._axis(ref.removesuffix(" domain"))
        if ref.endswith("domain"):
            return axis.start + float(at) * (axis.end - axis.start)
        return axis.pixel(axis.place(at))

    def _ends(self, letter: str) -> tuple[float, float]:
        return (self._left, _WIDTH - _RIGHT) if letter == "x" else (self._height - _BOTTOM, self._top)

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
    low, high = (
        next((trace[key] for key in (f"c{end}", f"z{end}") if key in trace), found(values))
        for end, found in (("min", min), ("max", max))
    )
    scale = trace.get("colorscale") or [[0.0, "var(--scale-1)"], [1.0, "var(--scale-5)"]]

    def colour(value: float | None) -> str:
        return "none" if value is None else _scaled(scale, (value - low) / ((high - low) or 1.0))

    half = (columns[1] - columns[0]) / 2 if len(columns) > 1 else 0.5
    tall = (rows[1] - rows[0]) / 2 if len(rows) > 1 else 0.5
    paths: dict[str, str] = defaultdict(str)  # of one colour
    for at, row in zip(rows, trace["z"], strict=True):
        top, bottom = sorted((y.pixel(at - tall), y.pixel(at + tall)))
        for name, run in groupby(zip(columns, row, strict=True), lambda cell: colour(cell[1])):
            spans = [place for place, _ in run]
            left, right = sorted((x.pixel(spans[0] - half), x.pixel(spans[-1] + half)))
            wide = max(0.5, right - left)
            paths[name] += f"M{left:.1f} {top:.1f}h{wide:.1f}v{max(0.5, bottom - top - 1):.1f}h-{wide:.1f}z"
    return [f'<path d="{path}" style="fill:{name}"/>' for name, path in paths.items()]


def _scaled(scale: Sequence[Sequence[Any]], part: float) -> str:
    """The colour of a part of a scale, which has steps of 10 % between two of its colours or more."""
    part = min(max(part, 0.0), 1.0)
    index = next(k for k in range(len(scale) - 1, -1, -1) if scale[k][0] <= part + 1e-9)
    (below, colour), (above, other) = scale[index], scale[min(index + 1, len(scale) - 1)]
    share = 10 * round(10 * (part - below) / (above - below)) if above > below else 0
    return f"color-mix(in srgb,{other} {share}%,{colour})" if share and other != colour else str(colour)


def _places(trace: Mapping[str, Any], letter: str, count: int) -> Sequence[Any]:
    """The middles of a heat map's columns or rows."""
    if f"d{letter}" in trace:
        return [trace[f"{letter}0"] + trace[f"d{letter}"] * index for index in range(count)]
    return trace.get(letter) or range(count)


def _edges(axis: _Axis, places: Sequence[float]) -> tuple[float, ...]:
    """Half a step before the first of some numbers and after the last: cells and bars have a width."""
    steps = sorted(set(places))
    if axis.names or not steps or not axis.is_linear:
        return ()
    half = 0.5 * min((b - a for a, b in pairwise(steps)), default=1.0)
    return steps[0] - half, steps[-1] + half


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
        dots: dict[str, str] = defaultdict(str)
        colours = _colours_of_marks(trace, len(across))[::every]
        for (a, b), wide, colour in zip(points, sizes, colours, strict=False):
            if (wide or 0) >= 1 and math.isfinite(a + b):
                dots[colour] += f"M{a:.1f} {b:.1f}h0"
        wide = sum(part or 0 for part in sizes) / len(sizes)
        for colour, path in dots.items():
            style = f"stroke:{colour};stroke-width:{wide};stroke-linecap:round{opacity}"
            found.append(f'<path d="{path}" style="{style}"/>')
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


def _colours_of_marks(trace: Mapping[str, Any], count: int) -> list[str]:
    marker = trace.get("marker") or {}
    colours = marker.get("color")
    if not isinstance(colours, list) or not colours:
        return [_colour(trace, "marker")] * count
    if isinstance(colours[0], str):
        return colours
    low, high = marker.get("cmin", min(colours)), marker.get("cmax", max(colours))
    return [_scaled(marker["colorscale"], (value - low) / ((high - low) or 1.0)) for value in colours]


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
