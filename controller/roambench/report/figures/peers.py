"""Charts of decentralised runs: scores over the devices, the gap by mobility, neighbours, mixing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from roambench.contract.metric import ACCURACY, Metric
from roambench.report.figures.chart import (
    Chart,
    ChartAxis,
    ChartLevel,
    Series,
    run_colour,
    run_dash,
    run_mark,
)
from roambench.report.figures.figure import hover_value, one_in
from roambench.report.summaries.peers import Floats, PeerSummary
from roambench.report.summaries.run import RunSummary

_Found = Sequence[tuple[int, RunSummary, PeerSummary]]
_ITERATION: Final = ChartAxis("iteration")
_MOST_POINTS: Final = 2000  # of a line by iteration; of more, every n-th is drawn


def peer_charts(runs: Sequence[RunSummary]) -> list[Chart]:
    """Scores, gap and neighbours; [] where every run has a server."""
    found = _of_peers(runs)
    charts = []
    for metric in dict.fromkeys(peers.metric for _, _, peers in found):
        judged = [each for each in found if each[2].metric == metric]
        charts += [_scores(metric, judged), _gap(metric, judged)]
    return [chart for chart in (*charts, _neighbours(found)) if chart.series]


def mixing_charts(runs: Sequence[RunSummary]) -> tuple[Chart, Chart] | None:
    """Distance of the classes that devices reach from those of all devices, and the spectral gap; None where
    every run has a server."""
    distances, gaps = [], []
    for place, run, peers in _of_peers(runs):
        if np.isfinite(peers.distribution_distances).any():
            distances.append(_by_iteration(place, run, peers.distribution_distances, "%{y:.3f}"))
        if np.isfinite(peers.spectral_gaps).any():
            gaps.append(_by_iteration(place, run, peers.spectral_gaps, "%{y:.4f}"))
    if not distances and not gaps:
        return None
    caption = (
        "Left: mean distance between the classes that a device reaches and those of all devices; 0 is a fair "
        "sample. Right: spectral gap of the iteration's W; 0 where some part hears nothing of the rest, "
        "below 0 only where its columns do not sum to 1."
    )
    distance = ChartAxis("distance of classes", from_zero=True)
    return (
        Chart("peer-mixing", "Mixing", caption, _ITERATION, distance, distances, height=300),
        Chart("peer-spectral-gap", "Spectral gap", "", _ITERATION, ChartAxis("spectral gap"), gaps),
    )


def _of_peers(runs: Sequence[RunSummary]) -> list[tuple[int, RunSummary, PeerSummary]]:
    return [(place, run, run.peers) for place, run in enumerate(runs) if run.peers is not None]


def _scores(metric: Metric, found: _Found) -> Chart:
    """Mean over the devices with a band from the worst to the best, and the mean model as a thin line."""
    series = []
    for place, run, peers in found:
        if peers.points:
            ends = [(metric.shown(point.worst), metric.shown(point.best)) for point in peers.points]
            mean = Series(
                str(place),
                run.label,
                [point.step for point in peers.points],
                [metric.shown(point.mean) for point in peers.points],
                run_colour(place),
                run_dash(place),
                mark=run_mark(place),
                mark_size=6,
                lower=[min(each) for each in ends],
                upper=[max(each) for each in ends],
                hover=f"step %{{x}}: {hover_value(metric)}",
                group=run.label,
            )
            average = [metric.shown(point.average) for point in peers.points]
            name = f"{run.label}, mean model"
            series += [
                mean,
                replace(
                    mean,
                    id=f"{place}-average",
                    name=name,
                    y=average,
                    dash="dot",
                    width=1,
                    mark="",
                    lower=(),
                    upper=(),
                ),
            ]
    return Chart(
        "peer-accuracy" if metric == ACCURACY else f"peer-metric-{metric.key}",
        "Accuracy over the devices" if metric == ACCURACY else f"{metric.name} over the devices",
        "Lines with markers: mean over all devices; band: from the worst to the best; dots: the mean of all "
        "models.",
        _ITERATION,
        ChartAxis("accuracy", "%", from_zero=True) if metric == ACCURACY else ChartAxis(metric.axis),
        series,
    )


def _gap(metric: Metric, found: _Found) -> Chart:
    """High- minus low-mobility devices (de Heredia Fig. 5, 6)."""
    value = "%{y:+.2f}" if metric == ACCURACY else "%{y:+.4g}"
    series = []
    for place, run, peers in found:
        known = [(point.step, point.gap) for point in peers.points if point.gap is not None]
        if known:
            gaps = np.array([metric.shown(gap) for _, gap in known])
            line = _by_iteration(place, run, gaps, value, [step for step, _ in known])
            series.append(replace(line, mark=run_mark(place), mark_size=6))
    unit, y = "in percentage points", ChartAxis("points of accuracy")
    if metric != ACCURACY:
        unit, y = f"{metric.better} is better", ChartAxis(f"difference of {metric.name}")
    return Chart(
        "peer-gap" if metric == ACCURACY else f"peer-gap-{metric.key}",
        "High- against low-mobility devices",
        f"Mean {metric.name} of the high-mobility devices less that of the others, {unit}.",
        _ITERATION,
        y,
        series,
        levels=[ChartLevel(0.0, "")],
        height=300,
    )


def _neighbours(found: _Found) -> Chart:
    """Cumulative neighbours by class of mobility (de Heredia Fig. 7, 8)."""
    return Chart(
        "peer-neighbours",
        "Neighbours so far",
        "How many neighbours a device has had on average, repeats counted: solid, of high mobility; dashed, "
        "of low.",
        _ITERATION,
        ChartAxis("neighbours", from_zero=True),
        [line for place, run, peers in found for line in _classes(place, run, peers)],
        height=300,
    )


def _classes(place: int, run: RunSummary, peers: PeerSummary) -> Iterator[Series]:
    for column, name, dash in ((0, "high", "solid"), (1, "low", "dash")):
        values = peers.neighbours[:, column]
        if np.isfinite(values).all():
            line = _by_iteration(place, run, values, "%{y:.1f}")
            yield replace(line, id=f"{place}-{name}", name=f"{run.label}, {name}", dash=dash)


def _by_iteration(
    place: int, run: RunSummary, values: Floats, text: str, steps: Sequence[int] = ()
) -> Series:
    """`steps`: of each value; default: one after the other from 0."""
    every = one_in(len(values), _MOST_POINTS)
    return Series(
        str(place),
        run.label,
        list(steps or range(len(values)))[::every],
        [round(value, 6) if np.isfinite(value) else None for value in values.tolist()[::every]],
        run_colour(place),
        run_dash(place),
        hover=f"step %{{x}}: {text}",
        group=run.label,
    )
