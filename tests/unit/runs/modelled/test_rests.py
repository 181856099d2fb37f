"""Rests of virtual devices in their modelled ledger."""

from __future__ import annotations

import pytest

from roambench.contract.phases import Outcome, Phase
from roambench.energy.ledger import NONE, PHASES
from roambench.energy.links.models import MOHAWK
from roambench.energy.modelled.device_power import DevicePower
from roambench.energy.modelled.ledger import EnergyModel
from roambench.rounds.records import (
    ModelsExchanged,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepOpened,
)
from roambench.runs.modelled.accounts import ledger_of_log

MODEL = EnergyModel(MOHAWK, DevicePower(2.0, 1.0, 0.0, 1))


def hierarchical() -> list[RoundRecord]:
    """A training of step 0 with its download, its upload in step 1, and a global model for the device."""
    return [
        StepOpened(0, (0,), (0,), (900.0,)),
        OrderGiven(0, 0, "t", "train", 0, "", "cc", 900.0, "lte", 20.0),
        OrderAnswered(0, 0, "t", "done", "", 2_500_000, 1.0, 20.0, 60, 1.5),
        StepOpened(1, (0,), (0,), (300.0,)),
        OrderGiven(1, 0, "u", "upload", 0, "t", "", 300.0, "lte", 10.0),
        OrderAnswered(1, 0, "u", "done", "", 2_500_000, 2.0),
        OutcomeDecided(1, 0, "t", Outcome.AGGREGATED),
        OrderGiven(1, 0, "s", "sync", 0, "", "dd", 300.0, "lte", 10.0),
        OrderAnswered(1, 0, "s", "done", "", 2_500_000, 2.0),
    ]


def test_a_virtual_device_rests_around_its_phases_as_a_board_does() -> None:
    """Half a rest before an order's first phase, a whole one after each; of idle energy alone."""
    plain, ledger = (
        ledger_of_log(hierarchical(), ["pi-01"], MODEL, "transfer", rest_s) for rest_s in (0.0, 4.0)
    )
    phases = [PHASES[code].value for code in ledger.phase.tolist()]
    assert phases == ["download", "train", "rest", "upload", "rest", "download", "rest"]
    rests = ledger.of_phase(Phase.REST)
    assert ledger.duration_s[rests].tolist() == [10.0, 6.0, 6.0]
    assert ledger.gross_j[rests].tolist() == [20.0, 12.0, 12.0]
    assert not ledger.net_j[rests].any()
    assert set(ledger.training[rests].tolist()) == set(ledger.outcome[rests].tolist()) == {NONE}
    assert ledger.step[rests].tolist() == [0, 1, 1]
    assert not plain.of_phase(Phase.REST).any()
    for column in ("device", "step", "phase", "outcome", "training", "duration_s", "gross_j", "net_j"):
        assert getattr(ledger, column)[~rests].tolist() == getattr(plain, column).tolist(), column
    assert ledger.wasted().tolist() == [False] * 7
    assert [str(text) for text in ledger.work.train_order_ids] == ["t", "t", "", "t", "", "", ""]


@pytest.mark.parametrize(("downloaded_bytes", "rests"), [(0, 2.5), (1_250_000, 3.5)])
def test_an_exchange_is_one_phase_whatever_it_sends_and_gets(downloaded_bytes: int, rests: float) -> None:
    records: list[RoundRecord] = [
        OrderGiven(0, 0, "x", "exchange", -1, link="wifi"),
        OrderAnswered(0, 0, "x", "done", "", 0, 1.0, 10.0, 60, 1.5),
        ModelsExchanged(
            0, 0, "x", (), (), 2_500_000, 2_500_000, 2.0, downloaded_bytes, 8e-6 * downloaded_bytes, "",
            model_bytes=1_250_000,
        ),
    ]  # fmt: skip
    ledger = ledger_of_log(records, ["pi-01"], MODEL, "transfer", 2.0)
    assert ledger.duration_s[ledger.of_phase(Phase.REST)].tolist() == [2.0 * rests]
    assert [PHASES[code] for code in ledger.phase.tolist()][-1] is Phase.REST
