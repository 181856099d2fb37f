"""The metrics of a sweep's table: every quantity of a run, and those that a name makes up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from roambench.energy.energy_value import Energy
from roambench.learning.tasks import metrics_of
from roambench.report.quantities import QUANTITIES, Quantity, figures_of
from roambench.study.sweep.class_metrics import ClassMetric, class_metric_of

if TYPE_CHECKING:  # a sweep need not load what makes a report; its points do
    from roambench.report.summaries.run import RunSummary


#: What `metrics` and `--metric` take by name. `measured_j` is `consumed_j` of runs with meters alone.
METRICS: Final[Mapping[str, Quantity]] = MappingProxyType(
    {
        **QUANTITIES,
        "measured_j": replace(QUANTITIES["consumed_j"], name="measured_j", basis="measured"),
    }
)

#: What a sweep shows unless it says otherwise.
USUAL: Final = (
    "final_accuracy",
    "rounds_to_threshold",
    "aggregated_per_step",
    "wasted_share",
    "measured_j",
    "modelled_j",
)


_OF_TASK: Final = re.compile(r"(final|best) .+")
_ROUNDS_TO: Final = "rounds_to_"
_NUMBER: Final = re.compile(r"[01]|[01]?\.[0-9]+|1e-[0-9]+")


def accuracy_in(name: str) -> float | None:
    """0.9 of `rounds_to_0.9`: any number above 0 up to 1. None for another metric."""
    written = name.removeprefix(_ROUNDS_TO)
    if written == name or not _NUMBER.fullmatch(written):
        return None
    accuracy = float(written)
    return accuracy if 0.0 < accuracy <= 1.0 else None


def metric_of(name: str) -> Quantity | None:
    """The metric of this name; `rounds_to_<accuracy>` is one for every accuracy, `final <name>` and `best
    <name>` are of a task's own, and there are those of `class_metrics`."""
    if is_of_task(name):
        return Quantity(name, name, lambda run: of_task(run).get(name), places=4)
    if (by_class := class_metric_of(name)) is not None:
        return Quantity(
            name,
            by_class.title,
            lambda run: _of_classes(by_class, run),
            "share",
            "" if by_class.drift else "higher",
        )
    if (accuracy := accuracy_in(name)) is None:
        return METRICS.get(name)
    title = f"rounds to {100.0 * accuracy:g} %"
    return Quantity(name, title, lambda run: rounds_to(accuracy, scored(run)), "", "lower", places=1)


def _of_classes(metric: ClassMetric, run: RunSummary) -> float | None:
    first = run.learning.first_round
    return metric.figure(run.learning.metrics, {at - first: accuracy for at, accuracy in scored(run)})


def own_names(task: str) -> list[str]:
    """The metrics of a sweep that a task has by itself."""
    return [f"{which} {metric.name}" for metric in metrics_of(task) for which in ("final", "best")]


def is_of_task(name: str) -> bool:
    """Return whether the name is one of a task's own metrics, `final <name>` or `best <name>`."""
    return _OF_TASK.fullmatch(name) is not None


def usual(own: Sequence[str]) -> tuple[str, ...]:
    """Return what a sweep shows unless it says otherwise: the task's metrics, if it has any, instead of
    accuracy."""
    final = [name for name in own if name.startswith("final ")]
    return (*final, *USUAL[1:]) if final else USUAL


def of_task(run: RunSummary) -> dict[str, float]:
    """The last and the best value of every metric of the run's own task."""
    learning = run.learning
    last, own = learning.final_metrics, [metric.name for metric in learning.own]
    final = {f"final {name}": last[name] for name in own if name in last}
    return final | {f"best {name}": value for name, value in learning.best_metrics.items()}


def scored(run: RunSummary) -> tuple[tuple[int, float], ...]:
    """(round, accuracy) of every cloud aggregation whose model was scored, or of every iteration after which
    peers' models were."""
    return tuple(
        (point.step + run.learning.first_round, point.accuracy)
        for point in run.learning.points
        if (point.new or run.peers is not None) and point.accuracy is not None
    )


def rounds_to(accuracy: float, found: Sequence[tuple[int, float]]) -> float | None:
    """The round of the first scored cloud aggregation with at least this accuracy."""
    return next((float(rounds) for rounds, reached in found if reached >= accuracy), None)


def figures(run: RunSummary) -> dict[str, Energy | float | None]:
    """Every metric of the run, its task's own among them; energies with their uncertainty, None for what the
    run has not."""
    found: dict[str, Energy | float] = figures_of(run)
    if run.basis == "measured" and "consumed_j" in found:
        found["measured_j"] = found["consumed_j"]
    own = {name: value if math.isfinite(value) else None for name, value in of_task(run).items()}
    return {name: found.get(name) for name in METRICS} | own
