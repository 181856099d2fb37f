"""The few rows that matter at the end of a run: a line per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from roambench.contract.metric import Metric
from roambench.energy.energy_value import Energy
from roambench.report import numbers
from roambench.report.joule_names import BOARDS_IDLING_TOO, LEARNING, WASTED, in_all
from roambench.report.numbers import NONE
from roambench.report.summaries.finding import consumed_energy, failed_energy, wasted_energy
from roambench.report.summaries.run import RunSummary, scope_of
from roambench.report.table import ReportTable


def brief_table(runs: Sequence[RunSummary]) -> ReportTable:
    """The runs' metrics, trainings used and failed, energy wasted, used for learning and in all;
    columns that no run has are left out. Energies ± k = 2."""
    judged = dict.fromkeys(run.learning.metric for run in runs)
    scope = scope_of(runs)
    of = f", {scope}" if scope else ""
    columns: list[tuple[str, Callable[[RunSummary], str]]] = [
        *((metric.name, partial(score, metric)) for metric in judged),
        ("trainings used", _used),
        ("failed", _failed),
        (WASTED + of, lambda run: _joules(run, wasted_energy(run))),
        (LEARNING + of, lambda run: _joules(run, consumed_energy(run))),
        (
            in_all(BOARDS_IDLING_TOO, scope),
            lambda run: _joules(run, run.measured.whole_run if run.measured else None),
        ),
        ("J per point", _joules_per_point),
    ]
    shown = [(name, [value(run) for run in runs]) for name, value in columns]
    shown = [(name, cells) for name, cells in shown if any(cell != NONE for cell in cells)]
    rows = tuple((run.label, *(cells[place] for _, cells in shown)) for place, run in enumerate(runs))
    return ReportTable("brief", "", "", ("run", *(name for name, _ in shown)), rows)


def score(metric: Metric, run: RunSummary) -> str:
    """The last score of a run that is judged by the metric; a dash for another run."""
    found = run.learning.final_score
    return NONE if found is None or run.learning.metric != metric else metric.text(found)


def _used(run: RunSummary) -> str:
    """A decentralised run has none: every model is mixed where it is."""
    if run.peers is not None or not run.trainings.ordered:
        return NONE
    return f"{run.trainings.aggregated} of {run.trainings.ordered}"


def _failed(run: RunSummary) -> str:
    """Trainings that broke, and their joules where any are known."""
    if not run.trainings.failed:
        return NONE
    counts, spent = f"{run.trainings.failed} of {run.trainings.ordered}", failed_energy(run)
    return counts if spent is None else f"{counts}, {_joules(run, spent)}"


def _joules(run: RunSummary, found: Energy | None) -> str:
    if found is None:
        return NONE
    return numbers.energy(found, zero="0 J") + ("" if run.measured else " (modelled)")


def _joules_per_point(run: RunSummary) -> str:
    consumed = consumed_energy(run)
    if run.peers is None or consumed is None:
        return NONE
    return numbers.number(run.peers.joules_per_point(consumed.joules))
