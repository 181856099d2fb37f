"""Answers to orders and other events of the fleet, from the event log alone; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from roambench.contract.events import EventKind
from roambench.contract.orders import AnswerStatus
from roambench.rounds.records import FleetEvent, OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.event_log import Codes, EventLog, places


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
    # Trainings really computed: a virtual device's without a loss is, once its model is sent.
    computed: int = 0

    @property
    def fruitless(self) -> str:
        """The reason why nothing can have been learned: of all orders of a kind that have an answer, lost and
        late ones among them, none was done. "" where at least one was, or none has an answer."""
        for kind in ("train", "exchange", "upload"):
            counts = {status: n for (of, status), n in self.answers.items() if of == kind}
            if counts and AnswerStatus.DONE.value not in counts:
                first = next(trouble for trouble in self.troubles if trouble.kind == kind)
                return (
                    f"none of {sum(counts.values())} {kind} orders was done, the first {first.status}: "
                    f"{first.reason}"
                )
        return ""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something the fleet saw that is worth a line: a lost session, a refused upload."""

    step: int
    device: str
    kind: str
    detail: str


def order_summary(records: Sequence[RoundRecord], names: Sequence[str]) -> OrderSummary:
    """The answers to orders, in all and by device."""
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
    named = log.texts(OrderGiven, "order_id").take(pa.array(np.unique(order[known])))
    uploaded = log.texts(OrderGiven, "train_order_id").take(pa.array(order[sent]))
    deferred = uploaded.filter(pa.array(places(uploaded, named) < 0))
    return OrderSummary(
        answers=dict(sorted(answers.items())),
        troubles=tuple(_troubles(log, answer[~done], kind[~done], names)),
        unanswered=int(np.count_nonzero(kinds >= 0)) - len(np.unique(order)),
        lateness_p99_s=float(np.quantile(late_s, 0.99)) if len(late_s) else None,
        late_share=math.fsum(late_s.tolist()) / math.fsum(train_s.tolist()) if train_s.any() else None,
        computed=len(named) + len(deferred.unique()),
    )


#: The kinds of order that the report counts; the others are background.
_COUNTED: Final = ("train", "upload", "exchange", "evaluate")


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
        EventKind.EVALUATE_STARTED,
        EventKind.EVALUATE_FINISHED,
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


def device_name(names: Sequence[str], device: int) -> str:
    """The device's name, or its number where it has none."""
    return names[device] if 0 <= device < len(names) else f"device {device}"
