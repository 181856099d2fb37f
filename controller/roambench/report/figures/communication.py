"""Measured against modelled transfers as Plotly figures: a scatter with error bars, and the ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

import plotly.graph_objects as go

from roambench.contract.phases import Phase
from roambench.energy.comparison.comparison import TransferComparison
from roambench.energy.comparison.transfer import ModelBasis, Transfer, Way
from roambench.energy.comparison.verdict import ModelFinding, ModelVerdict, Ratio
from roambench.report import numbers
from roambench.report.figures.figure import Figure, drawn, names_axis, one_in, safe, wrapped_names
from roambench.report.figures.look import INK, MUTED, PHASE_COLOURS, RUN_COLOURS
from roambench.report.summaries.run import RunSummary
from roambench.report.tables.communication import (
    are_several,
    basis_name,
    classes_and_total,
    leading_basis,
    row_name,
)

#: More error bars than this make a page slow and a picture black.
MOST_POINTS: Final = 1500
#: From this ratio of the largest to the smallest modelled energy on the axes are logarithmic.
LOG_FROM: Final = 20.0
_LOG_TITLE: Final = ", log"
COLOURS: Final[dict[Way, str]] = {
    "down": PHASE_COLOURS[Phase.DOWNLOAD],
    "up": PHASE_COLOURS[Phase.UPLOAD],
    "exchange": PHASE_COLOURS[Phase.EXCHANGE],
}
NAMES: Final[dict[Way, str]] = {"down": "download", "up": "upload", "exchange": "exchange"}
#: Marks of a link's directions, which differ in more than colour.
_SYMBOLS: Final[dict[str, dict[Way, str]]] = {
    "lte": {"down": "circle", "up": "triangle-up", "exchange": "hexagon"},
    "wifi": {"down": "square", "up": "star-triangle-up", "exchange": "pentagon"},
    "3g": {"down": "diamond", "up": "star", "exchange": "hexagram"},
}
_OTHER_SYMBOLS: Final[tuple[dict[Way, str], ...]] = (
    {"down": "cross", "up": "x", "exchange": "star-square"},
    {"down": "hourglass", "up": "bowtie", "exchange": "star-diamond"},
)


def symbols_of(links: Sequence[str]) -> dict[str, dict[Way, str]]:
    """Marks of each link's directions."""
    strange = [link for link in dict.fromkeys(links) if link not in _SYMBOLS]
    return {**_SYMBOLS, **dict(zip(strange, cycle(_OTHER_SYMBOLS), strict=False))}


def scatter_figures(runs: Sequence[RunSummary]) -> list[Figure]:
    """One figure per run with transfers: measured net over modelled joules, one point per transfer."""
    figures = []
    for index, run in enumerate(runs):
        if run.comparison is not None and run.comparison.bases:
            figures.append(_scatter(run, run.comparison, f"compare-{index}"))
    return figures


def ratio_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Measured over modelled by class, with error bars; None where nothing has a ratio."""
    names: list[str] = []
    points: list[tuple[Ratio, ModelVerdict]] = []
    several = are_several(runs)
    for run in runs:
        if run.comparison is None:
            continue
        for kind, part in classes_and_total(run.comparison):
            for basis in run.comparison.bases:
                ratio = part.ratio(basis)
                if not math.isfinite(ratio.value):
                    continue
                names.append(row_name(run, kind, several, basis))
                points.append((ratio, part.verdict(basis)))
    if not points:
        return None
    traces = []
    for colour, symbol, label, findings in (
        (RUN_COLOURS[2], "square", "the model agrees", {ModelFinding.AGREES}),
        (RUN_COLOURS[1], "circle", "the model is off", {ModelFinding.OVERSTATES, ModelFinding.UNDERSTATES}),
        (
            MUTED,
            "circle-open",
            "not resolved",
            {ModelFinding.NOT_RESOLVED},
        ),
    ):
        chosen = [i for i, (_, verdict) in enumerate(points) if verdict.finding in findings]
        if chosen:
            ratios = [points[i][0] for i in chosen]
            ends = [
                (ratio.value - ratio.low, ratio.high - ratio.value)
                if math.isfinite(ratio.high)
                else (0.0, 0.0)
                for ratio in ratios
            ]
            traces.append(
                go.Scatter(
                    mode="markers",
                    name=label,
                    x=[ratio.value for ratio in ratios],
                    y=[safe(names[i]) for i in chosen],
                    error_x={
                        "array": [above for _, above in ends],
                        "arrayminus": [below for below, _ in ends],
                        "color": colour,
                        "thickness": 1.5,
                    },
                    marker={"color": colour, "symbol": symbol, "size": 10},
                    text=[safe(points[i][1].sentence) for i in chosen],
                    hovertemplate="%{text}<extra></extra>",
                )
            )
    return drawn(
        "ratios",
        "Measured ÷ modelled",
        "Sums over all boards with the interval (95 %) that the errors of meters and model leave. Where all "
        "of a bar is left of the dotted line the model says more than was measured: it overstates.",
        traces,
        130 + 30 * len(names),
        xaxis={"title": "measured ÷ modelled", "rangemode": "tozero"},
        yaxis=names_axis(names),
        narrow={"height": 130 + 48 * len(names), "yaxis": names_axis(names) | wrapped_names(names)},
        shapes=[{"x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1}],
    )


def _scatter(run: RunSummary, comparison: TransferComparison, key: str) -> Figure:
    basis = leading_basis(comparison)
    bases = [basis, *(other for other in comparison.bases if other is not basis)]
    seen = [item for item in comparison.transfers if item.seen and basis in item.modelled]
    every = one_in(len(seen), MOST_POINTS)
    shown = seen[::every]
    groups: dict[tuple[str, Way], list[Transfer]] = {}
    for item in shown:
        groups.setdefault((item.link, item.direction), []).append(item)
    floor, top, log = _range(shown, bases)
    traces = []
    symbols = symbols_of([link for link, _ in sorted(groups)])
    for link, direction in sorted(groups):
        items = groups[link, direction]
        symbol = symbols[link][direction]
        at = [max(item.net.joules, floor) if log else item.net.joules for item in items]
        below = [
            min(2.0 * item.net.u_joules, y - floor) if log else 2.0 * item.net.u_joules
            for item, y in zip(items, at, strict=True)
        ]
        colour, errors = COLOURS[direction], [2.0 * item.net.u_joules for item in items]
        shapes = [
            # On a logarithmic axis nothing lies below zero: drawn at the edge, open.
            "triangle-down-open" if log and item.net.joules <= floor else symbol
            for item in items
        ]
        traces.append(
            go.Scatter(
                mode="markers",
                name=safe(f"{link} {NAMES[direction]}"),
                x=_modelled(items, basis),
                y=at,
                error_y={"array": errors, "arrayminus": below, "color": colour, "thickness": 1, "width": 2},
                marker={"symbol": shapes, "color": colour, "size": 8},
                marker_line={"color": colour, "width": 1.2},
                text=[_hover(item) for item in items],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    traces.append(
        go.Scatter(
            mode="lines",
            name="measured = modelled",
            x=[floor, top],
            y=[floor, top],
            line={"color": INK, "width": 1, "dash": "dot"},
            hoverinfo="skip",
        )
    )
    ends = [math.log10(floor), math.log10(top)] if log else [floor, top]
    scale: dict[str, Any] = {"type": "log", "dtick": 1} if log else {"type": "linear"}
    below_floor = sum(log and item.net.joules <= floor for item in shown)
    caption = (
        "One point per transfer, ± k = 2 of the meter. A single transfer scatters by what its meter misses "
        "between two lines; read the sums. Errors of gain and idle power go together on a board."
    )
    if log:
        caption += f" Both axes are logarithmic: what is modelled spans more than a factor of {LOG_FROM:g}."
    if every > 1:
        caption += f" Every {every}th of {len(seen):,} transfers is drawn."
    if below_floor:
        caption += f" {below_floor} at or below the lower edge are drawn on it (open triangles)."
    return drawn(
        key,
        f"{run.label}: measured against modelled, transfer by transfer",
        caption,
        traces,
        520,
        # Noise of the meter may be below zero, what is modelled is not.
        xaxis=scale | {"title": _across(run, basis, log), "range": ends if log else [0.0, top]},
        yaxis=scale | {"title": "measured (net), J" + _LOG_TITLE * log, "range": ends},
        updatemenus=[_choice(run, groups, bases, log)] if len(bases) > 1 else [],
        margin_t=72,
        narrow={"height": 580, "legend_y": 1.11} if len(bases) > 1 else None,
    )


def _choice(
    run: RunSummary, groups: dict[tuple[str, Way], list[Transfer]], bases: Sequence[ModelBasis], log: bool
) -> dict[str, Any]:
    """Buttons that put another model on the x axis; the identity line is the last trace and stays."""
    order = sorted(groups)
    traces = list(range(len(order)))
    return {
        "x": 1,
        "xanchor": "right",
        "y": 1.01,
        "buttons": [
            {
                "label": safe(basis_name(basis, run)),
                "method": "update",
                "args": [
                    {"x": [_modelled(groups[name], basis) for name in order]},
                    {"xaxis.title.text": _across(run, basis, log)},
                    traces,
                ],
            }
            for basis in bases
        ],
    }


def _across(run: RunSummary, basis: ModelBasis, log: bool) -> str:
    return f"modelled, J ({safe(basis_name(basis, run))})" + _LOG_TITLE * log


def _modelled(items: Sequence[Transfer], basis: ModelBasis) -> list[float | None]:
    return [item.modelled[basis].joules if basis in item.modelled else None for item in items]


def _range(items: Sequence[Transfer], bases: Sequence[ModelBasis]) -> tuple[float, float, bool]:
    """Lowest and highest value of the axes, and whether they are logarithmic."""
    modelled = [found.joules for item in items for basis, found in item.modelled.items() if basis in bases]
    highest = max([*modelled, *(item.net.joules + 2.0 * item.net.u_joules for item in items)], default=1.0)
    # By what is modelled: a measured value next to nothing is noise of the meter, and stretches no axis.
    smallest = min((joules for joules in modelled if joules > 0.0), default=math.inf)
    if max(modelled, default=0.0) > LOG_FROM * smallest:
        measured = (item.net.joules for item in items if item.net.joules > 0.0)
        return max(min([smallest, *measured]) / 1.5, 0.1 * smallest), 1.4 * highest, True
    lower = min([0.0, *(item.net.joules - 2.0 * item.net.u_joules for item in items)])
    return lower, 1.06 * highest, False


def _hover(item: Transfer) -> str:
    lines = [
        f"{safe(item.device)}, {safe(item.order_id)}",
        f"{item.transferred_bytes / 1e6:,.2f} MB in {item.duration_s:.2f} s",
        f"{item.achieved_mbit_s:.1f} Mbit/s, Eq. 2 says {item.placement_mbit_s:.1f}",
        f"measured {numbers.energy(item.net, zero='0 J')} net",
        *(f"{basis.value}: {found.joules:.3g} J" for basis, found in item.modelled.items()),
    ]
    return "<br>".join(lines)
