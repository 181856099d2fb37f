"""The report's tables as values; the console and the page draw the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.table import Table
from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.quantities import QUANTITIES
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable
from roambench.report.tables.batteries import battery_tables
from roambench.report.tables.board_state import clock_table, host_table
from roambench.report.tables.communication import communication_tables
from roambench.report.tables.energy import board_table, table10_table, whole_run_table
from roambench.report.tables.modelled import modelled_tables
from roambench.report.tables.peers import peer_tables
from roambench.report.tables.phases import phase_table, truth_table
from roambench.report.tables.rounds import round_tables
from roambench.report.tables.trust import trust_table
from roambench.report.tables.uncertainty import baseline_table, budget_table


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a comparison: a name and what it says of a run."""

    name: str
    value: Callable[[RunSummary], str]


#: Tables that `roambench.extras` and other packages set beside several runs; their keys begin with "paper-".
#: A row called SYSTEM.DATASET is loaded only where a run is of both.
ADDED_TABLES: Final[Table[Callable[[Sequence[RunSummary]], list[ReportTable]]]] = Table(
    what="table of reports",
    group="roambench.report_tables",
    own={},
)


def comparison_tables(runs: Sequence[RunSummary]) -> list[ReportTable]:
    """Everything that sets runs side by side, in reading order."""
    tables = [_runs_table(runs), _learning_table(runs), *peer_tables(runs), _training_table(runs)]
    if (trust := trust_table(runs)) is not None:
        tables.append(trust)
    if any(run.measured for run in runs):
        tables += [
            table10_table(runs, "gross"),
            table10_table(runs, "net"),
            whole_run_table(runs),
            phase_table(runs),
        ]
    tables += modelled_tables(runs) + communication_tables(runs)
    tables += [table for run in runs for table in round_tables(run)]
    if len(runs) > 1:
        tables += _added_tables(runs)
    return tables


def _added_tables(runs: Sequence[RunSummary]) -> list[ReportTable]:
    played = {
        f"{run.info.system}.{run.experiment.learning.task or run.experiment.learning.dataset}" for run in runs
    }
    names = [name for name in ADDED_TABLES.names() if "." not in name or name in played]
    rows = dict.fromkeys(map(ADDED_TABLES.load, names))  # a row may have several names
    return [table for row in rows for table in row(runs)]


def board_tables(runs: Sequence[RunSummary]) -> list[ReportTable]:
    """One table per run and subject: what each board cost and how sure that is, its clock, how it was."""
    tables = []
    for run in runs:
        if run.energy is not None:
            tables.append(board_table(run))
        found = (truth_table(run), budget_table(run), baseline_table(run), clock_table(run), host_table(run))
        tables += [table for table in found if table is not None]
    return tables


def detail_tables(runs: Sequence[RunSummary]) -> list[ReportTable]:
    """One table per run and subject: batteries, what went wrong, what the fleet saw."""
    tables = []
    for run in runs:
        tables += battery_tables(run)
        if run.orders.troubles:
            tables.append(_trouble_table(run))
        if run.incidents:
            tables.append(_incident_table(run))
    return tables


def _runs_table(runs: Sequence[RunSummary]) -> ReportTable:
    early = any(run.learning.ended for run in runs)
    ended = [Line("ended before the trace", lambda run: run.learning.ended or NONE)] if early else []
    lines = [
        Line("system", lambda run: run.info.system),
        Line("fleet", lambda run: run.info.fleet),
        Line("state", lambda run: run.info.state.value),
        Line("seed", lambda run: str(run.info.seed)),
        Line("devices", lambda run: str(len(run.info.device_names))),
        Line("steps closed", lambda run: str(len(run.learning.points))),
        *ended,
        Line("trace", lambda run: run.info.trace_hash[:12] or NONE),
        Line("assignment", lambda run: run.info.assignment_hash[:12] or NONE),
        Line("time scale", lambda run: f"{run.info.time_scale:g} ×"),
        Line(
            "device time",
            lambda run: NONE if run.energy is None else numbers.seconds(run.energy.duration_s),
        ),
        Line("roambench version", lambda run: run.info.versions.get("roambench", NONE)),
    ]
    return _compare(
        "runs",
        "Runs",
        "Equal trace: the same movement. Equal assignment: the same devices at the same APs at every step.",
        runs,
        lines,
    )


def _learning_table(runs: Sequence[RunSummary]) -> ReportTable:
    def threshold(run: RunSummary) -> str:
        learning = run.learning
        if learning.best_score is None:
            return "nothing is trained" if not run.info.kind.trains else "no model was scored"
        if learning.threshold is None:
            return NONE
        target = learning.metric.wanted(learning.threshold)
        if learning.threshold_step is None:
            return f"{target} not reached"
        return f"{target} at step {learning.threshold_step}"

    served = any(run.peers is None for run in runs)  # by access points
    cloud = [_line("cloud_aggregations")] if served else []
    distance = [Line("device to AP", _kilometres)] if served else []
    own = dict.fromkeys(metric for run in runs for metric in run.learning.own)
    named = dict.fromkeys(name for run in runs for name in run.learning.metrics)
    others = [name for name in named if name not in {metric.name for metric in own}]
    accuracy = [_line("final_accuracy"), _line("best_accuracy")]
    coarse = any(run.experiment.learning.score_precision != "float32" for run in runs)
    arithmetic = [Line("scored in", lambda run: run.experiment.learning.score_precision)] if coarse else []
    lines = [
        *(accuracy if any(run.learning.metric == ACCURACY for run in runs) else []),
        _line("final_loss"),
        *(line for metric in own for line in _metric_lines(metric)),
        *(Line(name, partial(_final, name)) for name in others),
        Line("threshold", threshold),
        *arithmetic,
        *cloud,
        _line("aggregated_per_step"),
        *distance,
    ]
    return _compare(
        "learning",
        "Learning",
        "Scores are the global model's on the test set; decentralised: mean over the devices. Local model "
        "divergence: how far devices' own models were from the last global one, as a share of its length. "
        "The threshold is reached at the first cloud aggregation (or scored exchange) that is at least that "
        "good. Devices per step: mean over all steps after the first. Distance: mean, and standard deviation "
        "(sd), over every present device in every step.",
        runs,
        lines,
    )


def _line(name: str) -> Line:
    quantity = QUANTITIES[name]
    return Line(quantity.title, quantity.text)


def _final(name: str, run: RunSummary) -> str:
    return numbers.number(run.learning.final_metrics.get(name), 4)


def _metric_lines(metric: Metric) -> Iterator[Line]:
    def best(run: RunSummary) -> str:
        return numbers.number(run.learning.best_metrics.get(metric.name), 4)

    yield Line(f"final {metric.name} ({metric.better} is better)", partial(_final, metric.name))
    yield Line(f"best {metric.name}", best)


def _kilometres(run: RunSummary) -> str:
    if run.distance is None or run.peers is not None:
        return NONE
    return numbers.kilometres(run.distance.mean_m, run.distance.sd_m)


def _training_table(runs: Sequence[RunSummary]) -> ReportTable:
    def share(value: int, run: RunSummary) -> str:
        if not run.trainings.ordered:
            return str(value)
        return f"{value} ({100.0 * value / run.trainings.ordered:.0f} %)"

    lines = [
        Line("local updates ordered", lambda run: str(run.trainings.ordered)),
        Line("aggregated", lambda run: share(run.trainings.aggregated, run)),
        Line("wasted", lambda run: share(run.trainings.wasted, run)),
    ]
    lines += [
        Line(f"  wasted: {reason}", lambda run, reason=reason: str(run.trainings.reasons.get(reason, 0)))  # type: ignore[misc]
        for reason in dict.fromkeys(reason for run in runs for reason in run.trainings.reasons)
    ]
    if any(run.trainings.failed for run in runs):
        lines.append(Line("failed", lambda run: share(run.trainings.failed, run)))
    lines += [
        Line(
            f"  failed: {reason}",
            lambda run, reason=reason: str(run.trainings.failed_reasons.get(reason, 0)),  # type: ignore[misc]
        )
        for reason in dict.fromkeys(reason for run in runs for reason in run.trainings.failed_reasons)
    ]
    if any(run.trainings.pending for run in runs):
        lines.append(Line("outstanding", lambda run: share(run.trainings.pending, run)))
    lines += [
        Line("wasted, though the device came back", lambda run: str(run.trainings.wasted_reappeared)),
        Line("reached the cloud", lambda run: str(run.trainings.reached_cloud)),
    ]
    answers = dict.fromkeys(sorted(key for run in runs for key in run.orders.answers))
    lines += [
        Line(f"{kind} orders {status}", lambda run, key=(kind, status): str(run.orders.answers.get(key, 0)))  # type: ignore[misc]
        for kind, status in answers
    ]
    if any(run.orders.unanswered for run in runs):
        lines.append(Line("orders without an answer", lambda run: str(run.orders.unanswered)))
    return _compare(
        "trainings",
        "Local updates and their outcomes",
        "A local update is wasted when the system has no use for its model: the device has gone away, or a "
        "rule drops it. It failed when something broke: a deadline passed, a board was lost, or an access "
        "point asked for a model and got none.",
        runs,
        lines,
    )


def _trouble_table(run: RunSummary) -> ReportTable:
    rows = [
        (str(item.step), item.device, item.kind, item.status, item.reason or NONE)
        for item in run.orders.troubles
    ]
    return ReportTable(
        f"trouble-{run.label}",
        f"{run.label}: orders that were not done",
        "Every one is an answer with a reason; the step went on without it.",
        ("step", "device", "order", "answer", "reason"),
        tuple(rows),
        numeric_from=99,
    )


def _incident_table(run: RunSummary) -> ReportTable:
    rows = [(str(item.step), item.device, item.kind, item.detail or NONE) for item in run.incidents]
    return ReportTable(
        f"incidents-{run.label}",
        f"{run.label}: what the fleet saw",
        "Sessions lost, refused uploads and agents that came back. Step -1 is before the first.",
        ("step", "device", "what", "detail"),
        tuple(rows),
        numeric_from=99,
    )


def _compare(
    key: str, title: str, caption: str, runs: Sequence[RunSummary], lines: Sequence[Line]
) -> ReportTable:
    head = ("", *(run.label for run in runs))
    rows = tuple((line.name, *(line.value(run) for run in runs)) for line in lines)
    return ReportTable(key, title, caption, head, rows)
