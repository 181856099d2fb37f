"""Outcome of every training, from the journal alone; pure.

The outcome is the default reading of "wasted" (MOHAWK section 4.4: no edge aggregation used the model). Two
narrower readings stand beside it: section 3.1 also asks that the device came back later (`reappeared`), and
Table 10's caption asks whether the cloud considered the model (`reached_cloud`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roambench.contract.phases import Outcome
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepOpened,
)


@dataclass(frozen=True, slots=True)
class LocalUpdate:
    """One train order, or the half step of an exchange. `decided_step` is -1 and `outcome` PENDING while
    nothing was decided. `reappeared`: its device was present at any step after it, aggregated or not."""

    device: int
    step: int
    outcome: Outcome
    reason: str
    decided_step: int
    reappeared: bool
    reached_cloud: bool


def local_updates(records: Iterable[RoundRecord]) -> dict[str, LocalUpdate]:
    """Every training that was ordered, by train_order_id, in the order given."""
    log = tuple(records)
    last_seen = _last_seen(log)
    reached = reached_cloud(log)
    decided = {record.train_order_id: record for record in log if isinstance(record, OutcomeDecided)}
    updates = {}
    for record in log:
        if isinstance(record, OrderGiven) and record.kind in ("train", "exchange"):
            end = decided.get(record.order_id)
            updates[record.order_id] = LocalUpdate(
                device=record.device,
                step=record.step,
                outcome=Outcome.PENDING if end is None else end.outcome,
                reason="" if end is None else end.reason,
                decided_step=-1 if end is None else end.step,
                reappeared=last_seen[record.device] > record.step,
                reached_cloud=record.order_id in reached,
            )
    return updates


def reached_cloud(records: Iterable[RoundRecord]) -> set[str]:
    """The trainings that an AP aggregated which then took part in the next cloud aggregation.

    A cloud aggregation without any AP leaves the AP models as they are, so the one after it counts. What
    an AP aggregated after the run's last cloud aggregation never reaches the cloud.
    """
    waiting: dict[int, list[str]] = {}
    reached: set[str] = set()
    for record in records:
        if isinstance(record, EdgeAggregated):
            waiting.setdefault(record.ap, []).extend(record.train_order_ids)
        elif isinstance(record, CloudAggregated) and record.aps:
            for ap in record.aps:
                reached.update(waiting.get(ap, ()))
            waiting.clear()  # the others' models were replaced by the global one
    return reached


def _last_seen(records: Iterable[RoundRecord]) -> Mapping[int, int]:
    seen: dict[int, int] = {}
    for record in records:
        if isinstance(record, StepOpened):
            seen.update(dict.fromkeys(record.devices, record.step))
    return seen
