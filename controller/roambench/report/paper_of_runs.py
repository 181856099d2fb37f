"""The runs of a report beside the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.report.paper_ratios import ratios_table
from roambench.report.paper_runs import PaperRun
from roambench.report.summary import RunSummary
from roambench.report.table import Table


def tables_beside_the_paper(runs: Sequence[RunSummary]) -> list[Table]:
    """[] unless MOHAWK and one of its baselines are among the runs, in one setting."""
    found = ratios_table([found for run in runs if (found := paper_run_of(run)) is not None])
    return [] if found is None else [found]


def paper_run_of(run: RunSummary) -> PaperRun | None:
    """None for a run that closed no step."""
    learning, distance = run.learning, run.distance
    if not learning.points:
        return None
    return PaperRun(
        system=run.info.system,
        setting=run.setting,
        seed=run.info.seed,
        steps=len(learning.points),
        threshold=learning.threshold,
        threshold_step=learning.threshold_step,
        final_accuracy=learning.final_accuracy,
        best_accuracy=learning.best_accuracy,
        aggregated_per_step=learning.aggregated_per_step,
        distance_km=None if distance is None else distance.mean_m / 1000.0,
        distance_sd_km=None if distance is None else distance.sd_m / 1000.0,
        joules_per_client=None if run.modelled is None else run.modelled.to_threshold.joules_per_client,
        scored=tuple(
            (point.step, point.accuracy)
            for point in learning.points
            if point.cloud and point.accuracy is not None
        ),
    )
