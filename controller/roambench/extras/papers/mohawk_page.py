"""The results of sweeps as one Markdown page with curves: our tables beside MOHAWK's."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Final

from roambench.contract.counts import count
from roambench.contract.errors import RunError, TraceError
from roambench.extras.papers.alike import refuse_unlike, taken_together
from roambench.extras.papers.finished_runs import FinishedRun
from roambench.extras.papers.mohawk import SYSTEMS
from roambench.extras.papers.ratios import milestones_table
from roambench.extras.papers.results_page import (
    CurvesOf,
    ResultsPage,
    Says,
    accuracy_charts,
    part_of,
    results_page,
    scale_table,
)
from roambench.extras.papers.tables import paper_tables
from roambench.mobility.files import read_trace
from roambench.report import numbers
from roambench.report.figures.chart import Chart
from roambench.report.table import ReportTable

_NONE: Final = numbers.NONE


def mohawk_page(
    folders: Sequence[Path],
    *,
    title: str,
    curves_name: str,
    foreword: Sequence[str] = (),
    first: Sequence[ReportTable] = (),
    stopped: Sequence[FinishedRun] = (),
) -> ResultsPage:
    """The page of the finished runs of these sweeps; `first` are tables that stand before the paper's, which
    are left out where MOHAWK and a baseline are not among the runs in one setting. `stopped`: runs that have
    a row only. RunError without any table, or where runs of one setting differ in more than the seed."""
    runs = taken_together(folders)
    beside = [found for run in runs if (found := run.beside_the_paper()) is not None]
    tables = paper_tables(beside)
    if all(run.experiment.rounds.stop_at_threshold for run in runs):  # Table 3 has those after the month
        tables = [table for table in tables if table.key != "paper-accuracy"]
    if not tables and not first:
        raise RunError(
            f"{', '.join(map(str, folders))}: no runs to set beside the paper: expected mohawk and hierfavg "
            "or macfl with the same data set, partition and k2"
        )
    refuse_unlike(runs, _cell)
    if tables and (milestones := milestones_table(beside)) is not None:
        rounds = next(place for place, table in enumerate(tables) if table.key == "paper-rounds")
        tables.insert(rounds + 1, milestones)
    return results_page(
        folders,
        runs,
        title=title,
        scale=_scale(runs),
        tables=[*first, *tables],
        points=_points(runs, stopped),
        curves=CurvesOf("Accuracy over rounds", _curves(runs)),
        curves_name=curves_name,
        foreword=foreword,
    )


def _cell(run: FinishedRun) -> Hashable | None:
    """The settings that the paper's tables keep apart."""
    found = run.beside_the_paper()
    return None if found is None or run.system not in SYSTEMS else (run.system, found.setting)


#: What a page says of the scale.
_SAYS: Final[Says] = (
    ("fleet", lambda run: run.fleet),
    ("systems", lambda run: run.system),
    ("seeds", lambda run: run.experiment.seed),
    ("data set", lambda run: run.experiment.learning.task or run.experiment.learning.dataset),
    ("model", lambda run: run.experiment.learning.model),
    ("images per device", lambda run: run.experiment.learning.images_per_device),
    ("Dirichlet alpha", lambda run: run.experiment.learning.alpha),
    ("local epochs k1", lambda run: run.experiment.learning.local_epochs),
    ("steps between cloud aggregations k2", lambda run: run.experiment.rounds.cloud_every_steps),
    ("batch size", lambda run: run.experiment.learning.batch_size),
    ("learning rate", lambda run: run.experiment.learning.learning_rate),
    ("momentum", lambda run: run.experiment.learning.momentum),
    ("test images", lambda run: part_of(run.experiment.learning.test_images)),
    ("scored cloud aggregations", lambda run: f"every {run.experiment.rounds.evaluate_every}"),
    ("accuracy threshold", lambda run: f"{100.0 * run.experiment.rounds.accuracy_threshold:g} %"),
    ("a run ends at its threshold", lambda run: "yes" if run.experiment.rounds.stop_at_threshold else "no"),
    ("look-ahead, an oracle", lambda run: "yes" if run.experiment.rounds.lookahead else "no"),
    ("link model", lambda run: Path(run.experiment.links.model).name),
)

#: The same of MOHAWK's own experiments (sections 4.1 and 4.2, and its authors' code), where they tell.
_PAPER_SAYS: Final = {
    "images per device": "500 (CIFAR-100: 2,500)",
    "Dirichlet alpha": "100, 0.1",
    "local epochs k1": "5",
    "steps between cloud aggregations k2": "2, 5, 10",
    "batch size": "8",
    "learning rate": "0.01",
    "look-ahead, an oracle": "yes, in its authors' simulator",
    "test images": "all",
    "accuracy threshold": "97 % (MNIST), 75 % (EMNIST), 60 % (CIFAR-10), 45 % (CIFAR-100)",
    "trace": "1,000 devices, 100 APs, 744 steps of 3600 s; present per step: 0 to 76",
}


def _scale(runs: Sequence[FinishedRun]) -> ReportTable:
    traces = dict.fromkeys(_trace(run) for run in runs)
    return scale_table(
        runs, _SAYS, _PAPER_SAYS, [("trace", trace, _PAPER_SAYS["trace"]) for trace in traces if trace]
    )


def _trace(run: FinishedRun) -> str:
    """The name and size of a run's trace, from the run's own copy."""
    paths = sorted((run.folder / "runs").glob("*/trace.parquet"))
    if not paths:
        return ""
    try:
        trace = read_trace(paths[0])
    except TraceError:
        return ""
    present = [len(trace.present(step)) for step in range(trace.steps)]
    section = run.experiment.trace
    name = Path(section.file).name if section.file else f"generated: {section.generator}"
    return (
        f"{name}; {count(len(trace.device_names), 'device')}, {count(len(trace.ap_names), 'AP')}, "
        f"{count(trace.steps, 'step')} of {trace.step_s:g} s; "
        f"present per step: mean {sum(present) / len(present):.2f}, {min(present):,} to {max(present):,}"
    )


def _curves(runs: Sequence[FinishedRun]) -> tuple[Chart, ...]:
    thresholds = {run.experiment.rounds.accuracy_threshold for run in runs}
    scored = [run for run in sorted(runs, key=_panel) if run.outcome.scored]
    return accuracy_charts(
        ((_panel(run), run.system, run.outcome.scored) for run in scored),
        "rounds",
        thresholds.pop() if len(thresholds) == 1 else None,
    )


def _panel(run: FinishedRun) -> str:
    found = run.beside_the_paper()
    assert found is not None or not run.outcome.scored  # what was scored played steps
    return "" if found is None else f"{found.setting.dataset}, {found.setting.data}, k2 = {found.setting.k2}"


def _points(runs: Sequence[FinishedRun], stopped: Sequence[FinishedRun]) -> ReportTable:
    rows = [row for run in (*runs, *stopped) if (row := _row(run)) is not None]
    return ReportTable(
        "paper-points",
        "Every run",
        "Rounds: t of the cloud aggregation whose model reached the threshold. Computed: trainings that "
        "were really computed; those that no aggregation uses need not be. J per client: modelled, up to the "
        "threshold or, where it was not reached, over all rounds. Wall time: of that run alone, others ran "
        "beside it.",
        (
            "system", "data", "k2", "seed", "steps", "rounds", "last", "best", "aggregated per step", "km",
            "trainings", "computed", "wasted", "J per client", "J per participant", "wall time",
        ),
        tuple(rows),
        numeric_from=2,
    )  # fmt: skip


def _row(run: FinishedRun) -> tuple[str, ...] | None:
    found, figures = run.beside_the_paper(), run.outcome.figures
    if found is None:
        return None
    wall_s = run.outcome.wall_s
    reached = found.threshold_step
    return (
        run.system,
        found.setting.data,
        str(found.setting.k2),
        str(found.seed),
        f"{found.steps:,}",
        f"{reached:,}" if reached is not None else f"not in {found.steps - 1:,}{_so_far(run)}",
        numbers.percent(figures["final_accuracy"], 2),
        numbers.percent(figures["best_accuracy"], 2),
        numbers.number(figures["aggregated_per_step"], 3),
        numbers.number(figures["distance_km"], 2),
        _count(figures["trainings"]),
        _count(figures["computed_trainings"]),
        numbers.percent(figures["wasted_share"]),
        numbers.number(figures["communication_j_per_client"], 2),
        numbers.number(figures["communication_j_per_participant"], 2),
        numbers.seconds(wall_s) if wall_s else _NONE,
    )


def _so_far(run: FinishedRun) -> str:
    return "" if run.outcome.finished else " (so far)"


def _count(value: Any) -> str:
    return _NONE if value is None else f"{value:,.0f}"
