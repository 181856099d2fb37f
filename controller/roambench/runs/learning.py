"""Learning of a run and the outcomes of its trainings, from the event log alone; pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import Outcome
from roambench.rounds.records import (
    CloudAggregated,
    ModelsScored,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    RunEnded,
    StepClosed,
    StepOpened,
)
from roambench.runs.event_log import EventLog
from roambench.runs.scores import scores_of
from roambench.runs.training_columns import OUTCOMES, TrainingColumns


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One time step. Accuracy and loss are the global model's after it, None before it was first scored.

    `score`: of what the run is judged by: accuracy, or where there is none its task's first metric."""

    step: int
    present: int
    trainings: int
    aggregated: int
    outstanding: int
    accuracy: float | None
    loss: float | None
    score: float | None
    cloud: bool  # a cloud aggregation replaced the global model in this step
    new: (
        bool  # its score is the first since the last such: of an app's, in the step in which devices evaluate
    )


@dataclass(frozen=True, slots=True)
class LearningSummary:
    """`threshold_step` is the first step in which a model of the cloud's was judged to reach `threshold`;
    of a decentralised run, the first scored one whose devices reached it on average.

    `first_round` is the papers' number of step 0: 0 where models go up a step later (MOHAWK: t = 0 only
    trains), else 1 (MIDDLE, and iterations).
    """

    points: tuple[StepPoint, ...]
    threshold: float | None
    threshold_step: int | None
    ended: str = ""  # why the run ended before the last step of its trace
    metric: Metric = ACCURACY  # what it is judged by
    own: tuple[Metric, ...] = ()  # the task's own
    metrics: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # of all, by name and by step
    first_round: int = 1

    @property
    def final_metrics(self) -> dict[str, float]:
        """The last value of every metric, by name."""
        return {name: values[max(values)] for name, values in self.metrics.items()}

    @property
    def best_metrics(self) -> dict[str, float]:
        """The best value of every metric of the task's own, by name."""
        found = {own.name: own.best(self.metrics.get(own.name, {}).values()) for own in self.own}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def final_score(self) -> float | None:
        """The last score of what the run is judged by."""
        return next((p.score for p in reversed(self.points) if p.score is not None), None)

    @property
    def best_score(self) -> float | None:
        """The best score of what the run is judged by."""
        return self.metric.best(p.score for p in self.points if p.score is not None)

    @property
    def final_accuracy(self) -> float | None:
        """The last accuracy (0..1) that was scored."""
        return next((p.accuracy for p in reversed(self.points) if p.accuracy is not None), None)

    @property
    def final_loss(self) -> float | None:
        """The last loss (nats) that was scored."""
        return next((p.loss for p in reversed(self.points) if p.loss is not None), None)

    @property
    def best_accuracy(self) -> float | None:
        """The highest accuracy (0..1) that was scored."""
        return max((p.accuracy for p in self.points if p.accuracy is not None), default=None)

    @property
    def cloud_aggregations(self) -> int:
        """The number of cloud aggregations."""
        return sum(point.cloud for point in self.points)

    @property
    def aggregated_per_step(self) -> float | None:
        """MOHAWK Table 5: mean over the steps at which models can arrive, t >= 1."""
        later = [point.aggregated for point in self.points if point.step >= 1]
        return sum(later) / len(later) if later else None


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """Trainings by outcome. `reasons`: why they were wasted, `failed_reasons`: why they failed, most frequent
    first. `never`: the devices none of whose trainings made a model, some of which failed, and why the first
    of these did.

    `wasted_reappeared` counts the wasted ones whose device came back later (MOHAWK section 3.1's narrower
    reading), `reached_cloud` the aggregated ones that took part in a cloud aggregation.
    """

    ordered: int
    aggregated: int
    wasted: int
    failed: int
    pending: int
    reasons: Mapping[str, int]
    failed_reasons: Mapping[str, int]
    never: Mapping[int, str]
    wasted_reappeared: int
    reached_cloud: int
    by_order: TrainingColumns

    @property
    def wasted_share(self) -> float | None:
        """Wasted trainings of all that were ordered, 0..1; None without any."""
        return self.wasted / self.ordered if self.ordered else None

    @property
    def failed_share(self) -> float | None:
        """Failed trainings of all that were ordered, 0..1; None without any."""
        return self.failed / self.ordered if self.ordered else None


@dataclass(frozen=True, slots=True)
class DistanceSummary:
    """Distance of a device to its AP over (present device, step) pairs, metres (population sd)."""

    mean_m: float
    sd_m: float
    pairs: int


def threshold_step(records: Sequence[RoundRecord], threshold: float | None) -> int | None:
    """The first step in which a model that the cloud made is judged at least that good."""
    if threshold is None:
        return None
    log = EventLog.of(records)
    cloud = {*log.array(CloudAggregated, "step").tolist(), *log.array(ModelsScored, "step").tolist()}
    found = scores_of(log)
    new = _of_new_models(cloud, found.judged)
    reaches = (step for step, value in found.judged.items() if found.metric.reaches(value, threshold))
    return next((step for step in reaches if step in new), None)


def _of_new_models(made: Collection[int], scored: Iterable[int]) -> set[int]:
    """The scored steps in which, or since the scored one before, a model was made."""
    found, before, ordered = set[int](), 0, sorted(made)
    for step in sorted(scored):
        until = bisect_right(ordered, step)
        if until > before:
            found.add(step)
        before = until
    return found


def learning_summary(
    records: Sequence[RoundRecord], threshold_of: Callable[[Metric], float | None]
) -> LearningSummary:
    """Scores, loss and aggregations step by step. `threshold_of` what the run is judged by."""
    log = EventLog.of(records)
    scores = scores_of(log)
    threshold = threshold_of(scores.metric)
    present = {record.step: len(record.devices) for record in log.only(StepOpened)}
    cloud = set(log.array(CloudAggregated, "step").tolist())
    trains = log.codes(OrderGiven, "kind", ["train", "exchange"]) >= 0
    trained = Counter(log.array(OrderGiven, "step")[trains].tolist())
    new = _of_new_models(cloud, scores.judged)
    points = tuple(
        StepPoint(
            step=record.step,
            present=present.get(record.step, 0),
            trainings=trained[record.step],
            aggregated=record.aggregated,
            outstanding=len(record.outstanding),
            accuracy=record.accuracy,
            loss=record.loss,
            score=scores.judged.get(record.step),
            cloud=record.step in cloud,
            new=record.step in new,
        )
        for record in log.only(StepClosed)
    )
    ended = next((record.reason for record in log.only(RunEnded)), "")
    return LearningSummary(
        points=points,
        threshold=threshold,
        threshold_step=threshold_step(log, threshold),
        ended=ended,
        metric=scores.metric,
        own=scores.own,
        metrics=scores.metrics,
        first_round=_first_round(log),
    )


def _first_round(log: EventLog) -> int:
    """By the first model that went up, if one did: in the step of its training, or later."""
    kinds = log.codes(OrderGiven, "kind", ["train", "upload"])
    uploads = np.flatnonzero(kinds == 1)
    if not len(uploads):
        return 0 if (kinds == 0).any() else 1
    training = log.texts(OrderGiven, "train_order_id")[int(uploads[0])]
    order = pc.index(log.texts(OrderGiven, "order_id"), training).as_py()
    steps = log.array(OrderGiven, "step")
    return 1 if order >= 0 and steps[order] == steps[uploads[0]] else 0


def training_summary(records: Sequence[RoundRecord]) -> TrainingSummary:
    """Return how many trainings were ordered, aggregated, wasted and failed, and why."""
    log = EventLog.of(records)
    trainings = TrainingColumns.of(log)
    wasted, failed, aggregated = (
        trainings.outcome == OUTCOMES.index(outcome)
        for outcome in (Outcome.WASTED, Outcome.FAILED, Outcome.AGGREGATED)
    )

    def reasons(chosen: npt.NDArray[np.bool_]) -> list[str]:
        found = trainings.reasons.take(pa.array(trainings.decided[chosen])).to_pylist()
        return [reason or "no reason given" for reason in found]

    first = dict(zip(trainings.device[failed].tolist()[::-1], reasons(failed)[::-1], strict=True))
    made = {*trainings.device[aggregated].tolist(), *_trained(log)}
    return TrainingSummary(
        ordered=len(trainings),
        aggregated=int(np.count_nonzero(aggregated)),
        wasted=int(np.count_nonzero(wasted)),
        failed=int(np.count_nonzero(failed)),
        pending=int(np.count_nonzero(~wasted & ~failed & ~aggregated)),
        reasons=dict(Counter(reasons(wasted)).most_common()),
        failed_reasons=dict(Counter(reasons(failed)).most_common()),
        never={device: first[device] for device in sorted(first.keys() - made)},
        wasted_reappeared=int(np.count_nonzero(trainings.reappeared[wasted])),
        reached_cloud=int(np.count_nonzero(trainings.reached_cloud[aggregated])),
        by_order=trainings,
    )


def _trained(log: EventLog) -> Iterable[int]:
    """The devices with a training that is known to have made a model: its loss was reported."""
    done = log.codes(OrderAnswered, "status", [AnswerStatus.DONE.value]) == 0
    trains = log.codes(OrderGiven, "kind", ["train", "exchange"]) >= 0
    trained = done & np.append(trains, False)[log.answered] & ~log.missing(OrderAnswered, "mean_loss")
    return map(int, log.array(OrderAnswered, "device")[trained])


def distance_summary(records: Sequence[RoundRecord]) -> DistanceSummary | None:
    """None when no device was ever present."""
    distances, _ = EventLog.of(records).lists(StepOpened, "distances_m")
    if not distances.size:
        return None
    return DistanceSummary(float(distances.mean()), float(distances.std()), int(distances.size))
