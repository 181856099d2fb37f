"""The scores of a run's models on the test set, by step: accuracy, or what its task has instead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roambench.contract.metric import ACCURACY, Metric
from roambench.rounds.records import MetricsScored, RoundRecord, StepClosed
from roambench.runs.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Scores:
    """`metric`: what the run is judged by, accuracy or the first of its task's own. Values are by step; what
    is not finite is in none of them."""

    metric: Metric
    judged: Mapping[int, float]
    own: tuple[Metric, ...]  # the task's own
    metrics: Mapping[str, Mapping[int, float]]  # of these and of all others, by name


def scores_of(records: Sequence[RoundRecord]) -> Scores:
    """Return the scores among a run's records, also where there are none."""
    log = EventLog.of(records)
    own: dict[Metric, None] = {}
    metrics: dict[str, dict[int, float]] = {}
    for record in log.only(MetricsScored):
        for name, value, better in zip(record.names, record.values, record.better, strict=True):
            if better:
                own[Metric(name, better)] = None
            if math.isfinite(value):
                metrics.setdefault(name, {})[record.step] = value
    accuracies = {
        record.step: record.accuracy for record in log.only(StepClosed) if record.accuracy is not None
    }
    if accuracies or not own:
        return Scores(ACCURACY, accuracies, tuple(own), metrics)
    first = next(iter(own))
    return Scores(first, metrics.get(first.name, {}), tuple(own), metrics)
