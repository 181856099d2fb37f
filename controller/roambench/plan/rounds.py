"""Rehearses the rounds of a system with access points, with how long each order takes on its device."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from roambench.plan.costs import MachineCosts, sgd_steps
from roambench.plan.fleet import PlannedFleet
from roambench.plan.rehearsed import Batch, Rehearsed
from roambench.rounds.loop import run_rounds
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
)
from roambench.rounds.rehearsal import RehearsalFleet
from roambench.runner.places.simulated import may_defer
from roambench.runner.system_runs.hierarchical import composed
from roambench.runner.world import Movement


def rehearse_rounds(
    fleet: PlannedFleet, system: str, movement: Movement, samples: tuple[int, ...], costs: MachineCosts
) -> Rehearsed:
    """Every order of the run, by the same loop. `samples` are those of every device."""
    experiment = fleet.experiment
    rounds, _ = composed(experiment, system, movement, f"{experiment.name}-{system}", samples)
    journal = _Told(fleet, costs)
    asyncio.run(
        run_rounds(
            replace(rounds.settings, orders_to_absent=fleet.has_agents),
            rounds.system,
            rounds.association,
            RehearsalFleet(experiment.seed, samples, costs.model_bytes if fleet.kind.trains else 0),
            journal,
            np.zeros(4, dtype=np.float32),
            throughput=rounds.throughput,
        )
    )
    records = journal.records
    deferred = fleet.kind.is_virtual and may_defer(experiment.simulated, rounds.system)
    return Rehearsed(
        records,
        tuple(_batches(fleet, records, deferred=deferred)),
        scorings=1 + sum(isinstance(record, CloudAggregated) and bool(record.aps) for record in records),
        published=sum(isinstance(record, EdgeAggregated | CloudAggregated) for record in records),
    )


class _Told:
    """`ports.Journal` that fills in how long each order takes on its device."""

    def __init__(self, fleet: PlannedFleet, costs: MachineCosts) -> None:
        self.records: list[RoundRecord] = []
        self._given: dict[str, OrderGiven] = {}
        self._fleet = fleet
        self._costs = costs

    def append(self, record: RoundRecord) -> None:
        if isinstance(record, OrderGiven):
            self._given[record.order_id] = record
        elif isinstance(record, OrderAnswered):
            record = self._timed(record, self._given.pop(record.order_id))
        self.records.append(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        for record in records:
            self.append(record)

    def _timed(self, answer: OrderAnswered, order: OrderGiven) -> OrderAnswered:
        costs, uploads = self._costs, order.kind == "upload"
        coded_bytes, coding_s = costs.upload_bytes if uploads else costs.download_bytes, 0.0
        if coded_bytes and answer.transferred_bytes:
            models = answer.transferred_bytes // costs.model_bytes
            answer = replace(answer, transferred_bytes=models * coded_bytes)
            coding_s = self._fleet.code_s(answer.device, models * costs.numbers, costs)
        unpaced = self._fleet.up_mbit_s if uploads else self._fleet.down_mbit_s
        rate = order.paced_mbit_s or unpaced
        transfer_s = 8e-6 * answer.transferred_bytes / rate if rate > 0.0 else 0.0
        train_s = 0.0
        if order.kind == "train":
            steps = sgd_steps(self._fleet.experiment, answer.samples)
            train_s = steps * self._fleet.step_s(answer.device, self._costs)
        return replace(answer, transfer_s=transfer_s, train_s=train_s, coding_s=coding_s)


def _batches(fleet: PlannedFleet, records: Sequence[RoundRecord], *, deferred: bool) -> Iterator[Batch]:
    """Answers that follow each other were given together. A deferred training is computed at its upload."""
    served: dict[str, str] = {}  # by upload
    untrained: dict[str, int] = {}
    computed: list[int] = []
    device_s: list[float] = []
    for record in records:
        if isinstance(record, OrderGiven) and record.kind == "upload":
            served[record.order_id] = record.train_order_id
        if isinstance(record, OrderAnswered):
            if record.transferred_bytes or record.samples:
                rests = 0.5 + bool(record.transferred_bytes) + bool(record.samples)
                device_s.append(record.transfer_s + record.train_s + record.coding_s + fleet.rest_s * rests)
            if record.samples:
                untrained[record.order_id] = sgd_steps(fleet.experiment, record.samples)
            due = served.get(record.order_id, "") if deferred else record.order_id
            if due in untrained:
                computed.append(untrained.pop(due))
        elif device_s:
            yield Batch(tuple(computed), tuple(device_s))
            computed, device_s = [], []
    if device_s:
        yield Batch(tuple(computed), tuple(device_s))
