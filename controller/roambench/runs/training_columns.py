"""Outcome of every training as columns, the same facts as `rounds.local_updates` finds them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roambench.contract.phases import Outcome
from roambench.rounds.local_updates import LocalUpdate
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderGiven,
    OutcomeDecided,
    StepOpened,
)
from roambench.runs.event_log import Codes, EventLog, places

OUTCOMES: Final = tuple(Outcome)
PENDING: Final = OUTCOMES.index(Outcome.PENDING)


@dataclass(frozen=True, eq=False)
class TrainingColumns(Mapping[str, LocalUpdate]):
    """Every training that was ordered, in the order given; by its order as in `local_updates`.

    All arrays have the shape (trainings,). `outcome` is a place in OUTCOMES. `decided` is the place of the
    OutcomeDecided that counts, -1 while there is none, `reasons` and `decided_steps` are those records'.
    """

    orders: pa.StringArray
    device: Codes
    step: Codes
    outcome: Codes
    decided: Codes
    reappeared: npt.NDArray[np.bool_]
    reached_cloud: npt.NDArray[np.bool_]
    reasons: pa.StringArray
    decided_steps: Codes

    @classmethod
    def of(cls, log: EventLog) -> TrainingColumns:
        """The trainings of an event log, as columns."""
        trains = np.flatnonzero(log.codes(OrderGiven, "kind", ["train", "exchange"]) >= 0)
        orders = log.texts(OrderGiven, "order_id").take(pa.array(trains))
        # An order given twice is one training: where it was first, with what was said last.
        last = places(orders, orders)
        if len(np.unique(last)) < len(last):
            _, first = np.unique(last, return_index=True)
            kept = last[np.sort(first)]
            trains, orders = trains[kept], orders.take(pa.array(kept))
        device = log.array(OrderGiven, "device")[trains]
        step = log.array(OrderGiven, "step")[trains]
        decided = places(orders, log.texts(OutcomeDecided, "train_order_id"))
        outcomes = log.codes(OutcomeDecided, "outcome", [outcome.value for outcome in OUTCOMES])
        return cls(
            orders=orders,
            device=device,
            step=step,
            outcome=np.where(decided >= 0, np.append(outcomes, PENDING)[decided], PENDING),
            decided=decided,
            reappeared=_last_seen(log, device) > step,
            reached_cloud=places(orders, _reached_cloud(log)) >= 0,
            reasons=log.texts(OutcomeDecided, "reason"),
            decided_steps=log.array(OutcomeDecided, "step"),
        )

    def __len__(self) -> int:
        return len(self.orders)

    def __iter__(self) -> Iterator[str]:
        return iter(self.orders.to_pylist())

    def __getitem__(self, order: str) -> LocalUpdate:
        (at,) = places(pa.array([order], pa.string()), self.orders).tolist()
        if at < 0:
            raise KeyError(order)
        return self._local_update(at)

    def of_devices(self, devices: Iterable[int]) -> Iterator[LocalUpdate]:
        """The trainings of these devices, in the order given."""
        return map(self._local_update, np.flatnonzero(np.isin(self.device, list(devices))).tolist())

    def _local_update(self, at: int) -> LocalUpdate:
        decided = int(self.decided[at])
        return LocalUpdate(
            device=int(self.device[at]),
            step=int(self.step[at]),
            outcome=OUTCOMES[self.outcome[at]],
            reason=str(self.reasons[decided].as_py()) if decided >= 0 else "",
            decided_step=int(self.decided_steps[decided]) if decided >= 0 else -1,
            reappeared=bool(self.reappeared[at]),
            reached_cloud=bool(self.reached_cloud[at]),
        )


def _reached_cloud(log: EventLog) -> pa.StringArray:
    """The trainings that `local_updates.reached_cloud` finds. Their names stay columns."""
    named, lengths = log.lists(EdgeAggregated, "train_order_ids")
    reached = np.zeros(len(lengths), np.bool_)
    edges, clouds = log.array(EdgeAggregated, "ap"), log.only(CloudAggregated)
    first = last = 0  # of the edges since the cloud aggregation before
    for kind in log.kinds(EdgeAggregated, CloudAggregated):
        if kind is EdgeAggregated:
            last += 1
        elif aps := next(clouds).aps:
            reached[first:last] = np.isin(edges[first:last], aps)
            first = last
    return named.filter(pa.array(np.repeat(reached, lengths)))


def _last_seen(log: EventLog, device: npt.NDArray[Any]) -> Codes:
    """The last recorded step in which each of these devices was present, -1 if there is none."""
    present, lengths = log.lists(StepOpened, "devices")
    numbers, places_of = np.unique(np.concatenate([present, device]), return_inverse=True)
    seen = np.full(len(numbers), -1, np.int64)
    seen[places_of[: len(present)]] = np.repeat(log.array(StepOpened, "step"), lengths)
    return np.asarray(seen[places_of[len(present) :]])
