"""Figures of who was where: availability with the outcome of every training, and the map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from roambench.mobility.trace import Trace
from roambench.report.figures.figure import MAP_AXES, Figure, drawn, hover, km, one_in, safe
from roambench.report.figures.look import CELL_OF, CELLS, INK, MUTED, PAPER, RUN_COLOURS, RUN_SYMBOLS
from roambench.report.summaries.evidence import RunEvidence
from roambench.report.summaries.orders import device_name
from roambench.report.summaries.run import RunSummary
from roambench.rounds.records import StepOpened

#: A grid or a map with more devices than this is no picture any more: the ones present most are shown.
MOST_DEVICES: Final = 40
_MOST_PLACES: Final = 2000
_MARK_STEPS: Final = 100  # columns that leave a mark room


def availability_figure(runs: Sequence[RunEvidence], summaries: Sequence[RunSummary]) -> Figure | None:
    """Devices present by step, and below it one strip per run: what became of each training."""
    opened = {run.label: list(run.records.only(StepOpened)) for run in runs}
    if not any(opened.values()):
        return None
    shown = [(run, summary) for run, summary in zip(runs, summaries, strict=True) if opened[run.label]]
    grids = [_outcome_grid(run, summary, opened[run.label]) for run, summary in shown]
    heights = [150.0] + [max(70.0, 15.0 * len(names)) for names, _, _ in grids]
    gap, top, bottom = 62.0, 50.0, 56.0
    inner = sum(heights) + gap * len(grids)
    first = opened[shown[0][0].label]
    steps = [record.step for record in first]
    domain_top = 1.0
    traces = [
        go.Scatter(
            mode="lines",
            x=steps,
            y=[len(record.devices) for record in first],
            line={"color": MUTED, "width": 1.5, "shape": "hvh"},
            fill="tozeroy",
            fillcolor="var(--shade)",
            showlegend=False,
            hovertemplate="step %{x}: %{y} present<extra></extra>",
        )
    ]
    layout: dict[str, Any] = {"annotations": []}
    present = {"title": "present", "rangemode": "tozero", "tickformat": "d"}
    layout["yaxis"] = present | {"domain": [1.0 - heights[0] / inner, 1.0]}
    domain_top -= heights[0] / inner
    for number, ((run, _), (names, grid, texts)) in enumerate(zip(shown, grids, strict=True), 2):
        domain_top -= gap / inner
        low = domain_top - heights[number - 1] / inner
        traces.append(_strip(opened[run.label], names, grid, texts, number))
        layout[f"yaxis{number}"] = {
            "domain": [max(0.0, low), domain_top],
            "autorange": "reversed",
            "ticks": "",
            "showgrid": False,
            "tickfont": {"size": 11},
            "anchor": "x",
        }
        layout["annotations"].append({"text": f"<b>{safe(run.label)}</b>", "x": 0, "y": domain_top})
        domain_top = low
    layout["xaxis"] = {"title": "step", "anchor": f"y{len(grids) + 1}", "showgrid": False}
    traces += [_legend_entry(*outcome) for outcome in CELLS]
    hidden = max(len(run.info.device_names) for run, _ in shown) - MOST_DEVICES
    more = f" The {MOST_DEVICES} devices present most are shown." if hidden > 0 else ""
    return drawn(
        "availability",
        "Availability, and what became of every training",
        "Top: devices present in each step. Below, per run: each cell is one device in one step, coloured by "
        "the outcome of the training it was ordered there (× wasted, ! failed, ? outstanding, · none)."
        + more,
        traces,
        round(inner + top + bottom),
        **layout,
        margin={"t": top, "b": bottom},
    )


def _outcome_grid(
    run: RunEvidence, summary: RunSummary, opened: Sequence[StepOpened]
) -> tuple[list[str], list[list[int | None]], list[list[str]]]:
    """Row names, state numbers and hover texts, devices × steps."""
    presence = np.zeros(len(run.info.device_names), dtype=np.int64)
    for record in opened:
        known = [device for device in record.devices if device < len(presence)]
        presence[known] += 1
    chosen = np.sort(np.argsort(-presence, kind="stable")[:MOST_DEVICES])
    row_of = {int(device): row for row, device in enumerate(chosen)}
    column_of = {record.step: column for column, record in enumerate(opened)}
    grid: list[list[int | None]] = [[0] * len(opened) for _ in row_of]
    texts = [["absent"] * len(opened) for _ in row_of]
    for record in opened:
        for device, ap, distance_m in zip(record.devices, record.aps, record.distances_m, strict=True):
            if device in row_of:
                grid[row_of[device]][column_of[record.step]] = 1
                texts[row_of[device]][column_of[record.step]] = (
                    f"present, AP {ap}, {distance_m / 1000:.2f} km"
                )
    for training in summary.trainings.by_order.of_devices(row_of):
        if training.step not in column_of:
            continue
        row, column = row_of[training.device], column_of[training.step]
        grid[row][column] = CELL_OF[training.outcome]
        decided = f" in step {training.decided_step}" if training.decided_step >= 0 else ""
        reason = f": {training.reason}" if training.reason else ""
        texts[row][column] += safe(f"; training {training.outcome.value}{decided}{reason}")
    return [safe(device_name(run.info.device_names, device)) for device in row_of], grid, texts


def _strip(
    opened: Sequence[StepOpened],
    names: list[str],
    grid: list[list[int | None]],
    texts: list[list[str]],
    number: int,
) -> Any:
    last = len(CELLS) - 1
    scale = []
    for index, (_, colour, _) in enumerate(CELLS):
        scale += [[index / (last + 1), colour], [(index + 1) / (last + 1), colour]]
    marked = len(opened) <= _MARK_STEPS
    return go.Heatmap(
        x=[record.step for record in opened],
        y=names,
        z=grid,
        text=[[CELLS[state or 0][2] for state in row] for row in grid] if marked else None,
        texttemplate="%{text}" if marked else None,
        textfont={"color": "var(--outcome-mark)", "size": 11} if marked else None,
        customdata=texts,
        zmin=-0.5,
        zmax=last + 0.5,
        colorscale=scale,
        showscale=False,
        xgap=1 if len(opened) <= 200 else 0,
        ygap=1,
        yaxis=f"y{number}",
        hovertemplate="%{y}, step %{x}: %{customdata}<extra></extra>",
    )


def _legend_entry(name: str, colour: str, mark: str) -> Any:
    return go.Scatter(
        mode="markers",
        x=[None],
        y=[None],
        name=f"{mark} {name}" if mark else name,
        marker={
            "symbol": "square",
            "size": 11,
            "color": colour,
            "line": {"color": "var(--axis)", "width": 1},
        },
        hoverinfo="skip",
    )


def map_figure(runs: Sequence[RunEvidence]) -> Figure | None:
    """Places, access points and the tracks of devices, from the first run that keeps its trace."""
    run = next((run for run in runs if run.trace is not None), None)
    if run is None or run.trace is None:
        return None
    trace = run.trace
    traces = []
    if len(trace.place_x_m):
        every = one_in(len(trace.place_x_m), _MOST_PLACES)
        places = _points(trace.place_x_m[::every], trace.place_y_m[::every], "places")
        small = {"size": 3, "color": "var(--faint)"}
        traces.append(go.Scatter(places, mode="markers", marker=small, hoverinfo="skip"))
    traces += _tracks(run, trace)
    traces.append(
        go.Scatter(
            _points(trace.ap_x_m, trace.ap_y_m, "access points"),
            text=[safe(name) for name in trace.ap_names],
            mode="markers+text" if len(trace.ap_names) <= 40 else "markers",
            textposition="top center",
            textfont={"size": 10, "color": "var(--dots)"},
            marker={"symbol": "triangle-up", "size": 11, "color": INK},
            marker_line={"color": PAPER, "width": 1},
            hovertemplate="%{text}: %{x:.2f}, %{y:.2f} km<extra></extra>",
        )
    )
    hidden = len(trace.device_names) - MOST_DEVICES
    more = f" The {MOST_DEVICES} devices present most are drawn." if hidden > 0 else ""
    return drawn(
        "map",
        "Places, access points and tracks",
        "Where the devices are, step by step: a line joins a device's consecutive fixes. Click a device in "
        f"the legend to hide it, twice to see it alone.{more}",
        traces,
        640,
        **MAP_AXES,
        legend={"orientation": "v", "x": 1.01, "y": 1, "yanchor": "top", "font": {"size": 11}},
        margin_t=16,
        narrow={"height": 400, "legend": {"orientation": "h"}},
    )


def _tracks(run: RunEvidence, trace: Trace) -> list[Any]:
    counts = np.bincount(trace.device, minlength=len(trace.device_names))
    chosen = np.sort(np.argsort(-counts, kind="stable")[:MOST_DEVICES])
    tracks = []
    for number, device in enumerate(chosen.tolist()):
        rows = np.flatnonzero(trace.device == device)
        if not len(rows):
            continue
        name = device_name(run.info.device_names, device)
        colour = RUN_COLOURS[number % len(RUN_COLOURS)]
        tracks.append(
            go.Scatter(
                _points(trace.x_m[rows], trace.y_m[rows], name),
                mode="lines+markers",
                line={"color": colour, "width": 1.2},
                opacity=0.75,
                marker={"size": 6, "color": colour, "symbol": RUN_SYMBOLS[number // 6 % 6]},
                customdata=trace.step[rows].tolist(),
                hovertemplate=hover("step %{customdata}: %{x:.2f}, %{y:.2f} km", name),
            )
        )
    return tracks


def _points(x_m: Any, y_m: Any, name: str) -> dict[str, Any]:
    return {"name": safe(name), "x": km(x_m), "y": km(y_m)}
