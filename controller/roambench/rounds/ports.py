"""Ports of the round loop to the world, as protocols; fleets, run folders and evaluators provide it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from roambench.contract.metric import ACCURACY, Better, Metric
from roambench.contract.orders import Answer, Order, Vector
from roambench.rounds.records import BatteriesSeen, MetricsScored, RoundRecord
from roambench.systems.system import SpentEnergy

#: Sees an answer as it arrives, and returns what is to be kept of it.
OnAnswer = Callable[[Answer], Answer]


def keep_all(answer: Answer) -> Answer:
    """The `OnAnswer` of who wants nothing before all is answered."""
    return answer


class Fleet(Protocol):
    """The devices that carry orders out: virtual ones, local agents or boards."""

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Carry out `orders` concurrently; one answer per order, in the order given, never an exception.

        Every answer goes through `on_answer` once, as soon as it is there, in any order; what that returns
        takes its place, so that a model that was taken out of an answer does not wait for the others.

        A device that dies, refuses, times out or answers garbage is an Answer that says so. Returns when
        every order is answered or past the fleet's deadline.
        """
        ...

    def publish(self, model: Vector | bytes) -> str:
        """Make a model version, or a program's message, downloadable; returns its digest (the same vector or
        bytes give the same digest)."""
        ...

    def retain(self, digests: Collection[str]) -> None:
        """Forget every published version that is not in `digests`."""
        ...


class Journal(Protocol):
    """The append-only memory of a run."""

    def append(self, record: RoundRecord) -> None:
        """Add a record to the log."""
        ...

    def extend(self, records: Sequence[RoundRecord]) -> None:
        """Append all of them, in order, as one."""
        ...


class EnergySoFar(Protocol):
    """The joules of a run's devices while it goes on."""

    async def of(self, devices: Sequence[int]) -> Mapping[int, SpentEnergy]:
        """Energy of each of these devices since the run began, as far as it is known now."""
        ...


class Batteries(Protocol):
    """The batteries of devices, and who is off for want of charge."""

    async def seen(self, step: int, present: Collection[int]) -> BatteriesSeen:
        """The batteries at the beginning of a step, asked once for each step, in order; `present`: whom the
        trace has at access points."""
        ...


@dataclass(frozen=True, slots=True)
class Score:
    """The quality of a global model on the test set. `metrics`: a task's own, NaN for none; `better`: of
    each, whether "higher" or "lower" is."""

    accuracy: float | None  # 0..1; None where labels are no classes
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    better: Mapping[str, Better] = field(default_factory=dict)

    @property
    def judged(self) -> tuple[Metric, float]:
        """The figure that the task is judged by, accuracy or its first metric, and the model's value of
        it."""
        if self.accuracy is not None:
            return ACCURACY, self.accuracy
        name = next(iter(self.better))
        return Metric(name, self.better[name]), self.metrics[name]

    def reached(self, wanted: float | None) -> str:
        """That what the task is judged by is as good as `wanted`, or ""."""
        if wanted is None:
            return ""
        metric, value = self.judged
        if not metric.reaches(value, wanted):
            return ""
        return f"{metric.name} {value:.4f} reached the threshold of {wanted:g}"


def metrics_record(step: int, score: Score | None, more: Mapping[str, float]) -> list[RoundRecord]:
    """The record of a score's metrics and of `more` besides, if there are any."""
    metrics = {**(score.metrics if score is not None else {}), **more}
    known: Mapping[str, Literal["higher", "lower", ""]] = score.better if score is not None else {}
    better = tuple(known.get(name, "") for name in metrics)
    return [MetricsScored(step, tuple(metrics), tuple(metrics.values()), better)] if metrics else []


class Evaluator(Protocol):
    """Scores a flat model; may take seconds, so the loop awaits it."""

    async def score(self, model: Vector) -> Score:
        """Accuracy and loss of a model."""
        ...
