"""The runs of a report beside MOHAWK's tables: a row of `report.tables.report.ADDED_TABLES`."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.contract.metric import ACCURACY
from roambench.extras.papers.ratios import ratios_table
from roambench.extras.papers.runs import PaperRun, setting_of
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable


def ratios_of_report(runs: Sequence[RunSummary]) -> list[ReportTable]:
    """The runs beside the paper's tables; [] unless MOHAWK and one of its baselines ran in one setting."""
    found = ratios_table([found for run in runs if (found := _paper_run_of(run)) is not None])
    return [] if found is None else [found]


def _paper_run_of(run: RunSummary) -> PaperRun | None:
    """A run of a report as the paper's tables take it; None where no step was closed, or has an accuracy."""
    learning, distance = run.learning, run.distance
    if not learning.points or learning.threshold is None or learning.metric != ACCURACY:
        return None
    return PaperRun(
        system=run.info.system,
        setting=setting_of(run.experiment),
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
