"""Rests of virtual devices around what they do, as rows for the energy model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.phases import Phase
from roambench.energy.ledger import NONE, PHASES, Codes
from roambench.energy.modelled.ledger import ModelledWork
from roambench.runs.event_log import TextColumn

_REST: Final = PHASES.index(Phase.REST)


def with_rests(work: ModelledWork, order: Codes, rest_s: float) -> ModelledWork:
    """The work, with one row more behind each order's rows, where `order` (rows,) changes: half a rest before
    its first phase and a whole one after each, as a board takes them. They serve no training."""
    if not rest_s or not len(order):
        return work
    begins = np.append(True, order[1:] != order[:-1])
    phases = np.cumsum(begins | np.append(True, work.phase[1:] != work.phase[:-1]))
    last = np.flatnonzero(np.append(begins[1:], True))
    rests = 0.5 + np.diff(phases[last], prepend=0)
    rows = np.sort(np.concatenate((np.arange(len(order)), last)))
    resting = np.append(False, rows[1:] == rows[:-1])
    seconds = work.train_s[rows]
    seconds[resting] = rest_s * rests

    def column(values: Any, at_rest: int) -> Any:
        return np.where(resting, at_rest, values[rows])

    def texts(values: Sequence[str]) -> TextColumn:
        array = values.array if isinstance(values, TextColumn) else pa.array(values, pa.string())
        return TextColumn(pc.if_else(pa.array(resting), "", array.take(pa.array(rows))))

    return replace(
        work,
        device=work.device[rows],
        step=np.where(resting, work.at_step[rows], work.step[rows]),
        at_step=work.at_step[rows],
        phase=column(work.phase, _REST),
        outcome=column(work.outcome, NONE),
        training=column(work.training, NONE),
        order_ids=texts(work.order_ids),
        train_order_ids=texts(work.train_order_ids),
        train_s=seconds,
        transferred_bytes=column(work.transferred_bytes, 0),
        mbit_s=column(work.mbit_s, 0),
        link=work.link[rows],
        distance_m=column(work.distance_m, 0),
        sends=None if work.sends is None else column(work.sends, 0).astype(bool),
        transfers=None if work.transfers is None else column(work.transfers, 1),
    )
