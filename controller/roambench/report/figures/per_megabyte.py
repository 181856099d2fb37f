"""Joules for a megabyte over the rate at which it moved: each board as measured, and a model's line.

The values are the same on a page and in a paper (`report.paper_figures`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from roambench.energy.comparison.comparison import ComparisonTotal, TransferComparison
from roambench.energy.comparison.transfer import ModelBasis, Way
from roambench.energy.links.models import ANY, LinkModel
from roambench.energy.links.radio_work import RadioWork
from roambench.report.figures.communication import COLOURS, LOG_FROM, NAMES, symbols_of
from roambench.report.figures.figure import Figure, drawn, hover, safe
from roambench.report.figures.look import INK, MUTED, RUN_DASHES
from roambench.report.summaries.run import RunSummary
from roambench.report.tables.communication import basis_name, leading_basis

X_TITLE: Final = "mean rate, MB/s"
Y_TITLE: Final = "net energy, J/MB"
_STEPS: Final = 60
#: So much of the slowest and of the fastest rate an axis of rates begins and ends at.
_SPARE: Final = (0.85, 1.15)


@dataclass(frozen=True, slots=True)
class ModelLine:
    """What a model says at rates that the boards had: J/MB and its standard uncertainty."""

    mb_s: tuple[float, ...]
    j_per_mb: tuple[float, ...]
    u_j_per_mb: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LinkPoints:
    """Boards that moved bytes over one link in one direction, as sums of their transfers.

    `line` is None where the boards have parameters of their own, or the model has no line for this (of an
    exchange it depends on what was sent).
    """

    link: str
    direction: Way
    boards: tuple[tuple[str, ComparisonTotal], ...]
    line: ModelLine | None


def link_points(comparison: TransferComparison, basis: ModelBasis) -> list[LinkPoints]:
    """The boards of every link and direction with their model's line on the basis of the real rate."""
    groups: dict[tuple[str, Way], list[tuple[str, ComparisonTotal]]] = {}
    for (device, link, direction), part in comparison.by_device().items():
        if part.transfers and math.isfinite(part.achieved_mbit_s):
            groups.setdefault((link, direction), []).append((device, part))
    model = comparison.models.get(basis)
    return [
        LinkPoints(link, direction, tuple(boards), _line(model, link, direction, boards))
        for (link, direction), boards in sorted(groups.items())
    ]


def _line(
    model: LinkModel | None, link: str, direction: Way, boards: Sequence[tuple[str, ComparisonTotal]]
) -> ModelLine | None:
    if direction == "exchange" or model is None or any(device in model.devices for device, _ in boards):
        return None
    known = model.links.get(link) or model.links.get(ANY)
    if known is None:
        return None
    rates = [part.achieved_mbit_s for _, part in boards]
    mbit_s = np.geomspace(_SPARE[0] * min(rates), _SPARE[1] * max(rates), _STEPS).tolist()
    energies = [RadioWork.of(8.0, rate, direction).energy(known) for rate in mbit_s]
    return ModelLine(
        tuple(rate / 8.0 for rate in mbit_s),
        tuple(energy.joules for energy in energies),
        tuple(math.hypot(energy.u_joules, known.u_gain * energy.joules) for energy in energies),
    )


def per_megabyte_figures(runs: Sequence[RunSummary]) -> list[Figure]:
    """A figure for each run and direction of its transfers."""
    figures = []
    for index, run in enumerate(runs):
        if run.comparison is None:
            continue
        groups = link_points(run.comparison, leading_basis(run.comparison))
        for way in dict.fromkeys(group.direction for group in groups):
            own = [group for group in groups if group.direction == way]
            figures.append(_figure(run, leading_basis(run.comparison), own, f"per-mb-{index}-{way}"))
    return figures


def _figure(run: RunSummary, basis: ModelBasis, groups: Sequence[LinkPoints], key: str) -> Figure:
    way, model = groups[0].direction, basis_name(basis, run)
    symbols = symbols_of([group.link for group in groups])
    rates = [part.achieved_mbit_s / 8.0 for group in groups for _, part in group.boards]
    measured = [part.per_megabyte(part.net) for group in groups for _, part in group.boards]
    values = [value for value, _ in measured]
    for group in groups:
        values += group.line.j_per_mb if group.line else _of_boards(group, basis)[0]
    log_x, log_y = (0.0 < min(found) < max(found) / LOG_FROM for found in (rates, values))
    floor = 0.5 * min(values) if log_y else -math.inf  # a bar that would end below 0 ends there
    traces: list[Any] = []
    for place, group in enumerate(groups):
        if group.line is not None:
            traces += _line_traces(group.line, f"{group.link}: {model}, ± 2 u", RUN_DASHES[1 + place % 5])
        else:
            own = _of_boards(group, basis)
            traces.append(_marks(group, own, f"{group.link}: {model}", "line-ew-open", INK, floor))
        points = _of_boards(group, None)
        symbol = symbols[group.link][way]
        traces.append(
            _marks(group, points, f"{group.link}: measured, a board, ± 2 u", symbol, COLOURS[way], floor)
        )
    low, high = _SPARE[0] * min(rates), _SPARE[1] * max(rates)
    shape = "Line with its band" if any(group.line for group in groups) else "Strokes"
    return drawn(
        key,
        f"{run.label}: joules for a megabyte, {NAMES[way]}",
        "Marks: all transfers of a board together, net of idle, at their mean rate, with bars of ± 2 u of "
        f"the meter. {shape}: what {model} says of them, ± 2 u of its parameters. Where marks are below it "
        "the model overstates, where they are above it understates.",
        traces,
        380,
        xaxis={
            "title": X_TITLE,
            "type": "log" if log_x else "linear",
            "range": [math.log10(low), math.log10(high)] if log_x else [low, high],
        },
        yaxis={"title": Y_TITLE} | ({"type": "log"} if log_y else {"rangemode": "tozero"}),
    )


def _of_boards(group: LinkPoints, basis: ModelBasis | None) -> tuple[list[float], list[float]]:
    """J/MB of every board and its standard uncertainty: measured, or modelled on a basis."""
    found = [
        part.per_megabyte(part.net if basis is None else part.modelled.get(basis)) for _, part in group.boards
    ]
    return [value for value, _ in found], [u for _, u in found]


def _marks(
    group: LinkPoints,
    values: tuple[list[float], list[float]],
    name: str,
    symbol: str,
    colour: str,
    floor: float,
) -> go.Scatter:
    bars = [2.0 * u for u in values[1]]
    below = [min(bar, value - floor) for value, bar in zip(values[0], bars, strict=True)]
    return go.Scatter(
        mode="markers",
        name=safe(name),
        x=[part.achieved_mbit_s / 8.0 for _, part in group.boards],
        y=values[0],
        error_y={"array": bars, "arrayminus": below, "color": colour, "thickness": 1.5, "width": 4},
        marker={"symbol": symbol, "color": colour, "size": 9},
        marker_line={"color": colour, "width": 1.5},
        text=[safe(device) for device, _ in group.boards],
        hovertemplate=hover("%{text}: %{y:.3g} J/MB at %{x:.3g} MB/s", name),
    )


def _line_traces(line: ModelLine, name: str, dash: str) -> list[go.Scatter]:
    """The band, and the line in it."""
    low = [value - 2.0 * u for value, u in zip(line.j_per_mb, line.u_j_per_mb, strict=True)]
    high = [value + 2.0 * u for value, u in zip(line.j_per_mb, line.u_j_per_mb, strict=True)]
    return [
        go.Scatter(
            mode="lines",
            x=[*line.mb_s, *reversed(line.mb_s)],
            y=[*high, *reversed(low)],
            fill="toself",
            fillcolor=MUTED,
            opacity=0.25,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
        ),
        go.Scatter(
            mode="lines",
            name=safe(name),
            x=line.mb_s,
            y=line.j_per_mb,
            line={"color": INK, "width": 1.5, "dash": dash},
            hovertemplate=hover("%{y:.3g} J/MB at %{x:.3g} MB/s", name),
        ),
    ]
