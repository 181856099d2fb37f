"""What became of every training as columns, the same facts as `rounds.fates` finds them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roambench.contract.phases import Fate
from roambench.rounds.fates import TrainingFate, reached_cloud
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    FateDecided,
    OrderGiven,
    StepOpened,
)
from roambench.runs.event_log import Codes, EventLog, places

FATES: Final = tuple(Fate)
PENDING: Final = FATES.index(Fate.PENDING)


@dataclass(frozen=True, eq=False)
class TrainingColumns(Mapping[str, TrainingFate]):
    """Every training that was ordered, in the order given; by its order as in `training_fates`.

    All arrays have the shape (trainings,). `fate` is a place in FATES. `decided` is the place of the
    FateDecided that counts, -1 while there is none, `reasons` and `decided_steps` are those records'.
    """

    orders: pa.StringArray
    device: Codes
    step: Codes
    fate: Codes
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
        decided = places(orders, log.texts(FateDecided, "train_order_id"))
        fates = log.codes(FateDecided, "fate", [fate.value for fate in FATES])
        reached = reached_cloud(log.only(EdgeAggregated, CloudAggregated))
        return cls(
            orders,
            device,
            step,
            np.where(decided >= 0, np.append(fates, PENDING)[decided], PENDING),
            decided,
            _last_seen(log, device) > step,
            places(orders, pa.array(sorted(reached), pa.string())) >= 0,
            log.texts(FateDecided, "reason"),
            log.array(FateDecided, "step"),
        )

    def __len__(self) -> int:
        return len(self.orders)

    def __iter__(self) -> Iterator[str]:
        return iter(self.orders.to_pylist())

    def __getitem__(self, order: str) -> TrainingFate:
        (at,) = places(pa.array([order], pa.string()), self.orders).tolist()
        if at < 0:
            raise KeyError(order)
        return self._fate(at)

    def of_devices(self, devices: Iterable[int]) -> Iterator[TrainingFate]:
        """The trainings of these devices, in the order given."""
        return map(self._fate, np.flatnonzero(np.isin(self.device, list(devices))).tolist())

    def reason(self, at: int) -> str:
        """Why the training at this place had its fate, "" when nothing was decided or said."""
        return str(self.reasons[int(self.decided[at])].as_py()) if self.decided[at] >= 0 else ""

    def _fate(self, at: int) -> TrainingFate:
        decided = int(self.decided[at])
        return TrainingFate(
            int(self.device[at]),
            int(self.step[at]),
            FATES[self.fate[at]],
            self.reason(at),
            int(self.decided_steps[decided]) if decided >= 0 else -1,
            bool(self.reappeared[at]),
            bool(self.reached_cloud[at]),
        )


def _last_seen(log: EventLog, device: npt.NDArray[Any]) -> Codes:
    """The last step told of in which each of these devices was present, -1 if there is none."""
    present, lengths = log.lists(StepOpened, "devices")
    numbers, places_of = np.unique(np.concatenate([present, device]), return_inverse=True)
    seen = np.full(len(numbers), -1, np.int64)
    seen[places_of[: len(present)]] = np.repeat(log.array(StepOpened, "step"), lengths)
    return np.asarray(seen[places_of[len(present) :]])
