"""What a sweep's table can tell of a run: name -> title and the figure, taken from the run's summary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # a sweep need not load what makes a report; its points do
    from roambench.report.summary import RunSummary


@dataclass(frozen=True, slots=True)
class Metric:
    """`share`: the figure is 0..1 and printed in percent. The figure is None where the run has none."""

    name: str
    title: str
    figure: Callable[[RunSummary], float | None]
    share: bool = False
    places: int = 2  # printed behind the point; one digit more of the standard deviation would say nothing


def _rounds_to_threshold(run: RunSummary) -> float | None:
    """Steps played when the threshold was first reached: 1 if the first step's model did."""
    step = run.learning.threshold_step
    return None if step is None else step + 1


def _measured_joules(run: RunSummary) -> float | None:
    return None if run.measured is None else run.measured.gross.cumulative_consumed.joules


def _modelled_joules(run: RunSummary) -> float | None:
    """Eq. 1 over all transfers; no figure where no transfer had a size (a rehearsal)."""
    return math.fsum(run.modelled_from_log_j.values()) or None


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("final_accuracy", "final accuracy", lambda run: run.learning.final_accuracy, share=True),
            Metric("best_accuracy", "best accuracy", lambda run: run.learning.best_accuracy, share=True),
            Metric("final_loss", "final loss", lambda run: run.learning.final_loss, places=3),
            Metric("rounds_to_threshold", "rounds to threshold", _rounds_to_threshold, places=1),
            Metric(
                "aggregated_per_step", "aggregated per step", lambda run: run.learning.aggregated_per_step
            ),
            Metric("cloud_aggregations", "cloud aggregations", lambda run: run.learning.cloud_aggregations),
            Metric("trainings", "trainings", lambda run: run.trainings.ordered, places=1),
            Metric("wasted_share", "wasted", lambda run: run.trainings.wasted_share, share=True),
            Metric(
                "distance_m",
                "device to AP, m",
                lambda run: None if run.distance is None else run.distance.mean_m,
                places=0,
            ),
            Metric("measured_j", "measured, J", _measured_joules, places=1),
            Metric("modelled_j", "transfers modelled, J", _modelled_joules, places=1),
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


def figures(run: RunSummary) -> dict[str, float | None]:
    """Every metric of the run; what is infinite or not a number is None."""
    found = {name: metric.figure(run) for name, metric in METRICS.items()}
    return {
        name: float(value) if value is not None and math.isfinite(value) else None
        for name, value in found.items()
    }
