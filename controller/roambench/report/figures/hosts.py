"""Temperature, clock rate and load of every board as small multiples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from roambench.contract.records import HostSample
from roambench.report.figures.figure import Figure, drawn, hover, one_in, safe
from roambench.report.figures.look import RUN_COLOURS
from roambench.report.summaries.evidence import RunEvidence

MOST_BOARDS: Final = 36
_COLUMNS: Final = 4
_POINTS: Final = 400
_NOW: Final = 0xF  # throttle bits of this moment, not of earlier ones
_GAP: Final = 0.03  # between panels
#: Name, unit, value of a sample (in the light of the one before).
_METRICS: Final[tuple[tuple[str, str, Callable[[HostSample, HostSample], float]], ...]] = (
    ("temperature", "°C", lambda _, now: now.temperature_c),
    ("CPU clock", "MHz", lambda _, now: now.cpu_mhz),
    ("CPU load", "%", lambda _, now: 100.0 * now.cpu_share),
    ("agent's CPU", "% of a core", lambda before, now: _agent_percent(before, now)),
)


def host_figures(runs: Sequence[RunEvidence]) -> list[Figure]:
    """One figure per run whose boards sent host samples."""
    figures = []
    for index, run in enumerate(runs):
        if run.energy is not None and any(len(host.samples) > 1 for host in run.host.values()):
            host = {name: record.samples for name, record in run.host.items()}
            figures.append(_figure(run.label, f"host-{index}", host, run.energy.start_ns))
    return figures


def _figure(label: str, key: str, host: Mapping[str, Sequence[HostSample]], start_ns: int) -> Figure:
    sampled = [name for name, samples in host.items() if len(samples) > 1]
    boards = sampled[:MOST_BOARDS]
    thinned = [_thin(host[name]) for name in boards]
    series, units = _series(thinned)
    limits = {metric: _limits(found) for metric, found in series.items()}
    first = next(iter(series))
    columns = min(_COLUMNS, len(boards))
    rows = math.ceil(len(boards) / columns)
    traces = []
    layout: dict[str, Any] = {"annotations": []}
    for i, (name, samples) in enumerate(zip(boards, thinned, strict=True)):
        suffix = "" if i == 0 else str(i + 1)
        hot = [_throttled(sample) for sample in samples]
        traces.append(
            go.Scatter(
                mode="lines+markers" if any(hot) else "lines",
                x=[round((sample.monotonic_ns - start_ns) * 1e-9 / 60.0, 4) for sample in samples],
                y=series[first][i],
                xaxis=f"x{suffix}",
                yaxis=f"y{suffix}",
                line={"color": RUN_COLOURS[0], "width": 1.4},
                marker={"color": RUN_COLOURS[1], "size": [6 if bad else 0.1 for bad in hot]},
                hovertemplate=hover("%{x:.1f} min: %{y:.1f}", name),
            )
        )
        row, column = divmod(i, columns)
        lowest = row == rows - 1 or i + columns >= len(boards)
        left, right = _panel(column, columns, _GAP)
        top, bottom = (1.0 - end for end in _panel(row, rows, 0.28 / rows))
        common = {"tickfont": {"size": 11}}
        layout[f"xaxis{suffix}"] = common | {
            "domain": [left, right],
            "anchor": f"y{suffix}",
            "showticklabels": lowest,
        }
        layout[f"yaxis{suffix}"] = common | {
            "title": units[first] if column == 0 else "",
            "domain": [bottom, top],
            "anchor": f"x{suffix}",
            "range": limits[first],
            "showticklabels": column == 0,
            "nticks": 4,
        }
        layout["annotations"].append({"text": safe(name), "x": left, "y": top, "font": {"size": 12}})
    if len(series) > 1:
        layout["updatemenus"] = [_choice(series, units, limits, len(boards), columns)]
    left_out = len(sampled) - len(boards)
    return drawn(
        key,
        f"{label}: health of the boards",
        "One panel per board, over minutes of device time. Dots: samples with a throttle bit set "
        "(under-voltage, frequency capped, throttled, soft temperature limit)."
        + (f" {left_out} more boards are in the JSON document." if left_out else ""),
        traces,
        100 + 130 * rows,
        **layout,
        showlegend=False,
        margin={"l": 56, "r": 16, "t": 64, "b": 44},
    )


#: Values of every board, by metric.
_Series = dict[str, list[list[float | None]]]


def _series(boards: Sequence[Sequence[HostSample]]) -> tuple[_Series, dict[str, str]]:
    """Each metric that any board says, and its unit; where none says anything temperature, without values."""
    series: _Series = {}
    units: dict[str, str] = {}
    for metric, unit, value in _METRICS:
        found = [_values(samples, value) for samples in boards]
        if any(item is not None for values in found for item in values):
            series[metric], units[metric] = found, unit
    if not series:
        return {"temperature": [[None] * len(samples) for samples in boards]}, {"temperature": "°C"}
    return series, units


def _panel(number: int, count: int, gap: float) -> tuple[float, float]:
    """Beginning and end (0..1) of one of `count` panels in a row, `gap` between them."""
    begin = number * (1.0 + gap) / count
    return begin, min(1.0, begin + (1.0 + gap) / count - gap)


def _choice(
    series: _Series,
    units: Mapping[str, str],
    limits: Mapping[str, list[float]],
    boards: int,
    columns: int,
) -> dict[str, Any]:
    """Buttons that show another metric in all panels."""
    buttons = []
    for metric, found in series.items():
        changes: dict[str, Any] = {}
        for i in range(boards):
            name = "yaxis" if i == 0 else f"yaxis{i + 1}"
            changes[f"{name}.range"] = limits[metric]
            if i % columns == 0:
                changes[f"{name}.title.text"] = units[metric]
        buttons.append({"label": metric, "method": "update", "args": [{"y": found}, changes]})
    return {"x": 0, "xanchor": "left", "y": 1.0, "pad": {"b": 24}, "buttons": buttons}


def _values(
    samples: Sequence[HostSample], value: Callable[[HostSample, HostSample], float]
) -> list[float | None]:
    found: list[float | None] = [None]
    for i in range(1, len(samples)):
        number = value(samples[i - 1], samples[i])
        found.append(round(number, 3) if math.isfinite(number) else None)
    return found


def _limits(found: Sequence[Sequence[float | None]]) -> list[float]:
    values = [item for values in found for item in values if item is not None]
    if not values:
        return [0.0, 1.0]
    low, high = min(values), max(values)
    low = 0.0 if low < 0.5 * high else low
    room = 0.08 * (high - low) or max(1.0, 0.05 * abs(high))
    return [low - room if low else 0.0, high + room]


def _agent_percent(before: HostSample, now: HostSample) -> float:
    passed_s = (now.monotonic_ns - before.monotonic_ns) * 1e-9
    return 100.0 * (now.agent_cpu_s - before.agent_cpu_s) / passed_s if passed_s > 0.0 else math.nan


def _thin(samples: Sequence[HostSample]) -> list[HostSample]:
    """About `_POINTS` samples, those with a throttle bit kept all."""
    every = one_in(len(samples), _POINTS)
    return [sample for i, sample in enumerate(samples) if i % every == 0 or _throttled(sample)]


def _throttled(sample: HostSample) -> bool:
    return sample.throttle_bits >= 0 and bool(sample.throttle_bits & _NOW)
