"""Charts as matplotlib draws them, for papers: vectors that are legible without colours, fonts in the file.

Every line, mark and bar bears a name in the SVG (`accuracy-0`, `energy-1-wasted-train`: chart, row or series,
part), so that a program finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from textwrap import shorten, wrap
from typing import Any, Final

from roambench.report.figures.chart import Chart, ChartAxis, Series, total_text
from roambench.report.figures.look import LIGHT, painted
from roambench.report.tracked import missing

#: Type of 8 points as IEEE wants it; TrueType in a PDF, outlines in an SVG: no reader needs the font.
_LOOK: Final[Mapping[str, Any]] = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.edgecolor": LIGHT["--soft"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": LIGHT["--grid"],
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "text.parse_math": False,  # a run's name is no formula
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "roambench",
    "savefig.dpi": 600,
}
#: What grows with the scale of a style.
_SIZES: Final = tuple(name for name in _LOOK if name.endswith(("size", "width", "fontsize")))
#: matplotlib's names of Plotly's dashes, marks and patterns.
_DASHES: Final[Mapping[str, Any]] = {
    "": "none",
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 2, 3)),
}
_MARKS: Final[Mapping[str, str]] = {
    "": "",
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "x": "X",
    "hexagon": "h",
    "pentagon": "p",
    "star": "*",
    "line-ew-open": "_",
}
_OTHER_MARK: Final = "v"
_HATCH_DENSITY: Final = 3
#: More marks than this would hide their line; its corners stay.
_MOST_MARKS: Final = 20
_EDGE: Final = "#1d2733"


@contextmanager
def print_look(scale: float = 1.0) -> Iterator[type[Any]]:
    """The look of printed figures while it lasts, with type and lines `scale` times as large; gives
    matplotlib's figure, that of no window. RunError where matplotlib is not installed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing(error, "matplotlib", "figures") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        matplotlib.rcParams.update({name: scale * _LOOK[name] for name in _SIZES})
        yield Figure


def printed(figure: Any, kind: str) -> bytes:
    """The figure as a file of this kind, the same bytes every time."""
    dated = {"pdf": "CreationDate", "svg": "Date"}
    content = BytesIO()
    figure.savefig(content, format=kind, metadata={dated[kind]: None} if kind in dated else None)
    return content.getvalue()


def height_in(chart: Chart) -> float:
    """The height of a chart in a paper, bars by the lines of their names."""
    if not chart.rows:
        return 2.2
    lines = max(_row_name(chart, place).count("\n") for place in range(len(chart.rows))) + 1
    above = 0.15 * -(-len(chart.bars) // 3)  # the legend
    return 0.6 + above + (0.1 + 0.12 * lines) * len(chart.rows)


def draw(chart: Chart, axes: Any, *, legend: bool = True) -> None:
    """Draw the chart on these axes of matplotlib's."""
    handles = _draw_rows(chart, axes) if chart.rows else _draw_series(chart, axes)
    axes.set_xlabel(_label(chart.x))
    if legend:
        _draw_legend(axes, handles)


def small_multiples_svg(charts: Sequence[Chart], width_in: float) -> str:
    """Charts of the same axes as one SVG, two abreast under their titles, with one legend."""
    with print_look() as drawing:
        columns = min(2, len(charts))
        rows = -(-len(charts) // columns)
        figure = drawing(figsize=(width_in * columns / 2, 0.3 + 2.0 * rows), layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
        handles: dict[str, Any] = {}
        for axes, chart in zip(panels, charts, strict=False):
            handles |= _draw_series(chart, axes)
            axes.set_title(chart.title, loc="left")
            axes.set_xlabel(_label(chart.x))
            axes.tick_params(labelbottom=True)
        for axes in panels[len(charts) :]:
            axes.remove()
        figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=6)
        return printed(figure, "svg").decode()


def _scaled(length: float) -> float:
    """A length of a journal's figure in the style that is drawn."""
    import matplotlib

    return float(length * matplotlib.rcParams["font.size"] / _LOOK["font.size"])


def _label(axis: ChartAxis) -> str:
    return f"{axis.title} ({axis.unit})" if axis.unit else axis.title


def _draw_series(chart: Chart, axes: Any) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for series in chart.series:
        drawn = _draw_line(chart, series, axes) if series.dash else _draw_marks(chart, series, axes)
        if series.named:
            handles.setdefault(series.name, drawn)
    for level in chart.levels:
        axes.axhline(level.value, color=LIGHT["--muted"], linestyle=":", linewidth=_scaled(0.8), zorder=1)
    axes.set_ylabel(_label(chart.y))
    for axis, set_scale, ends, set_ends in (
        (chart.x, axes.set_xscale, axes.get_xlim, axes.set_xlim),
        (chart.y, axes.set_yscale, axes.get_ylim, axes.set_ylim),
    ):
        if axis.log:
            set_scale("log")
        if axis.limits is not None:
            set_ends(*axis.limits)
        elif axis.from_zero:
            set_ends(min(0.0, ends()[0]))
    if not chart.x.log:
        axes.xaxis.set_major_formatter("{x:,.10g}")
    return handles


def _draw_line(chart: Chart, series: Series, axes: Any) -> Any:
    colour = painted(series.colour)
    values = [float("nan") if value is None else value for value in series.y]
    (line,) = axes.plot(
        series.x,
        values,
        color=colour,
        linestyle=_DASHES[series.dash],
        linewidth=_scaled(0.6 * series.width),
        marker=_mark(series),
        drawstyle="steps-post" if series.stepped else "default",
        markevery=_marked(series),
    )
    line.set_gid(f"{chart.key}-{series.id}")
    if series.lower:
        axes.fill_between(
            series.x,
            series.lower,
            series.upper,
            color=colour,
            alpha=0.15,
            linewidth=0,
            step="post" if series.stepped else None,
        )
    return line


def _draw_marks(chart: Chart, series: Series, axes: Any) -> Any:
    ends = list(zip(series.lower, series.y, series.upper, strict=True)) if series.lower else []
    bars = [
        [(at or 0.0) - low for low, at, _ in ends],
        [high - (at or 0.0) for _, at, high in ends],
    ]
    points = axes.errorbar(
        series.x,
        series.y,
        yerr=bars if ends else None,
        color=painted(series.colour),
        marker=_mark(series),
        capsize=2,
        linewidth=_scaled(0.8),
        linestyle="none",
    )
    points.lines[0].set_gid(f"{chart.key}-{series.id}")
    return points


def _mark(series: Series) -> str:
    return _MARKS.get(series.mark, _OTHER_MARK)


def _marked(series: Series) -> list[int]:
    count = len(series.x)
    chosen = [place for place in range(count) if not series.marked or series.marked[place]]
    return chosen[:: 1 + len(chosen) // _MOST_MARKS]


def _draw_rows(chart: Chart, axes: Any) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    ends = [0.0] * len(chart.rows)
    for part in chart.bars:
        for place, (row, length) in enumerate(zip(chart.rows, part.lengths, strict=True)):
            if length > 0.0:
                bar = axes.barh(
                    place,
                    length,
                    0.66,
                    ends[place],
                    color=painted(part.colour),
                    hatch=_HATCH_DENSITY * part.pattern,
                    edgecolor=_EDGE,
                    linewidth=_scaled(0.4),
                )
                bar.patches[0].set_gid("-".join(filter(None, (chart.key, row.id, part.name))))
                handles.setdefault(part.name, bar)
                if chart.counted:
                    _write_count(axes, f"{length:g}", ends[place] + length / 2, place)
                ends[place] += length
    for place, total in enumerate(chart.totals):
        u = 2.0 * total.u_joules
        axes.errorbar(total.joules, place, xerr=u, color=_EDGE, capsize=2, linewidth=_scaled(0.8), fmt="none")
        axes.annotate(
            total_text(total),
            (total.joules + u, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=_scaled(7),
        )
    if chart.totals:
        axes.margins(x=0.14)
    names = [_row_name(chart, place) for place in range(len(chart.rows))]
    axes.set_yticks(range(len(names)), names, linespacing=1.0)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0.0, None)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter("{x:,.10g}")
    return handles


def _write_count(axes: Any, text: str, x: float, y: float) -> None:
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    axes.annotate(text, (x, y), ha="center", va="center", fontsize=_scaled(7), bbox=behind)


def _row_name(chart: Chart, place: int) -> str:
    """A row's name on at most three lines; the first row of a group has the group's, too."""
    row = chart.rows[place]
    first = place == 0 or chart.rows[place - 1].group != row.group
    return "\n".join(wrap(f"{row.group}, {row.name}" if row.group and first else row.name, 17)[:3])


def _draw_legend(axes: Any, handles: Mapping[str, Any]) -> None:
    names = [shorten(name, 44) for name in handles]
    widest_in = _scaled(0.55 + 0.045 * max(map(len, names), default=0))
    axes.legend(
        handles.values(),
        names,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=max(1, min(len(names), int((axes.figure.get_figwidth() - 0.5) / widest_in))),
        columnspacing=1.2,
        handlelength=2.2,
        borderaxespad=0.2,
    )
