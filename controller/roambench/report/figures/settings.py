"""Charts of settings: means over seeds with their 95 % intervals, one line for each setting."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.phases import Outcome
from roambench.energy.energy_value import Energy
from roambench.report.figures.chart import (
    Bars,
    Chart,
    ChartAxis,
    ChartLevel,
    ChartRow,
    Series,
    run_colour,
    run_dash,
    run_mark,
)
from roambench.report.figures.figure import one_in
from roambench.report.figures.learning import bought
from roambench.report.figures.look import OUTCOME_COLOURS, OUTCOME_PATTERNS, RUN_COLOURS
from roambench.report.joule_names import LEARNING, WASTED
from roambench.report.quantities import QUANTITIES
from roambench.report.settings import RepeatedSetting, Settings
from roambench.report.spread import Spread, spread
from roambench.report.summaries.peers import Floats, PeerPoint, PeerSummary
from roambench.report.summaries.run import RunSummary

_MOST_POINTS: Final = 500  # of a line by iteration; of more, every n-th is drawn
#: A run's values by step.
Curve = Mapping[int, float]
_BAND: Final = "Lines: means over the seeds; bands: their 95 % intervals (Student's t)."


def settings_charts(found: Settings) -> Iterator[Chart]:
    """Those that the settings have: scores by step and by joules, and the joules of each setting."""
    metrics = dict.fromkeys(run.learning.metric for row in found.rows for run in row.runs)
    for metric in metrics:
        rows = _shown(metric, found.rows)
        accuracy = metric == ACCURACY
        key, name = ("accuracy", "Accuracy") if accuracy else (metric.key, metric.name)
        title = ChartAxis("accuracy", "%", from_zero=True) if accuracy else ChartAxis(metric.axis)
        few = (
            f" The {len(rows)} of {len(found.rows)} settings with the best means."
            if len(rows) < len(found.rows)
            else ""
        )
        by_step = [
            _by_step(place, row, [_scores(run, metric) for run in row.runs], stepped=True)
            for place, row in enumerate(rows)
        ]
        by_joule = [_by_joule(place, row, metric) for place, row in enumerate(rows)]
        if any(series.x for series in by_step):
            yield Chart(key, f"{name} over steps", _BAND + few, ChartAxis("step"), title, by_step)
        if any(series.x for series in by_joule):
            basis = "modelled gross energy" if rows[0].basis == "modelled" else "gross energy"
            yield Chart(
                f"{key}-per-joule",
                f"{name} over joules",
                "At each cloud aggregation, over the mean energy of all local updates ordered before it. "
                f"{_BAND}{few}",
                ChartAxis(basis, "J", from_zero=True),
                title,
                by_joule,
            )
    yield from (chart for chart in _peer_charts(found.rows) if any(series.x for series in chart.series))
    joules = [row for row in found.rows if row.spread(QUANTITIES["consumed_j"]).mean is not None]
    if joules:
        yield _joules(joules)


def _shown(metric: Metric, rows: Sequence[RepeatedSetting]) -> list[RepeatedSetting]:
    """The settings that have a colour: those with the best last scores, in their order."""
    judged = [row for row in rows if any(run.learning.metric == metric for run in row.runs)]

    def last(row: RepeatedSetting) -> float:
        mean = spread([run.learning.final_score for run in row.runs]).mean
        return -math.inf if mean is None else mean if metric.better == "higher" else -mean

    best = sorted(judged, key=last, reverse=True)[: len(RUN_COLOURS)]
    return [row for row in judged if row in best]


def _peer_charts(rows: Sequence[RepeatedSetting]) -> Iterator[Chart]:
    """Those of decentralised runs: scores of the mean model, the gap by mobility, neighbours, mixing."""
    for metric in dict.fromkeys(run.peers.metric for row in rows for run in row.runs if run.peers):
        shown, accuracy = _shown(metric, rows), metric == ACCURACY
        name, suffix = ("Accuracy", "") if accuracy else (metric.name, f"-{metric.key}")
        yield _peer_chart(
            f"peer-average{suffix}",
            f"{name} of the mean model",
            "The mean of all devices' models, scored.",
            ChartAxis("accuracy", "%", from_zero=True) if accuracy else ChartAxis(metric.axis),
            shown,
            _scores_of_peers(metric, lambda point: point.average),
        )
        gap = _peer_chart(
            f"peer-gap{suffix}",
            "High- against low-mobility devices",
            f"Mean {metric.name} of the high-mobility devices less that of the others.",
            ChartAxis("points of accuracy" if accuracy else f"difference of {metric.name}"),
            shown,
            _scores_of_peers(metric, lambda point: point.gap),
        )
        yield replace(gap, levels=[ChartLevel(0.0, "")])
    for column, mobility in ((0, "high"), (1, "low")):
        yield _peer_chart(
            f"peer-neighbours-{mobility}",
            f"Neighbours so far, devices of {mobility} mobility",
            "How many neighbours a device has had on average, repeats counted.",
            ChartAxis("neighbours", from_zero=True),
            rows[: len(RUN_COLOURS)],
            _neighbours(column),
        )
    yield _peer_chart(
        "peer-mixing",
        "Mixing",
        "Distance of the classes that a device reaches from those of all devices; 0 is a fair sample.",
        ChartAxis("distance of classes", from_zero=True),
        rows[: len(RUN_COLOURS)],
        lambda peers: _finite(peers.distribution_distances),
    )
    yield _peer_chart(
        "peer-spectral-gap",
        "Spectral gap",
        "Of the iteration's mixing matrix; 0 where some part hears nothing of the rest.",
        ChartAxis("spectral gap"),
        rows[: len(RUN_COLOURS)],
        lambda peers: _finite(peers.spectral_gaps),
    )


def _peer_chart(
    key: str,
    title: str,
    caption: str,
    y: ChartAxis,
    rows: Sequence[RepeatedSetting],
    curve: Callable[[PeerSummary], Curve],
) -> Chart:
    """The curve of each decentralised run, as means over the seeds."""
    series = [
        _by_step(place, row, [curve(run.peers) for run in row.runs if run.peers])
        for place, row in enumerate(rows)
        if any(run.peers for run in row.runs)
    ]
    return Chart(key, title, f"{caption} {_BAND}", ChartAxis("iteration"), y, series)


def _scores_of_peers(
    metric: Metric, value: Callable[[PeerPoint], float | None]
) -> Callable[[PeerSummary], Curve]:
    """The curve of a value of the points of runs that are judged by the metric."""

    def curve(peers: PeerSummary) -> Curve:
        found = [(point.step, value(point)) for point in peers.points if peers.metric == metric]
        return {step: metric.shown(score) for step, score in found if score is not None}

    return curve


def _neighbours(column: int) -> Callable[[PeerSummary], Curve]:
    """The curve of a column of `PeerSummary.neighbours`."""
    return lambda peers: _finite(peers.neighbours[:, column])


def _finite(values: Floats) -> Curve:
    """By iteration, at most some hundred of them."""
    at = range(0, len(values), one_in(len(values), _MOST_POINTS))
    return {step: float(values[step]) for step in at if math.isfinite(values[step])}


def _by_step(place: int, row: RepeatedSetting, curves: Sequence[Curve], *, stepped: bool = False) -> Series:
    """At every step of one of the curves, while all of them go on; between its points a curve keeps the
    last."""
    curves = [curve for curve in curves if curve]
    first, last = max(map(min, curves), default=0), min(map(max, curves), default=-1)
    steps = sorted({step for curve in curves for step in curve if first <= step <= last})
    known = [_kept(curve, steps) for curve in curves]
    means = [spread(values) for values in zip(*known, strict=True)]
    text = f"step %{{x}}: mean of {len(curves)} runs %{{y:.4g}}"
    return _series(place, row, steps, means, text, stepped=stepped)


def _kept(curve: Curve, steps: Sequence[int]) -> list[float]:
    """The curve's newest value at each of the steps, ascending, of which none is before its first."""
    own = sorted(curve)
    return [curve[own[bisect_right(own, step) - 1]] for step in steps]


def _by_joule(place: int, row: RepeatedSetting, metric: Metric) -> Series:
    curves = [
        bought(run, run.spent) for run in row.runs if run.spent is not None and run.learning.metric == metric
    ]
    together = list(zip(*curves, strict=False))
    joules = [math.fsum(point.joules for point in points) / len(points) for points in together]
    means = [spread([metric.shown(point.score) for point in points]) for points in together]
    text = f"%{{y:.4g}} after %{{x:,.0f}} J, means of {len(curves)} runs"
    return _series(place, row, [round(value, 3) for value in joules], means, text, mark=run_mark(place))


def _scores(run: RunSummary, metric: Metric) -> Curve:
    if run.learning.metric != metric:
        return {}
    points = run.learning.points
    return {point.step: metric.shown(point.score) for point in points if point.score is not None}


def _series(
    place: int,
    row: RepeatedSetting,
    x: Sequence[float],
    means: Sequence[Spread],
    text: str,
    *,
    stepped: bool = False,
    mark: str = "",
) -> Series:
    banded = bool(means) and all(mean.interval is not None for mean in means)
    return Series(
        str(place),
        row.name,
        x,
        [mean.mean for mean in means],
        run_colour(place),
        run_dash(place),
        stepped=stepped,
        mark=mark,
        lower=[mean.interval.low for mean in means if mean.interval] if banded else (),
        upper=[mean.interval.high for mean in means if mean.interval] if banded else (),
        hover=text,
        group=row.name,
    )


def _joules(rows: Sequence[RepeatedSetting]) -> Chart:
    """Bars of means; what is wasted is a part of what was used for learning."""
    consumed = [row.spread(QUANTITIES["consumed_j"]) for row in rows]
    wasted = [
        min(row.spread(QUANTITIES["wasted_j"]).mean or 0.0, all_.mean or 0.0)
        for row, all_ in zip(rows, consumed, strict=True)
    ]
    parts = (
        (
            "not wasted",
            Outcome.AGGREGATED,
            [(all_.mean or 0.0) - lost for all_, lost in zip(consumed, wasted, strict=True)],
        ),
        (WASTED, Outcome.WASTED, wasted),
    )
    basis = "modelled gross energy" if rows[0].basis == "modelled" else "gross energy"
    return Chart(
        "energy",
        f"Energy {LEARNING}",
        "Means over the seeds; bars of error: the 95 % interval of the mean (Student's t).",
        ChartAxis(basis, "J"),
        rows=[ChartRow(str(place), row.name) for place, row in enumerate(rows)],
        bars=[Bars(name, lengths, OUTCOME_COLOURS[of], OUTCOME_PATTERNS[of]) for name, of, lengths in parts],
        # Totals are drawn with twice their u.
        totals=[
            Energy(all_.mean or 0.0, 0.0 if all_.interval is None else all_.interval.half / 2.0)
            for all_ in consumed
        ],
        height=130 + 34 * len(rows),
    )
