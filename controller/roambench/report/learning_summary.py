"""What a run learned and what became of its trainings, from the event log alone; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import Fate
from roambench.rounds.fates import TrainingFate, training_fates
from roambench.rounds.records import (
    CloudAggregated,
    FleetEvent,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    StepClosed,
    StepOpened,
)


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One time step. Accuracy and loss are the global model's after it, None before it was first scored."""

    step: int
    present: int
    trainings: int
    aggregated: int
    outstanding: int
    accuracy: float | None
    loss: float | None
    cloud: bool  # a cloud aggregation replaced the global model in this step


@dataclass(frozen=True, slots=True)
class LearningSummary:
    """`threshold_step` is the first step with a cloud aggregation whose model reached `threshold`."""

    points: tuple[StepPoint, ...]
    threshold: float | None
    threshold_step: int | None

    @property
    def final_accuracy(self) -> float | None:
        return next((p.accuracy for p in reversed(self.points) if p.accuracy is not None), None)

    @property
    def final_loss(self) -> float | None:
        return next((p.loss for p in reversed(self.points) if p.loss is not None), None)

    @property
    def best_accuracy(self) -> float | None:
        return max((p.accuracy for p in self.points if p.accuracy is not None), default=None)

    @property
    def cloud_aggregations(self) -> int:
        return sum(point.cloud for point in self.points)

    @property
    def aggregated_per_step(self) -> float | None:
        """MOHAWK Table 5: mean over the steps at which models can arrive, t >= 1."""
        later = [point.aggregated for point in self.points if point.step >= 1]
        return sum(later) / len(later) if later else None


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """Trainings by fate. `reasons`: why they were wasted, most frequent first.

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
    by_order: Mapping[str, TrainingFate]

    @property
    def wasted_share(self) -> float | None:
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


def learning_summary(records: Sequence[RoundRecord], threshold: float | None) -> LearningSummary:
    present = {record.step: len(record.devices) for record in records if isinstance(record, StepOpened)}
    cloud = {record.step for record in records if isinstance(record, CloudAggregated)}
    trained = Counter(r.step for r in records if isinstance(r, OrderGiven) and r.kind == "train")
    points = tuple(
        StepPoint(
            record.step,
            present.get(record.step, 0),
            trained[record.step],
            record.aggregated,
            len(record.outstanding),
            record.accuracy,
            record.loss,
            record.step in cloud,
        )
        for record in records
        if isinstance(record, StepClosed)
    )
    reached = (
        point.step
        for point in points
        if threshold is not None
        and point.cloud
        and point.accuracy is not None
        and point.accuracy >= threshold
    )
    return LearningSummary(points, threshold, next(reached, None))


def training_summary(records: Sequence[RoundRecord]) -> TrainingSummary:
    fates = training_fates(records)
    wasted = [fate for fate in fates.values() if fate.fate is Fate.WASTED]
    aggregated = [fate for fate in fates.values() if fate.fate is Fate.AGGREGATED]
    return TrainingSummary(
        ordered=len(fates),
        aggregated=len(aggregated),
        wasted=len(wasted),
        pending=len(fates) - len(wasted) - len(aggregated),
        reasons=dict(Counter(fate.reason or "no reason given" for fate in wasted).most_common()),
        wasted_reappeared=sum(fate.reappeared for fate in wasted),
        reached_cloud=sum(fate.reached_cloud for fate in aggregated),
        by_order=fates,
    )


def order_summary(records: Sequence[RoundRecord], names: Sequence[str]) -> OrderSummary:
    given = {
        record.order_id: record
        for record in records
        if isinstance(record, OrderGiven) and record.kind in ("train", "upload")
    }
    answers: Counter[tuple[str, str]] = Counter()
    troubles = []
    answered: set[str] = set()
    late_s: list[float] = []
    train_s: list[float] = []
    for record in records:
        if not isinstance(record, OrderAnswered) or record.order_id not in given:
            continue
        kind = given[record.order_id].kind
        answered.add(record.order_id)
        answers[kind, record.status] += 1
        if kind == "train" and record.status == AnswerStatus.DONE:
            late_s.append(record.late_s)
            train_s.append(record.train_s)
        if record.status != AnswerStatus.DONE:
            name = device_name(names, record.device)
            troubles.append(Trouble(record.step, name, kind, record.status, record.reason))
    return OrderSummary(
        answers=dict(sorted(answers.items())),
        troubles=tuple(troubles),
        unanswered=len(given.keys() - answered),
        lateness_p99_s=float(np.quantile(late_s, 0.99)) if late_s else None,
        late_share=math.fsum(late_s) / math.fsum(train_s) if any(train_s) else None,
    )


#: Fleet events that are the ordinary life of a run.
_ORDINARY = frozenset(
    {
        "hello",
        "goodbye",
        "clock offset",
        "trainer ready",
        "download started",
        "train started",
        "train finished",
        "upload started",
    }
)


def incidents(records: Sequence[RoundRecord], names: Sequence[str]) -> tuple[Incident, ...]:
    """What the fleet saw besides the ordinary."""
    return tuple(
        Incident(record.step, record.name or device_name(names, record.device), record.kind, record.detail)
        for record in records
        if isinstance(record, FleetEvent) and record.kind not in _ORDINARY
    )


def distance_summary(records: Sequence[RoundRecord]) -> DistanceSummary | None:
    """None when nobody was ever present."""
    distances = np.array(
        [distance for record in records if isinstance(record, StepOpened) for distance in record.distances_m]
    )
    if not distances.size:
        return None
    return DistanceSummary(float(distances.mean()), float(distances.std()), int(distances.size))


def device_name(names: Sequence[str], device: int) -> str:
    return names[device] if 0 <= device < len(names) else f"device {device}"
