"""Modelled joules of exchanges between devices: charged to who sends and to who receives, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roambench.contract.phases import Outcome, Phase
from roambench.energy.ledger import NONE, OUTCOMES, PHASES
from roambench.energy.links.models import MOHAWK
from roambench.energy.modelled.device_power import DevicePower
from roambench.energy.modelled.ledger import EnergyModel
from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven, OutcomeDecided
from roambench.runs.modelled.accounts import ledger_of_log

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
    ledger = ledger_of_log(iteration(0, 2_500_000, 1_250_000), ["a"], MODEL, "transfer")
    assert [PHASES[phase] for phase in ledger.phase] == [Phase.TRAIN, Phase.EXCHANGE, Phase.EXCHANGE]
    assert ledger.duration_s.tolist() == [4.0, 1.0, 0.5]
    assert ledger.idle_j.tolist() == [8.0, 2.0, 1.0]
    assert ledger.work.transferred_bytes.tolist() == [0, 2_500_000, 1_250_000]
    # Wi-Fi of the model, Eq. 1: mW per Mbit/s up and down, and mW while the radio is on.
    up, down, beta = MOHAWK.of("wifi").values
    sent_j, received_j = 1e-3 * (up * 20.0 + beta * 1.0), 1e-3 * (down * 10.0 + beta * 0.5)
    assert ledger.net_j.tolist() == pytest.approx([4.0, sent_j, received_j])
    assert {OUTCOMES[outcome] for outcome in ledger.outcome} == {Outcome.AGGREGATED}
    assert set(ledger.work.train_order_ids) == {"r/3/0/exchange"}


def test_every_model_that_moves_has_its_overhead() -> None:
    given, answered, exchanged, outcome = iteration(0, 3_000_000, 2_000_000)
    records = [given, answered, replace(exchanged, model_bytes=1_000_000), outcome]
    model = EnergyModel(MOHAWK, DevicePower(2.0, 1.0, 0.0, 1), overhead_bytes=250_000)
    ledger = ledger_of_log(records, ["a"], model, "transfer")
    # Three models and three times 0.25 MB are 30 Mbit, two and twice are 20: at 20 Mbit/s 1.5 and 1 s.
    assert ledger.duration_s[1:].tolist() == pytest.approx([1.5, 1.0])
    assert ledger.work.transferred_bytes[1:].tolist() == [3_000_000, 2_000_000]
    untold = ledger_of_log(iteration(0, 3_000_000, 2_000_000), ["a"], model, "transfer")
    assert untold.duration_s[1] == pytest.approx(8e-6 * 3_250_000 / 20.0)


def test_a_lonely_device_only_trains_and_a_start_model_is_nobodys_waste() -> None:
    assert ledger_of_log(iteration(0, 0, 0), ["a"], MODEL).phases() == [Phase.TRAIN]
    started = ledger_of_log(iteration(0, 0, 0, 1_250_000), ["a"], MODEL)
    assert started.phases() == [Phase.DOWNLOAD, Phase.TRAIN]
    assert (started.duration_s[0], started.outcome[0]) == (1.0, NONE)


def test_a_half_step_that_made_no_model_costs_what_it_took() -> None:
    diverged = [
        OrderGiven(3, 1, "r/3/1/exchange", "exchange", -1, link="wifi"),
        OrderAnswered(3, 1, "r/3/1/exchange", "refused", "diverged", 1_250_000, 1.0, 4.0, 8, None),
        OutcomeDecided(3, 1, "r/3/1/exchange", Outcome.FAILED, "refused: diverged"),
    ]
    for before in ([], iteration(0, 8, 8)):
        ledger = ledger_of_log([*before, *diverged], ["a", "b"], MODEL)
        own = ledger.device == 1
        assert [PHASES[code] for code in ledger.phase[own]] == [Phase.DOWNLOAD, Phase.TRAIN]
        assert ledger.duration_s[own].tolist() == [1.0, 4.0]
        assert ledger.failed()[own].tolist() == [False, True]  # the start model's way is of no training
        assert ledger.step[own].tolist() == [3, 3]


def test_an_iteration_that_nobody_began_costs_nothing() -> None:
    lost = [
        OrderGiven(3, 1, "r/3/1/exchange", "exchange", -1, link="wifi"),
        OrderAnswered(3, 1, "r/3/1/exchange", "refused", "diverged"),
        OutcomeDecided(3, 1, "r/3/1/exchange", Outcome.WASTED, "refused: diverged"),
    ]
    assert set(ledger_of_log([*iteration(0, 8, 8), *lost], ["a", "b"], MODEL).device) == {0}
