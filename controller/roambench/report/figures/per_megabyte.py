"""Joules for a megabyte over the rate at which it moved: each board as measured, and a model's line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roambench.energy.comparison.comparison import ComparisonTotal, TransferComparison
from roambench.energy.comparison.transfer import ModelBasis, Way
from roambench.energy.links.models import ANY, LinkModel
from roambench.energy.links.radio_work import RadioWork
from roambench.report.figures.chart import Chart, ChartAxis, Series, run_colour, run_mark
from roambench.report.figures.communication import COLOURS, LOG_FROM, NAMES, symbols_of
from roambench.report.figures.figure import safe
from roambench.report.figures.look import RUN_DASHES
from roambench.report.summaries.run import RunSummary
from roambench.report.tables.communication import basis_name, leading_basis

_STEPS: Final = 60
#: The ends of an axis of rates, as shares of the slowest and of the fastest rate.
_SPARE: Final = (0.85, 1.15)


@dataclass(frozen=True, slots=True)
class ModelLine:
    """J/MB of a model at rates that the boards had, and its standard uncertainty."""

    mb_s: tuple[float, ...]
    j_per_mb: tuple[float, ...]
    u_j_per_mb: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LinkPoints:
    """Boards that moved bytes over one link in one direction, as sums of their transfers.

    `line` is None where parameters differ from board to board, or the model has no line for this (of an
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


def per_megabyte_charts(runs: Sequence[RunSummary]) -> list[Chart]:
    """A chart for each run and direction of its transfers."""
    charts = []
    for place, run in enumerate(runs):
        if run.comparison is not None:
            basis = leading_basis(run.comparison)
            for way in dict.fromkeys(group.direction for group in link_points(run.comparison, basis)):
                chart = per_megabyte_chart({place: run}, way, f"per-mb-{place}-{way}", basis)
                charts += [] if chart is None else [chart]
    return charts


def per_megabyte_chart(
    runs: Mapping[int, RunSummary], way: Way, key: str, basis: ModelBasis = ModelBasis.ACTUAL
) -> Chart | None:
    """The boards of these runs (by their place in a report) in one direction; None where nothing moved."""
    groups = [
        (place, run, group)
        for place, run in runs.items()
        if run.comparison is not None
        for group in link_points(run.comparison, basis)
        if group.direction == way
    ]
    if not groups:
        return None
    rates = [part.achieved_mbit_s / 8.0 for _, _, group in groups for _, part in group.boards]
    values = [value for _, _, group in groups for value in _of_boards(group, None)[0]]
    for _, _, group in groups:
        values += group.line.j_per_mb if group.line else _of_boards(group, basis)[0]
    log_x, log_y = (0.0 < min(found) < max(found) / LOG_FROM for found in (rates, values))
    floor = 0.5 * min(values) if log_y else -math.inf  # a bar that would end below 0 ends there
    links = list(dict.fromkeys(group.link for _, _, group in groups))
    symbols = symbols_of(links)
    series: list[Series] = []
    for place, run, group in groups:
        several = f"{run.label}, " if len(runs) > 1 else ""
        model = f"{group.link}: {basis_name(basis, run)}"
        if group.line is not None:
            series.append(
                _line_series(
                    group, group.line, f"{model}, ± 2 u", RUN_DASHES[1 + links.index(group.link) % 5]
                )
            )
        else:
            series.append(_marks(group, _of_boards(group, basis), f"{several}{model}", floor))
        measured = replace(
            _marks(group, _of_boards(group, None), f"{several}{group.link}: measured, a board, ± 2 u", floor),
            id=f"{place}-{group.link}",
            mark=run_mark(place) if len(runs) > 1 else symbols[group.link][way],
            colour=run_colour(place) if len(runs) > 1 else COLOURS[way],
        )
        series.append(measured)
    title = f"joules for a megabyte, {NAMES[way]}"
    of_one, models = next(iter(runs.values())), {basis_name(basis, run) for _, run, _ in groups}
    shape = "Line with its band" if any(group.line for _, _, group in groups) else "Strokes"
    return Chart(
        key,
        f"{of_one.label}: {title}" if len(runs) == 1 else title.capitalize(),
        "Marks: all transfers of a board together, net of idle, at their mean rate, with bars of ± 2 u of "
        f"the meter. {shape}: what {' or '.join(sorted(models))} says of them, ± 2 u of its parameters. "
        "Where marks are below it the model overstates, where they are above it understates.",
        ChartAxis("mean rate", "MB/s", log=log_x, limits=(_SPARE[0] * min(rates), _SPARE[1] * max(rates))),
        ChartAxis("net energy", "J/MB", log=log_y, from_zero=not log_y),
        series,
        height=380,
    )


def _of_boards(group: LinkPoints, basis: ModelBasis | None) -> tuple[list[float], list[float]]:
    """J/MB of every board and its standard uncertainty: measured, or modelled on a basis."""
    found = [
        part.per_megabyte(part.net if basis is None else part.modelled.get(basis)) for _, part in group.boards
    ]
    return [value for value, _ in found], [u for _, u in found]


def _marks(group: LinkPoints, values: tuple[list[float], list[float]], name: str, floor: float) -> Series:
    each = list(zip(*values, strict=True))
    return Series(
        f"model-{group.link}",
        name,
        [part.achieved_mbit_s / 8.0 for _, part in group.boards],
        values[0],
        dash="",
        mark="line-ew-open",
        mark_size=9,
        lower=[max(value - 2.0 * u, floor) for value, u in each],
        upper=[value + 2.0 * u for value, u in each],
        hover="%{customdata}: %{y:.3g} J/MB at %{x:.3g} MB/s",
        notes=[safe(device) for device, _ in group.boards],
    )


def _line_series(group: LinkPoints, line: ModelLine, name: str, dash: str) -> Series:
    each = list(zip(line.j_per_mb, line.u_j_per_mb, strict=True))
    return Series(
        f"model-{group.link}",
        name,
        line.mb_s,
        line.j_per_mb,
        dash=dash,
        width=1.5,
        lower=[value - 2.0 * u for value, u in each],
        upper=[value + 2.0 * u for value, u in each],
        hover="%{y:.3g} J/MB at %{x:.3g} MB/s",
    )
