"""A rehearsed decentralised run meets whom the trace says, moves every model once and trains nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from roambench.contract.orders import ExchangeOrder
from roambench.mobility.peer_movement import trace_movement
from roambench.rounds.exchanges import PeerTransfer, peer_transfers
from roambench.rounds.peer_loop import run_peers
from roambench.rounds.peer_rehearsal import ExchangeTimes, PeerRehearsalFleet
from roambench.rounds.peer_run import PeerSettings, PeerState
from roambench.rounds.ports import Score
from roambench.rounds.records import (
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    OrderAnswered,
    RoundRecord,
)
from roambench.rounds.rehearsal import MemoryJournal
from small_traces import drawn_trace

#: Who is at one place meets; device 2 comes at the second step only.
WHEREABOUTS = ("aa-", "ab-", "-bb")
MODEL_BYTES = 100


class Nobody:
    async def score(self, model: np.ndarray) -> Score:
        return Score(0.0, 0.0)


def rehearse(fleet: PeerRehearsalFleet) -> tuple[PeerState, list[RoundRecord]]:
    journal = MemoryJournal()
    settings = PeerSettings("r", 1, 3, (4, 5, 6), "plain", evaluate_every=1, orders_to_absent=False)
    held = asyncio.run(
        run_peers(
            settings,
            trace_movement(drawn_trace(WHEREABOUTS), 50.0, "at_step"),
            fleet,
            journal,
            np.array([7.0, 8.0], np.float32),
            evaluator=Nobody(),
        )
    )
    return held, journal.records


@pytest.fixture(scope="module")
def records() -> list[RoundRecord]:
    return rehearse(PeerRehearsalFleet((4, 5, 6), MODEL_BYTES))[1]


def test_models_move_between_those_who_meet(records: list[RoundRecord]) -> None:
    assert list(peer_transfers(records)) == [
        PeerTransfer(0, 1, 0, MODEL_BYTES, "done"),
        PeerTransfer(0, 0, 1, MODEL_BYTES, "done"),
        PeerTransfer(1, 2, 1, MODEL_BYTES, "done"),
        PeerTransfer(1, 1, 2, MODEL_BYTES, "done"),
    ]


def test_the_first_model_is_downloaded_once_by_everybody(records: list[RoundRecord]) -> None:
    downloads = {
        (record.step, record.device): record.downloaded_bytes
        for record in records
        if isinstance(record, ModelsExchanged)
    }
    assert downloads == {(0, 0): 100, (0, 1): 100, (1, 0): 0, (1, 1): 0, (1, 2): 100, (2, 2): 0}


def test_every_device_tells_its_own_samples(records: list[RoundRecord]) -> None:
    told = {record.device: record.samples for record in records if isinstance(record, OrderAnswered)}
    assert told == {0: 4, 1: 5, 2: 6}


def test_nobody_is_collected_before_it_has_come(records: list[RoundRecord]) -> None:
    scored = [record.devices for record in records if isinstance(record, ModelsScored)]
    assert scored == [(0, 1), (0, 1, 2), (0, 1, 2)]


def test_everybody_goes_on_holding_the_first_model() -> None:
    held, _ = rehearse(PeerRehearsalFleet((4, 5, 6)))
    assert {device: model.tolist() for device, model in held.models.items()} == {
        0: [7.0, 8.0],
        1: [7.0, 8.0],
        2: [7.0, 8.0],
    }


def test_mixing_does_not_depend_on_what_models_weigh(records: list[RoundRecord]) -> None:
    _, light = rehearse(PeerRehearsalFleet((4, 5, 6)))
    planned = [record for record in records if isinstance(record, MixingPlanned)]
    assert planned == [record for record in light if isinstance(record, MixingPlanned)]
    assert [sum(record.counts) for record in planned] == [4, 5, 1]


def test_times_are_asked_for_once_a_step_and_told_in_the_answers() -> None:
    asked: list[list[int]] = []

    def times(orders: Sequence[ExchangeOrder]) -> Mapping[int, ExchangeTimes]:
        asked.append([order.device for order in orders])
        return {order.device: ExchangeTimes(1.0, 2.0 + order.device, 3.0) for order in orders}

    _, records = rehearse(PeerRehearsalFleet((4, 5, 6), MODEL_BYTES, times))
    assert asked == [[0, 1], [0, 1, 2], [2]]
    last = [record for record in records if isinstance(record, OrderAnswered)][-1]
    assert (last.train_s, last.transfer_s) == (4.0, 3.0)
