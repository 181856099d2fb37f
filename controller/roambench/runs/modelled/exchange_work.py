"""Work of virtual devices of a decentralised run, as rows for the energy model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import Outcome, Phase
from roambench.energy.ledger import NONE, OUTCOMES, PHASES, Codes
from roambench.energy.modelled.ledger import ModelledWork
from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven
from roambench.runs.event_log import EventLog, TextColumn, places
from roambench.runs.modelled.rests import with_rests

_DOWN, _TRAIN, _EXCHANGE = (PHASES.index(phase) for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.EXCHANGE))
#: A done iteration may be four rows: the start model, the half step, what was sent, what was received.
_PHASES: Final = np.array([_DOWN, _TRAIN, _EXCHANGE, _EXCHANGE])
_SENT: Final = 2


def exchange_work(
    log: EventLog, names: Sequence[str], links: Sequence[str], rest_s: float = 0.0
) -> ModelledWork:
    """A row for everything that was done; bytes are charged to who sends and to who receives them, and the
    overhead of every single model that moved.

    One radio sends, then receives, both at the rate that the exchange was simulated with. A half step that
    made no model costs what it took, and nothing was sent.
    """
    failed = np.flatnonzero(
        (log.codes(OrderAnswered, "status", [AnswerStatus.REFUSED.value]) == 0)
        & (log.array(OrderAnswered, "train_s") > 0.0)
    )
    in_vain = {
        "device": log.array(OrderAnswered, "device")[failed],
        "step": log.array(OrderAnswered, "step")[failed],
        "downloaded_bytes": log.array(OrderAnswered, "transferred_bytes")[failed],
        "download_s": log.array(OrderAnswered, "transfer_s")[failed],
    }
    done = log.texts(ModelsExchanged, "order_id")
    orders = pa.concat_arrays([done, log.texts(OrderAnswered, "order_id").take(pa.array(failed))])
    given = places(orders, log.texts(OrderGiven, "order_id"))
    answered = places(orders, log.texts(OrderAnswered, "order_id"))

    def exchanged(name: str) -> npt.NDArray[Any]:
        found = log.array(ModelsExchanged, name)
        return np.concatenate([found, in_vain.get(name, np.zeros(len(failed), found.dtype))])

    nothing = np.zeros(len(orders), np.int64)
    size = np.column_stack(
        (exchanged("downloaded_bytes"), nothing, exchanged("sent_bytes"), exchanged("received_bytes"))
    )
    exchanged_mbit = 8e-6 * (size[:, 2] + size[:, 3])
    rates = np.column_stack(
        (
            _rate(8e-6 * size[:, 0], exchanged("download_s")),
            nothing,
            *[_rate(exchanged_mbit, exchanged("exchange_s"))] * 2,
        )
    )
    exists = (size > 0) & (rates > 0.0)
    exists[:, 1] = True
    row, part = np.nonzero(exists)
    moved = part != 1
    training = np.arange(len(orders))[row]
    outcome = np.where(row < len(done), OUTCOMES.index(Outcome.AGGREGATED), OUTCOMES.index(Outcome.FAILED))
    texts = TextColumn(orders.take(pa.array(row)))
    step: Codes = exchanged("step")[row]
    work = ModelledWork(
        names=names,
        links=links,
        device=exchanged("device")[row],
        step=step,
        at_step=step,
        phase=_PHASES[part],
        outcome=np.where(part == 0, NONE, outcome),
        training=np.where(part == 0, NONE, training),
        order_ids=texts,
        train_order_ids=texts,
        train_s=np.where(moved, 0.0, log.array(OrderAnswered, "train_s")[answered][row]),
        transferred_bytes=size[row, part],
        mbit_s=np.where(moved, rates[row, part], 0.0),
        link=log.codes(OrderGiven, "link", list(links))[given][row],
        distance_m=np.zeros(len(row)),
        sends=part == _SENT,
        transfers=_transfers(size, exchanged("model_bytes"))[row, part],
    )
    return with_rests(work, row, rest_s)


def _transfers(
    size_bytes: npt.NDArray[np.int64], model_bytes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return how many models each of the rows moved, whole ones; one where a log does not tell their size."""
    models = np.ones_like(size_bytes)
    exchanged = size_bytes[:, 2:]
    np.floor_divide(exchanged, model_bytes[:, None], out=models[:, 2:], where=model_bytes[:, None] > 0)
    return np.maximum(models, 1)


def _rate(mbit: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.divide(mbit, seconds, out=np.zeros(len(mbit)), where=seconds > 0.0)
