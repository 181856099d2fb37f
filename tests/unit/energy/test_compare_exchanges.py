"""An exchange between devices goes both ways at once: each direction has its alpha, the radio is on once."""

import pytest

from roambench.contract.link_power import LTE
from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.energy.comparison.compare import compare_transfers
from roambench.energy.comparison.transfer import LinkUse, ModelBasis
from roambench.energy.ledger import LedgerRow

S = 10**9
MEGABIT = 125_000


def exchange(
    order: str, length_s: float, moved_mbit: float, device: str = "a"
) -> tuple[LedgerRow, PhaseSpan]:
    span = PhaseSpan(
        device, "b", Phase.EXCHANGE, 3, 0, round(length_s * S), order, order, round(moved_mbit * MEGABIT)
    )
    row = LedgerRow(
        device, 3, Phase.EXCHANGE, Outcome.AGGREGATED, order, length_s, length_s, 9.0, 5.0, 0.2, 0.2, 5.0
    )
    return row, span


def test_sent_and_received_bytes_are_charged_each_at_its_own_rate_and_the_radio_once() -> None:
    row, span = exchange("x", 4.0, 30.0)
    use = LinkUse(LTE.name, 0.0, sent_bytes=10 * MEGABIT)
    (found,) = (comparison := compare_transfers([row], [span], {"x": use})).transfers
    # 10 Mbit up, 20 Mbit down, 4 s of radio.
    joules = (438.39 * 10 + 51.97 * 20 + 1288.04 * 4) * 1e-3
    assert found.direction == "exchange"
    assert found.achieved_mbit_s == pytest.approx(7.5)
    assert found.modelled[ModelBasis.ACTUAL].joules == pytest.approx(joules)
    assert ModelBasis.PLACEMENT not in found.modelled  # no distance to an access point says anything of it
    assert comparison.exchange.ratio(ModelBasis.ACTUAL).value == pytest.approx(5.0 / joules)
    assert comparison.download.transfers == comparison.upload.transfers == 0
    assert comparison.total.net.joules == 5.0


def test_sender_and_receiver_of_one_model_pay_different_alphas() -> None:
    pairs = [exchange("sends", 2.0, 20.0, "a"), exchange("receives", 2.0, 20.0, "b")]
    links = {
        "sends": LinkUse(LTE.name, 0.0, sent_bytes=20 * MEGABIT),
        "receives": LinkUse(LTE.name, 0.0, sent_bytes=0),
    }
    sender, receiver = compare_transfers(*map(list, zip(*pairs, strict=True)), links).transfers
    more_j = sender.modelled[ModelBasis.ACTUAL].joules - receiver.modelled[ModelBasis.ACTUAL].joules
    assert more_j == pytest.approx((438.39 - 51.97) * 20e-3)


def test_an_exchange_that_moved_nothing_is_not_compared() -> None:
    row, span = exchange("x", 4.0, 0.0)
    assert compare_transfers([row], [span], {"x": LinkUse(LTE.name, 0.0)}).transfers == ()
