"""Modelled joules of exchanges between devices: charged to who sends and to who receives, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roambench.contract.phases import Outcome, Phase
from roambench.energy.device_power import DevicePower
from roambench.energy.link_models import MOHAWK
from roambench.energy.modelled import EnergyModel
from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven, OutcomeDecided
from roambench.runs.modelled_accounts import modelled_rows

MODEL = EnergyModel(MOHAWK, DevicePower(2.0, 1.0, 0.0, 1))


def iteration(device: int, sent_bytes: int, received_bytes: int, downloaded_bytes: int = 0) -> list:
    order = f"r/3/{device}/exchange"
    moved_mbit = 8e-6 * (sent_bytes + received_bytes)
    return [
        OrderGiven(3, device, order, "exchange", -1, link="wifi"),
        OrderAnswered(3, device, order, "done", "", 0, moved_mbit / 20.0, 4.0, 9, 0.5),
        ModelsExchanged(
            3, device, order, (), (), sent_bytes, received_bytes, moved_mbit / 20.0, downloaded_bytes,
            8e-6 * downloaded_bytes / 10.0, "",
        ),
        OutcomeDecided(3, device, order, Outcome.AGGREGATED),
    ]  # fmt: skip


def test_what_is_sent_and_what_is_received_are_rows_of_their_own() -> None:
    # 2.5 MB are 20 Mbit and 1.25 MB are 10 Mbit, at 20 Mbit/s: 1 s and 0.5 s.
    rows = list(modelled_rows(iteration(0, 2_500_000, 1_250_000), ["a"], MODEL, "transfer"))
    train, sent, received = rows
    assert (train.phase, train.duration_s, train.net_j, train.idle_j) == (Phase.TRAIN, 4.0, 4.0, 8.0)
    assert (sent.phase, sent.duration_s, sent.transferred_bytes) == (Phase.EXCHANGE, 1.0, 2_500_000)
    assert (received.duration_s, received.idle_j) == (0.5, 1.0)
    # Wi-Fi of the model, Eq. 1: mW per Mbit/s up and down, and mW while the radio is on.
    up, down, beta = MOHAWK.of("wifi").values
    assert sent.net_j == pytest.approx(1e-3 * (up * 20.0 + beta * 1.0))
    assert received.net_j == pytest.approx(1e-3 * (down * 10.0 + beta * 0.5))
    assert {row.outcome for row in rows} == {Outcome.AGGREGATED}
    assert {row.train_order_id for row in rows} == {"r/3/0/exchange"}


def test_every_model_that_moves_has_its_overhead() -> None:
    given, answered, exchanged, outcome = iteration(0, 3_000_000, 2_000_000)
    records = [given, answered, replace(exchanged, model_bytes=1_000_000), outcome]
    model = EnergyModel(MOHAWK, DevicePower(2.0, 1.0, 0.0, 1), overhead_bytes=250_000)
    _, sent, received = modelled_rows(records, ["a"], model, "transfer")
    # Three models and three times 0.25 MB are 30 Mbit, two and twice are 20: at 20 Mbit/s 1.5 and 1 s.
    assert (sent.duration_s, received.duration_s) == pytest.approx((1.5, 1.0))
    assert (sent.transferred_bytes, received.transferred_bytes) == (3_000_000, 2_000_000)
    untold = list(modelled_rows(iteration(0, 3_000_000, 2_000_000), ["a"], model, "transfer"))
    assert untold[1].duration_s == pytest.approx(8e-6 * 3_250_000 / 20.0)


def test_a_lonely_device_only_trains_and_a_start_model_is_nobodys_waste() -> None:
    alone = list(modelled_rows(iteration(0, 0, 0), ["a"], MODEL))
    assert [row.phase for row in alone] == [Phase.TRAIN]
    start, train = modelled_rows(iteration(0, 0, 0, 1_250_000), ["a"], MODEL)
    assert (start.phase, start.duration_s, start.outcome) == (Phase.DOWNLOAD, 1.0, None)
    assert train.phase is Phase.TRAIN


def test_an_iteration_that_was_not_done_costs_nothing() -> None:
    lost = [
        OrderGiven(3, 1, "r/3/1/exchange", "exchange", -1, link="wifi"),
        OrderAnswered(3, 1, "r/3/1/exchange", "refused", "diverged"),
        OutcomeDecided(3, 1, "r/3/1/exchange", Outcome.WASTED, "refused: diverged"),
    ]
    rows = modelled_rows([*iteration(0, 8, 8), *lost], ["a", "b"], MODEL)
    assert {row.device for row in rows} == {"a"}
