"""Rehearses the rounds of a system with access points, with how long each order takes on its device."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from roambench.plan.costs import MachineCosts, sgd_steps
from roambench.plan.fleet import PlannedFleet
from roambench.plan.rehearsed import Batch, Rehearsed
from roambench.rounds.loop import run_rounds
from roambench.rounds.ports import Journal
from roambench.rounds.record_batch import RecordBatch
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
from roambench.runs.folder import RunFolder


def rehearse_rounds(
    fleet: PlannedFleet,
    system: str,
    movement: Movement,
    samples: tuple[int, ...],
    folder: RunFolder,
    costs: MachineCosts,
) -> Rehearsed:
    """Every order of the run, by the same loop, in the folder's event log. `samples` are those of every
    device."""
    experiment = fleet.experiment
    rounds, _ = composed(experiment, system, movement, folder.info.run_id, samples)
    deferred = fleet.kind.is_virtual and may_defer(experiment.simulated, rounds.system)
    journal = _TimedJournal(folder.journal, fleet, costs, "upload" if deferred else "train", samples)
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
    records = folder.read_log()
    _, aps = records.lists(CloudAggregated, "aps")
    return Rehearsed(
        records,
        tuple(journal.batches),
        scorings=1 + int(np.count_nonzero(aps)),
        published=records.count(EdgeAggregated) + records.count(CloudAggregated),
    )


class _TimedJournal:
    """`ports.Journal` that fills in how long each order takes on its device, and passes on. `computing`: the
    orders by whose answers this machine has made a model; a deferred training is computed at its upload."""

    def __init__(
        self,
        journal: Journal,
        fleet: PlannedFleet,
        costs: MachineCosts,
        computing: str,
        samples: Sequence[int],
    ) -> None:
        self.batches: list[Batch] = []
        self._journal, self._fleet, self._costs = journal, fleet, costs
        self._computing, self._samples = computing, samples
        self._given: Sequence[OrderGiven] = ()  # those not answered yet

    def append(self, record: RoundRecord) -> None:
        self._journal.append(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        """The loop writes orders down that are given together, and then their answers in the same order."""
        kind = records.kind if isinstance(records, RecordBatch) else {type(record) for record in records}
        if kind in (OrderGiven, {OrderGiven}):
            self._given = cast("Sequence[OrderGiven]", records)
        elif kind in (OrderAnswered, {OrderAnswered}):
            records = self._answered(cast("Sequence[OrderAnswered]", records))
        self._journal.extend(records)

    def _answered(self, answers: Iterable[OrderAnswered]) -> Sequence[RoundRecord]:
        timed = [self._timed(*pair) for pair in zip(answers, self._given, strict=True)]
        rest_s = self._fleet.rest_s
        device_s = [
            answer.transfer_s
            + answer.train_s
            + answer.coding_s
            + rest_s * (0.5 + bool(answer.transferred_bytes) + bool(answer.samples))
            for answer in timed
            if answer.transferred_bytes or answer.samples
        ]
        computed = [
            sgd_steps(self._fleet.experiment, self._samples[order.device])
            for order in self._given
            if order.kind == self._computing
        ]
        if device_s:
            self.batches.append(Batch.of(computed, device_s))
        self._given = ()
        return timed

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
