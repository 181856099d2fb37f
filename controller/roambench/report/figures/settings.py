"""Charts of settings: means over seeds with their 95 % intervals, one line for each setting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.phases import Outcome
from roambench.energy.energy_value import Energy
from roambench.report.figures.chart import (
    Bars,
    Chart,
    ChartAxis,
    ChartRow,
    Series,
    run_colour,
    run_dash,
    run_mark,
)
from roambench.report.figures.learning import bought
from roambench.report.figures.look import OUTCOME_COLOURS, OUTCOME_PATTERNS, RUN_COLOURS
from roambench.report.joule_names import LEARNING, WASTED
from roambench.report.quantities import QUANTITIES
from roambench.report.settings import RepeatedSetting, Settings
from roambench.report.spread import Spread, spread
from roambench.report.summaries.run import RunSummary

_BAND = "Lines: means over the seeds; bands: their 95 % intervals (Student's t)."


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
        by_step = [_by_step(place, row, metric) for place, row in enumerate(rows)]
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


def _by_step(place: int, row: RepeatedSetting, metric: Metric) -> Series:
    """At every step at which a run was scored, while all of them go on; between its scores a run keeps the
    last."""
    curves = [_scores(run, metric) for run in row.runs]
    curves = [curve for curve in curves if curve]
    first, last = max(map(min, curves), default=0), min(map(max, curves), default=-1)
    steps = sorted({step for curve in curves for step in curve if first <= step <= last})
    means = [spread([curve[max(at for at in curve if at <= step)] for curve in curves]) for step in steps]
    return _series(
        place, row, steps, means, f"step %{{x}}: mean of {len(curves)} runs %{{y:.4g}}", stepped=True
    )


def _by_joule(place: int, row: RepeatedSetting, metric: Metric) -> Series:
    curves = [
        bought(run, run.spent) for run in row.runs if run.spent is not None and run.learning.metric == metric
    ]
    together = list(zip(*curves, strict=False))
    joules = [math.fsum(point.joules for point in points) / len(points) for points in together]
    means = [spread([metric.shown(point.score) for point in points]) for points in together]
    text = f"%{{y:.4g}} after %{{x:,.0f}} J, means of {len(curves)} runs"
    return _series(place, row, [round(value, 3) for value in joules], means, text, mark=run_mark(place))


def _scores(run: RunSummary, metric: Metric) -> dict[int, float]:
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
