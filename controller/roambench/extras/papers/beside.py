"""The runs of a report beside MOHAWK's tables: a row of `report.tables.report.ADDED_TABLES`."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.contract.metric import ACCURACY
from roambench.extras.papers.ratios import ratios_table
from roambench.extras.papers.runs import PaperRun, paper_run
from roambench.report.quantities import number_of
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable
from roambench.study.sweep.metrics import figures, scored


def ratios_of_report(runs: Sequence[RunSummary]) -> list[ReportTable]:
    """The runs beside the paper's tables; [] unless MOHAWK and one of its baselines ran in one setting."""
    found = ratios_table([found for run in runs if (found := _paper_run_of(run)) is not None])
    return [] if found is None else [found]


def _paper_run_of(run: RunSummary) -> PaperRun | None:
    """None where no step was closed, or the run is not judged by accuracy."""
    if run.learning.metric != ACCURACY:
        return None
    numbers = {name: number_of(figure) for name, figure in figures(run).items()}
    return paper_run(run.info.system, run.experiment, numbers, scored(run))
