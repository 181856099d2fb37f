"""Figures of a run that a sweep's table can show: name -> title and the figure, taken from the run's
summary."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from roambench.contract.metric import ACCURACY, Better
from roambench.controller.sweep.class_metrics import ClassMetric, class_metric_of
from roambench.learning.tasks import metrics_of
from roambench.rounds.records import LOCAL_DIVERGENCE

if TYPE_CHECKING:  # a sweep need not load what makes a report; its points do
    from roambench.report.summaries.run import RunSummary


@dataclass(frozen=True, slots=True)
class SweepMetric:
    """`share`: the figure is 0..1 and printed in percent. The figure is None where the run has none.

    `better`: "" where more is neither better nor worse, and of a task's own, whose direction its runs know.
    """

    name: str
    title: str
    figure: Callable[[RunSummary], float | None]
    share: bool = False
    places: int = 2  # printed behind the point; one digit more of the standard deviation would say nothing
    unit: str = ""  # where the title is not beside the figure
    better: Better | Literal[""] = ""


def _local_divergence(run: RunSummary) -> float | None:
    """MIDDLE's Eq. 23 at the last cloud aggregation."""
    return run.learning.final_metrics.get(LOCAL_DIVERGENCE)


def _rounds_to_threshold(run: RunSummary) -> float | None:
    """As the papers count rounds: t of the cloud aggregation whose model first reached the threshold."""
    step = run.learning.threshold_step
    return None if step is None else step + run.learning.first_round


def _rounds(run: RunSummary) -> float:
    return len(run.learning.points) - 1 + run.learning.first_round


def _communication(run: RunSummary) -> float | None:
    return None if run.modelled is None else run.modelled.to_threshold.joules_per_client


def _communication_per_participant(run: RunSummary) -> float | None:
    return None if run.modelled is None else run.modelled.to_threshold.joules_per_participant


def _communication_to_threshold(run: RunSummary) -> float | None:
    """Table 6; no figure where the threshold was not reached."""
    return None if run.learning.threshold_step is None else _communication(run)


def _measured_joules(run: RunSummary) -> float | None:
    if run.measured is None or run.measured.without:
        return None
    return run.measured.gross.cumulative_consumed.joules


def _modelled_joules(run: RunSummary) -> float | None:
    """Eq. 1 over all transfers; no figure where no transfer had a size (a rehearsal)."""
    return math.fsum(run.modelled_from_log_j.values()) or None


def _average_accuracy(run: RunSummary) -> float | None:
    return None if run.peers is None or run.peers.metric != ACCURACY else run.peers.final_average


def _mobility_gap(run: RunSummary) -> float | None:
    """Mean over all scored iterations: de Heredia's "throughout experiments"."""
    return None if run.peers is None or run.peers.metric != ACCURACY else run.peers.mean_gap


def _left_out(run: RunSummary) -> float | None:
    return None if run.peers is None else run.peers.left_out_models


def _neighbours(run: RunSummary) -> float | None:
    return None if run.peers is None else run.peers.mean_neighbours


def _spectral_gap(run: RunSummary) -> float | None:
    return None if run.peers is None else run.peers.mean_spectral_gap


def _connected_within(run: RunSummary) -> float | None:
    """Steps until the union of links connects all devices; None if it never does."""
    return None if run.peers is None else run.peers.connected_within


def _distribution_distance(run: RunSummary) -> float | None:
    return None if run.peers is None else run.peers.mean_distribution_distance


def _consumed_joules(run: RunSummary) -> float | None:
    """All that virtual devices are modelled to draw in trainings and transfers, idle part included."""
    return None if run.modelled is None else run.modelled.gross.cumulative_consumed.joules


def _wasted_joules(run: RunSummary) -> float | None:
    """Of the consumed joules those of local updates that the system had no use for."""
    return None if run.modelled is None else run.modelled.gross.cumulative_wasted.joules


def _failed_joules(run: RunSummary) -> float | None:
    """Of the consumed joules those of local updates that failed."""
    return None if run.modelled is None else run.modelled.gross.cumulative_failed.joules


def _joules_per_point(run: RunSummary) -> float | None:
    """Joules by percentage points of the final accuracy."""
    return None if run.peers is None else run.peers.joules_per_point(_consumed_joules(run))


METRICS: Final[Mapping[str, SweepMetric]] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            SweepMetric(
                "final_accuracy",
                "final accuracy",
                lambda run: run.learning.final_accuracy,
                share=True,
                better="higher",
            ),
            SweepMetric(
                "best_accuracy",
                "best accuracy",
                lambda run: run.learning.best_accuracy,
                share=True,
                better="higher",
            ),
            SweepMetric(
                "final_loss", "final loss", lambda run: run.learning.final_loss, places=3, better="lower"
            ),
            SweepMetric("local_divergence", "divergence of local models", _local_divergence, places=4),
            SweepMetric(
                "rounds_to_threshold", "rounds to threshold", _rounds_to_threshold, places=1, better="lower"
            ),
            SweepMetric(
                "aggregated_per_step",
                "aggregated per step",
                lambda run: run.learning.aggregated_per_step,
                better="higher",
            ),
            SweepMetric(
                "cloud_aggregations", "cloud aggregations", lambda run: run.learning.cloud_aggregations
            ),
            SweepMetric("trainings", "trainings", lambda run: run.trainings.ordered, places=1),
            SweepMetric(
                "computed_trainings",
                "trainings computed",
                lambda run: run.orders.computed,
                places=1,
            ),
            SweepMetric(
                "wasted_share", "wasted", lambda run: run.trainings.wasted_share, share=True, better="lower"
            ),
            SweepMetric(
                "failed_share", "failed", lambda run: run.trainings.failed_share, share=True, better="lower"
            ),
            SweepMetric(
                "distance_m",
                "device to AP, m",
                lambda run: None if run.distance is None else run.distance.mean_m,
                places=0,
            ),
            SweepMetric(
                "distance_km",
                "device to AP, km",
                lambda run: None if run.distance is None else run.distance.mean_m / 1000.0,
                unit="km",
            ),
            SweepMetric(
                "distance_sd_km",
                "its sd, km",
                lambda run: None if run.distance is None else run.distance.sd_m / 1000.0,
            ),
            SweepMetric(
                "communication_j_to_threshold",
                "J per client to threshold, modelled",
                _communication_to_threshold,
                places=1,
                better="lower",
            ),
            SweepMetric(
                "communication_j_per_client",
                "J per client, modelled",
                _communication,
                places=1,
                unit="J",
                better="lower",
            ),
            SweepMetric(
                "communication_j_per_participant",
                "J per participant, modelled",
                _communication_per_participant,
                places=1,
                better="lower",
            ),
            SweepMetric("steps", "steps played", lambda run: len(run.learning.points), places=0),
            SweepMetric("rounds", "rounds played", _rounds, places=0),
            SweepMetric(
                "average_accuracy",
                "accuracy of the mean model",
                _average_accuracy,
                share=True,
                better="higher",
            ),
            SweepMetric("mobility_gap", "high - low mobility", _mobility_gap, share=True),
            SweepMetric("left_out", "models left out", _left_out, places=1, better="lower"),
            SweepMetric("neighbours", "neighbours per exchange", _neighbours),
            SweepMetric("spectral_gap", "spectral gap", _spectral_gap, places=4),
            SweepMetric("connected_within", "iterations to connect, B", _connected_within, places=1),
            SweepMetric("distribution_distance", "distance of classes", _distribution_distance, places=3),
            SweepMetric(
                "consumed_j",
                "used for learning (modelled), J",
                _consumed_joules,
                places=1,
                unit="J",
                better="lower",
            ),
            SweepMetric(
                "wasted_j", "wasted (modelled), J", _wasted_joules, places=1, unit="J", better="lower"
            ),
            SweepMetric(
                "failed_j", "failed (modelled), J", _failed_joules, places=1, unit="J", better="lower"
            ),
            SweepMetric("joules_per_point", "J per point of accuracy", _joules_per_point, better="lower"),
            SweepMetric("measured_j", "measured, J", _measured_joules, places=1, better="lower"),
            SweepMetric("modelled_j", "transfers modelled, J", _modelled_joules, places=1, better="lower"),
        )
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


def metric_of(name: str) -> SweepMetric | None:
    """The metric of this name; `rounds_to_<accuracy>` is one for every accuracy, `final <name>` and `best
    <name>` are of a task's own, and there are those of `class_metrics`."""
    if is_of_task(name):
        return SweepMetric(name, name, lambda run: of_task(run).get(name), places=4)
    if (by_class := class_metric_of(name)) is not None:
        accuracy_of: Better | Literal[""] = "" if by_class.drift else "higher"
        return SweepMetric(
            name, by_class.title, lambda run: _of_classes(by_class, run), share=True, better=accuracy_of
        )
    accuracy = accuracy_in(name)
    if accuracy is None:
        return METRICS.get(name)
    return SweepMetric(
        name,
        f"rounds to {100.0 * accuracy:g} %",
        lambda run: rounds_to(accuracy, scored(run)),
        places=1,
        better="lower",
    )


def _of_classes(metric: ClassMetric, run: RunSummary) -> float | None:
    first = run.learning.first_round
    return metric.figure(run.learning.metrics, {at - first: accuracy for at, accuracy in scored(run)})


def own_names(task: str) -> list[str]:
    """The metrics of a sweep that a task has by itself."""
    return [f"{which} {metric.name}" for metric in metrics_of(task) for which in ("final", "best")]


def is_of_task(name: str) -> bool:
    """Whether the name is one of a task's own metrics, `final <name>` or `best <name>`."""
    return _OF_TASK.fullmatch(name) is not None


def usual(own: Sequence[str]) -> tuple[str, ...]:
    """What a sweep shows unless it says otherwise: the task's metrics, if it has any, instead of accuracy."""
    final = [name for name in own if name.startswith("final ")]
    return (*final, *USUAL[1:]) if final else USUAL


def of_task(run: RunSummary) -> dict[str, float]:
    """The last and the best value of every metric that the run's task has of its own."""
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
        if (point.cloud or run.peers is not None) and point.accuracy is not None
    )


def rounds_to(accuracy: float, found: Sequence[tuple[int, float]]) -> float | None:
    """The round of the first scored cloud aggregation with at least this accuracy."""
    return next((float(rounds) for rounds, reached in found if reached >= accuracy), None)


def figures(run: RunSummary) -> dict[str, float | None]:
    """Every metric of the run, its task's own among them; what is infinite or not a number is None."""
    found = {name: metric.figure(run) for name, metric in METRICS.items()} | of_task(run)
    return {
        name: float(value) if value is not None and math.isfinite(value) else None
        for name, value in found.items()
    }
