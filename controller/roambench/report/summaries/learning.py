"""Learning of a run and the outcomes of its trainings, from the event log alone; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.events import EventKind
from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import Outcome
from roambench.rounds.records import (
    CloudAggregated,
    FleetEvent,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    RunEnded,
    StepClosed,
    StepOpened,
)
from roambench.runs.event_log import Codes, EventLog
from roambench.runs.modelled.summary import threshold_step
from roambench.runs.modelled.training_columns import OUTCOMES, TrainingColumns
from roambench.runs.scores import scores_of


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


@dataclass(frozen=True, slots=True)
class LearningSummary:
    """`threshold_step` is the first step with a cloud aggregation whose model reached `threshold`;
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
        """How often the cloud aggregated."""
        return sum(point.cloud for point in self.points)

    @property
    def aggregated_per_step(self) -> float | None:
        """MOHAWK Table 5: mean over the steps at which models can arrive, t >= 1."""
        later = [point.aggregated for point in self.points if point.step >= 1]
        return sum(later) / len(later) if later else None


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """Trainings by outcome. `reasons`: why they were wasted, most frequent first.

    `wasted_reappeared` counts the wasted ones whose device came back later (MOHAWK section 3.1's narrower
    reading), `reached_cloud` the aggregated ones that took part in a cloud aggregation.
    """

    ordered: int
    aggregated: int
    wasted: int
    pending: int
    reasons: Mapping[str, int]
    wasted_reappeared: int
    reached_cloud: int
    by_order: TrainingColumns

    @property
    def wasted_share(self) -> float | None:
        """Wasted trainings of all that were ordered, 0..1; None without any."""
        return self.wasted / self.ordered if self.ordered else None


@dataclass(frozen=True, slots=True)
class Trouble:
    """An order that was not done, with the reason given."""

    step: int
    device: str
    kind: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class OrderSummary:
    """Answers by (order kind, status), and the orders that were not done. Background orders do not count."""

    answers: Mapping[tuple[str, str], int]
    troubles: tuple[Trouble, ...]
    unanswered: int
    lateness_p99_s: float | None  # of emulated trainings, in device time
    late_share: float | None  # of the time that emulated trainings lasted: the host's share, not the board's
    computed: int = (
        0  # trainings really computed: a virtual device's without a loss is, once its model is sent
    )

    @property
    def fruitless(self) -> str:
        """Why nothing can have been learned: all orders of a kind were answered, and devices did none of them
        for reasons of their own. "" where at least one was done, or none was answered."""
        for kind in ("train", "exchange", "upload"):
            counts = {status: n for (of, status), n in self.answers.items() if of == kind}
            refused = sum(counts.get(status, 0) for status in ("refused", "failed", "garbage"))
            if refused and refused == sum(counts.values()):
                first = next(trouble for trouble in self.troubles if trouble.kind == kind)
                return f"none of {refused} {kind} orders was done, the first {first.status}: {first.reason}"
        return ""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something the fleet saw that is worth a line: a lost session, a refused upload."""

    step: int
    device: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class DistanceSummary:
    """Distance of a device to its AP over (present device, step) pairs, metres (population sd)."""

    mean_m: float
    sd_m: float
    pairs: int


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
    """How many trainings were ordered, aggregated and wasted, and why."""
    trainings = TrainingColumns.of(EventLog.of(records))
    wasted, aggregated = (
        trainings.outcome == OUTCOMES.index(outcome) for outcome in (Outcome.WASTED, Outcome.AGGREGATED)
    )
    reasons = trainings.reasons.take(pa.array(trainings.decided[wasted])).to_pylist()
    return TrainingSummary(
        ordered=len(trainings),
        aggregated=int(np.count_nonzero(aggregated)),
        wasted=int(np.count_nonzero(wasted)),
        pending=int(np.count_nonzero(~wasted & ~aggregated)),
        reasons=dict(Counter(reason or "no reason given" for reason in reasons).most_common()),
        wasted_reappeared=int(np.count_nonzero(trainings.reappeared[wasted])),
        reached_cloud=int(np.count_nonzero(trainings.reached_cloud[aggregated])),
        by_order=trainings,
    )


def order_summary(records: Sequence[RoundRecord], names: Sequence[str]) -> OrderSummary:
    """How orders were answered, in all and by device."""
    log = EventLog.of(records)
    kinds = log.codes(OrderGiven, "kind", _COUNTED)
    order = log.answered
    answer = np.flatnonzero((order >= 0) & (np.append(kinds, -1)[order] >= 0))
    order = order[answer]
    kind = kinds[order]
    statuses = log.texts(OrderAnswered, "status").unique().to_pylist()
    status = log.codes(OrderAnswered, "status", statuses)[answer]
    pairs, counts = np.unique(kind * len(statuses) + status, return_counts=True)
    answers = {
        (_COUNTED[pair // len(statuses)], statuses[pair % len(statuses)]): count
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)
    }
    done = (log.codes(OrderAnswered, "status", [AnswerStatus.DONE.value]) == 0)[answer]
    trained, sent = done & np.isin(kind, (0, 2)), done & (kind == 1)
    late_s = log.array(OrderAnswered, "late_s")[answer[trained]]
    train_s = log.array(OrderAnswered, "train_s")[answer[trained]]
    known = trained & ~log.missing(OrderAnswered, "mean_loss")[answer]
    computed = pa.concat_arrays(
        [
            log.texts(OrderGiven, "order_id").take(pa.array(order[known])),
            log.texts(OrderGiven, "train_order_id").take(pa.array(order[sent])),
        ]
    )
    return OrderSummary(
        answers=dict(sorted(answers.items())),
        troubles=tuple(_troubles(log, answer[~done], kind[~done], names)),
        unanswered=int(np.count_nonzero(kinds >= 0)) - len(np.unique(order)),
        lateness_p99_s=float(np.quantile(late_s, 0.99)) if len(late_s) else None,
        late_share=math.fsum(late_s.tolist()) / math.fsum(train_s.tolist()) if train_s.any() else None,
        computed=len(computed.unique()),
    )


#: The kinds of order that the report counts; the others are background.
_COUNTED: Final = ("train", "upload", "exchange")


def _troubles(log: EventLog, answer: Codes, kind: Codes, names: Sequence[str]) -> Iterator[Trouble]:
    step, device = (log.array(OrderAnswered, name)[answer].tolist() for name in ("step", "device"))
    status, reason = (
        log.texts(OrderAnswered, name).take(pa.array(answer)).to_pylist() for name in ("status", "reason")
    )
    for values in zip(step, device, kind.tolist(), status, reason, strict=True):
        yield Trouble(values[0], device_name(names, values[1]), _COUNTED[values[2]], *values[3:])


#: Fleet events that are the ordinary life of a run.
_ORDINARY = frozenset(
    {
        EventKind.SESSION_OPENED,
        EventKind.SESSION_CLOSED,
        EventKind.CLOCK_OFFSET,
        EventKind.TRAINER_READY,
        EventKind.FETCHING_DATA,
        EventKind.DOWNLOAD_STARTED,
        EventKind.TRAIN_STARTED,
        EventKind.TRAIN_FINISHED,
        EventKind.UPLOAD_STARTED,
        EventKind.PEER_PORT_OPEN,
        EventKind.EXCHANGE_STARTED,
        EventKind.EXCHANGE_FINISHED,
    }
)


def incidents(records: Sequence[RoundRecord], names: Sequence[str]) -> tuple[Incident, ...]:
    """The fleet's events that are out of the ordinary."""
    return tuple(
        Incident(record.step, record.name or device_name(names, record.device), record.kind, record.detail)
        for record in EventLog.of(records).only(FleetEvent)
        if record.kind not in _ORDINARY
    )


def distance_summary(records: Sequence[RoundRecord]) -> DistanceSummary | None:
    """None when nobody was ever present."""
    distances, _ = EventLog.of(records).lists(StepOpened, "distances_m")
    if not distances.size:
        return None
    return DistanceSummary(float(distances.mean()), float(distances.std()), int(distances.size))


def device_name(names: Sequence[str], device: int) -> str:
    """The device's name, or its number where it has none."""
    return names[device] if 0 <= device < len(names) else f"device {device}"
