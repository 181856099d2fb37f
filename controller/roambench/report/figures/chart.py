"""A figure described once: pages draw it by Plotly (`plotly_charts`), papers by matplotlib (`print_charts`).

Colours are names of look.css (`report.figures.look`); dashes, marks and patterns have Plotly's names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roambench.energy.energy_value import Energy
from roambench.report.figures.look import INK, RUN_COLOURS, RUN_DASHES, RUN_SYMBOLS


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """`from_zero`: it begins at 0 unless values lie below. `limits`: its ends instead of those of the
    values."""

    title: str
    unit: str = ""
    from_zero: bool = False
    log: bool = False
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points joined by a line of this `dash`, or with "" marks alone.

    `id`: names it in an SVG, behind the chart's. `lower` and `upper`: the ends of a line's band, or of the
    bars of marks. `marked`: the points that bear the `mark`; (): all of them. `hover`: Plotly's template of
    what a page says of a point, `notes` its customdata. `named`: the legend has it.
    """

    id: str
    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str = INK
    dash: str = "solid"
    width: float = 2
    stepped: bool = False
    mark: str = ""
    mark_size: float = 8
    marked: Sequence[bool] = ()
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()
    hover: str = ""
    notes: Sequence[object] = ()
    group: str = ""  # what one click on the legend hides
    named: bool = True


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A row of bars: its name, below that of its `group` if it has one."""

    id: str
    name: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """One part of every row's stacked bar; `lengths` in the order of the rows."""

    name: str
    lengths: Sequence[float]
    colour: str
    pattern: str = ""
    hover: str = ""


@dataclass(frozen=True, slots=True)
class ChartLevel:
    """A dotted line across, at `value` of the upright axis."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One pair of axes with lines and marks, or with horizontal bars in `rows`, the first at the top.

    `totals`: the whole of each row with its uncertainty, drawn as an error bar of k = 2. `counted`: bars
    bear their lengths. `height` in pixels on a page.
    """

    key: str
    title: str
    caption: str
    x: ChartAxis
    y: ChartAxis = ChartAxis("")
    series: Sequence[Series] = ()
    rows: Sequence[ChartRow] = ()
    bars: Sequence[Bars] = ()
    totals: Sequence[Energy] = ()
    levels: Sequence[ChartLevel] = ()
    counted: bool = False
    height: int = 360


def run_colour(place: int) -> str:
    """The colour of a run, by its place in the report."""
    return RUN_COLOURS[place % len(RUN_COLOURS)]


def run_dash(place: int) -> str:
    """The dash of a run's lines."""
    return RUN_DASHES[place % len(RUN_DASHES)]


def run_mark(place: int) -> str:
    """The mark of a run's points."""
    return RUN_SYMBOLS[place % len(RUN_SYMBOLS)]


def total_text(total: Energy) -> str:
    """The number beside a row's bars."""
    return f"{total.joules:,.0f}" if total.joules >= 100.0 else f"{total.joules:.1f}"
