"""Charts of the scores that the ends of runs wrote, of runs whose records are lost."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.contract.metric import ACCURACY
from roambench.report.figures.chart import Chart, ChartAxis, Series, run_colour, run_dash
from roambench.report.figures.figure import hover_value
from roambench.report.half_runs import STEPS, HalfRun


def half_run_charts(halves: Sequence[HalfRun]) -> list[Chart]:
    """One for each metric that one of the runs has."""
    return [
        Chart(
            f"half-runs-{metric.key}",
            f"{metric.name.capitalize()} over steps, as the runs' ends wrote it",
            f"From {STEPS}, of runs whose records are lost; not computed again.",
            ChartAxis("step"),
            ChartAxis("accuracy", "%", from_zero=True) if metric == ACCURACY else ChartAxis(metric.axis),
            [
                Series(
                    str(place),
                    half.label,
                    list(half.scores[metric]),
                    [metric.shown(value) for value in half.scores[metric].values()],
                    run_colour(place),
                    run_dash(place),
                    stepped=True,
                    hover=f"step %{{x}}: {hover_value(metric)}",
                    group=half.label,
                )
                for place, half in enumerate(halves)
                if metric in half.scores
            ],
        )
        for metric in dict.fromkeys(metric for half in halves for metric in half.scores)
    ]
