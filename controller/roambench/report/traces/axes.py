"""Common parts of a trace's figures: timestamps, colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.mobility.trace import Trace
from roambench.report.figures.figure import one_in

BLUE: Final = "var(--run-1)"
ORANGE: Final = "var(--run-2)"
GREEN: Final = "var(--run-3)"
GREY: Final = "var(--muted)"
_SMALL: Final = {"font": {"size": 12}}
_BETWEEN: Final = 0.25  # two panels, in widths of one
_BETWEEN_PX: Final = 88  # two rows: the labels of the upper one, and the lower one's title
_MARGIN_PX: Final = (34, 52)
_MOST_TIMESTAMPS: Final = 3000  # of a curve over the steps


def panels(
    axes: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    columns: int,
    row_px: int,
    *,
    titles: Sequence[str] = (),
) -> dict[str, Any]:
    """A layout of panels of one size, row by row: of each its (x axis, y axis), and titles above them.

    `row_px` is the height of a panel; what stands between the panels has a fixed size, too.
    """
    rows = -(-len(axes) // columns)
    inner_px = rows * row_px + (rows - 1) * _BETWEEN_PX
    width = 1.0 / (columns + (columns - 1) * _BETWEEN)
    layout: dict[str, Any] = {"height": inner_px + sum(_MARGIN_PX), "annotations": []}
    layout["margin"] = {"l": 56, "t": _MARGIN_PX[0], "b": _MARGIN_PX[1]}
    for number, (across, up) in enumerate(axes):
        name = "" if number == 0 else str(number + 1)
        left = number % columns * width * (1.0 + _BETWEEN)
        top = 1.0 - number // columns * (row_px + _BETWEEN_PX) / inner_px
        bottom = max(0.0, top - row_px / inner_px)
        layout[f"xaxis{name}"] = {**across, "domain": [left, left + width], "anchor": f"y{name}"}
        layout[f"yaxis{name}"] = {**up, "domain": [bottom, top], "anchor": f"x{name}"}
        if titles:
            layout["annotations"].append({"text": f"<b>{titles[number]}</b>", "x": left, "y": top} | _SMALL)
    return layout


def timestamps(trace: Trace) -> tuple[list[str] | list[float], str]:
    """The beginning of every (group of) steps, and what the axis says."""
    every = one_in(trace.steps, _MOST_TIMESTAMPS)
    steps = range(0, trace.steps, every)
    unit = f", means of {every} steps" if every > 1 else ""
    if trace.start_utc_s:
        return [timestamp(trace, step) for step in steps], f"UTC{unit}"
    return [float(timestamp(trace, step)) for step in steps], f"hours{unit}"


def timestamp(trace: Trace, step: int) -> Any:
    """The begin of a step: a UTC date, or hours where the trace knows no calendar."""
    seconds = trace.start_utc_s + step * trace.step_s
    if trace.start_utc_s:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return round(seconds / 3600.0, 6)


def grouped(per_step: npt.NDArray[Any]) -> list[float]:
    """The means that belong to `timestamps`, of a count per step."""
    every = one_in(len(per_step), _MOST_TIMESTAMPS)
    starts = np.arange(0, len(per_step), every)
    sums = np.add.reduceat(per_step.astype(np.float64), starts)
    means: list[float] = np.round(sums / np.diff([*starts.tolist(), len(per_step)]), 4).tolist()
    return means
