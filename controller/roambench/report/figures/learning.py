"""Charts of what was learned: scores and losses by step, what joules bought, models aggregated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.phases import Outcome
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
from roambench.report.figures.figure import Figure, drawn, hover, hover_value, safe
from roambench.report.figures.look import OUTCOME_COLOURS, OUTCOME_PATTERNS, RUN_PATTERNS, pattern
from roambench.report.joule_names import LEARNING
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.modelled import ModelledSummary
from roambench.report.summaries.run import RunSummary

#: What runs spent, by their place in a report.
Energies = Mapping[int, EnergySummary | ModelledSummary]


def measured_of(runs: Sequence[RunSummary]) -> Energies:
    """The energies that meters saw."""
    return {place: run.measured for place, run in enumerate(runs) if run.measured is not None}


def judged_by(runs: Sequence[RunSummary]) -> list[Metric]:
    """The metrics that the runs are judged by, each once."""
    return list(dict.fromkeys(run.learning.metric for run in runs))


def score_charts(metric: Metric, runs: Sequence[RunSummary]) -> tuple[Chart, Chart] | None:
    """Accuracy or what else the runs are judged by, and the loss, by step; None where nothing was scored."""
    scores, losses = [], []
    for place, run in enumerate(runs):
        points = [point for point in run.learning.points if point.score is not None]
        if points and run.learning.metric == metric:
            steps = [point.step for point in points]
            # Only where the cloud made a new model; elsewhere the line just goes on.
            clouds = [point.new for point in points]
            shown = [metric.shown(point.score or 0.0) for point in points]
            scores.append(_by_step(place, run, steps, shown, clouds, f"step %{{x}}: {hover_value(metric)}"))
            losses.append(
                _by_step(
                    place, run, steps, [point.loss for point in points], clouds, "step %{x}: loss %{y:.3f}"
                )
            )
    if not scores:
        return None
    thresholds = _thresholds(metric, runs)
    y = ChartAxis(metric.axis)
    if metric == ACCURACY:
        tallest = max([*(run.learning.best_accuracy or 0.0 for run in runs), *thresholds])
        y = ChartAxis(
            f"accuracy of {_models(runs)}", "%", limits=(0.0, min(104.0, max(1.0, 112.0 * tallest)))
        )
    return (
        Chart(
            "accuracy" if metric == ACCURACY else f"metric-{metric.key}",
            "Accuracy and loss" if metric == ACCURACY else f"{metric.name} and loss",
            _scored(runs),
            ChartAxis("step"),
            y,
            scores,
            levels=[
                ChartLevel(metric.shown(value), f"threshold {metric.wanted(value)}") for value in thresholds
            ],
        ),
        Chart(
            "loss", "Loss", "", ChartAxis("step"), ChartAxis("loss on the test set", from_zero=True), losses
        ),
    )


def _by_step(
    place: int,
    run: RunSummary,
    steps: Sequence[int],
    values: Sequence[float | None],
    marked: Sequence[bool],
    text: str,
) -> Series:
    return Series(
        str(place),
        run.label,
        steps,
        values,
        run_colour(place),
        run_dash(place),
        stepped=True,
        mark=run_mark(place),
        marked=marked,
        hover=text,
        group=run.label,
    )


def _models(runs: Sequence[RunSummary]) -> str:
    return "the global model" if all(run.peers is None for run in runs) else "the models"


def _scored(runs: Sequence[RunSummary]) -> str:
    notes = []
    if any(run.peers is None for run in runs):
        notes.append(
            "The global model on the test set after every step. Markers: the first score of each model "
            "that the cloud made."
        )
    if any(run.peers is not None for run in runs):
        notes.append("Without a server: the mean over the devices' own models, whenever they are scored.")
    return " ".join(notes)


def _thresholds(metric: Metric, runs: Sequence[RunSummary]) -> list[float]:
    """The thresholds of the runs that are judged by the metric, each once, ascending."""
    found = {run.learning.threshold for run in runs if run.learning.metric == metric}
    return sorted(value for value in found if value is not None)


@dataclass(frozen=True, slots=True)
class Bought:
    """The score of a step's cloud aggregation, and the gross joules consumed before it."""

    step: int
    joules: float
    score: float


def bought(run: RunSummary, energy: EnergySummary | ModelledSummary) -> list[Bought]:
    """The score of a run and its joules so far at every scored cloud aggregation."""
    found, total = [], 0.0
    for point in run.learning.points:
        if point.new and point.score is not None:
            found.append(Bought(point.step, total, point.score))
        total += energy.consumed_by_step.get(point.step, 0.0)  # trainings ordered in this step come later
    return found


def per_joule_chart(metric: Metric, runs: Sequence[RunSummary], energies: Energies) -> Chart | None:
    """Accuracy, or what a task is judged by, against the energy consumed so far: what joules bought."""
    series = []
    for place, energy in energies.items():
        run = runs[place]
        points = bought(run, energy)
        if points and run.learning.metric == metric:
            series.append(
                Series(
                    str(place),
                    run.label,
                    [round(point.joules, 3) for point in points],
                    [metric.shown(point.score) for point in points],
                    run_colour(place),
                    run_dash(place),
                    mark=run_mark(place),
                    hover=f"step %{{customdata}}: {hover_value(metric)} after %{{x:,.0f}} J",
                    notes=[point.step for point in points],
                )
            )
    if not series:
        return None
    higher, name = metric.better.capitalize(), metric.name[0].upper() + metric.name[1:]
    accuracy = metric == ACCURACY
    return Chart(
        "accuracy-per-joule" if accuracy else f"joules-{metric.key}",
        "What the joules bought",
        f"{name} at every cloud aggregation against the energy that download, training and upload of all "
        f"local updates ordered before it took (gross, all boards). {higher} and further left is better.",
        ChartAxis(f"{gross(energies)} {LEARNING}", "J", from_zero=True),
        ChartAxis(metric.name, "%", from_zero=True) if accuracy else ChartAxis(metric.axis, from_zero=True),
        series,
    )


def gross(energies: Energies) -> str:
    """The title of an axis of these energies."""
    basis = next(iter(energies.values())).gross.basis
    return "gross energy" if basis == "measured" else "modelled gross energy"


def outcome_chart(runs: Sequence[RunSummary]) -> Chart | None:
    """Local updates by what became of them; None where none was ordered."""
    if not any(run.trainings.ordered for run in runs):
        return None
    return Chart(
        "outcomes",
        "What became of local updates",
        "",
        ChartAxis("local updates"),
        rows=[ChartRow(str(place), run.label) for place, run in enumerate(runs)],
        bars=[
            Bars(
                outcome.value,
                [getattr(run.trainings, outcome.value) for run in runs],
                OUTCOME_COLOURS[outcome],
                OUTCOME_PATTERNS[outcome],
            )
            for outcome in (Outcome.AGGREGATED, Outcome.WASTED, Outcome.FAILED, Outcome.PENDING)
        ],
        counted=True,
    )


def aggregated_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Models aggregated in each step; None where no run has a server."""
    traces = [
        go.Bar(
            name=safe(run.label),
            x=[point.step for point in run.learning.points],
            y=[point.aggregated for point in run.learning.points],
            marker={"color": run_colour(index), "pattern": pattern(RUN_PATTERNS[index % 6])},
            hovertemplate=hover("step %{x}: %{y} models", run.label),
        )
        for index, run in enumerate(runs)
        if run.learning.points and run.peers is None
    ]
    if not traces:
        return None
    most = max(point.aggregated for run in runs for point in run.learning.points)
    ticks = {"dtick": 1} if most < 6 else {}  # else half a model is a tick
    return drawn(
        "aggregated",
        "Devices aggregated per step",
        "How many devices' models the access points aggregated in each step. Where models go up a step after "
        "their training nothing can arrive in step 0.",
        traces,
        300,
        barmode="group",
        bargap=0.25,
        xaxis={"title": "step"},
        yaxis={"title": "models aggregated", "rangemode": "tozero", "tickformat": "d", **ticks},
    )
