from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.link_power import LinkPower
from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.energy.comparison.compare import compare_transfers
from roambench.energy.comparison.comparison import TransferComparison
from roambench.energy.comparison.transfer import LinkUse, ModelBasis
from roambench.energy.comparison.verdict import ModelFinding, ModelVerdict, Ratio, verdict_of
from roambench.energy.energy_value import Energy, UncertaintyPart, total
from roambench.energy.ledger import LedgerRow
from roambench.energy.links.models import ANY, KnownLink, LinkModel, Provenance
from roambench.energy.links.radio_work import RadioWork, paper_radio

S = 10**9
LTE_10 = LinkUse("lte", 10.0)
BOTH = {"d": LTE_10, "u": LTE_10}


def transfer(
    phase: Phase, order: str, start_s: float, length_s: float, net_j: float, megabit: float
) -> tuple[LedgerRow, PhaseSpan]:
    span = PhaseSpan(
        "a",
        "b",
        phase,
        0,
        round(start_s * S),
        round((start_s + length_s) * S),
        order,
        "t",
        round(megabit * 125_000),
    )
    outcome = Outcome.AGGREGATED if phase in (Phase.DOWNLOAD, Phase.UPLOAD) else None
    row = LedgerRow("a", 0, phase, outcome, "t", length_s, length_s, net_j + 4, net_j, 0.3, net_j)
    return row, span


PAIRS = [
    transfer(Phase.DOWNLOAD, "d", 0, 2.0, 0.9, 20.0),
    transfer(Phase.TRAIN, "d", 2, 10.0, 30.0, 0.0),
    transfer(Phase.UPLOAD, "u", 12, 2.5, 22.0, 20.0),
]
ROWS, SPANS = [row for row, _ in PAIRS], [span for _, span in PAIRS]


def model(known: KnownLink) -> LinkModel:
    return LinkModel(known.power.name, {ANY: known}, Provenance("test"))


def compared(*pairs: tuple[LedgerRow, PhaseSpan], **options: object) -> TransferComparison:
    links = {span.order_id: LTE_10 for _, span in pairs}
    return compare_transfers([r for r, _ in pairs], [s for _, s in pairs], links, **options)  # type: ignore[arg-type]


def test_each_transfer_stands_beside_eq_1_at_the_placements_and_at_the_real_throughput() -> None:
    down, up = compare_transfers(ROWS, SPANS, BOTH).transfers
    # 20 Mbit at 10 Mbit/s: 2 s * (51.97 * 10 + 1288.04) mW and 2 s * (438.39 * 10 + 1288.04) mW.
    assert down.modelled[ModelBasis.PLACEMENT].joules == pytest.approx(2 * 1.80774)
    assert up.modelled[ModelBasis.PLACEMENT].joules == pytest.approx(2 * 5.67194)
    # The upload took 2.5 s: 8 Mbit/s.
    assert up.achieved_mbit_s == pytest.approx(8.0)
    assert up.modelled[ModelBasis.ACTUAL].joules == pytest.approx(2.5 * (438.39 * 8 + 1288.04) * 1e-3)
    assert (up.net.joules, up.net.u_joules) == (22.0, 0.3)
    assert ModelBasis.NAMED not in up.modelled


def test_a_residual_is_told_in_units_of_both_uncertainties() -> None:
    up = compare_transfers(ROWS, SPANS, BOTH).transfers[1]
    modelled_j = 2 * 5.67194
    u_j = math.hypot(0.3, 0.03 * modelled_j)  # the meter's, and half of the paper's 6 %
    assert up.ratio(ModelBasis.PLACEMENT).residual_u == pytest.approx((22.0 - modelled_j) / u_j)


def test_sums_give_measured_over_modelled_with_the_uncertainty_of_both() -> None:
    result = compare_transfers(ROWS, SPANS, BOTH)
    assert result.download.ratio(ModelBasis.PLACEMENT).value == pytest.approx(0.9 / 3.61548)
    assert result.upload.ratio(ModelBasis.PLACEMENT).value == pytest.approx(22.0 / 11.34388)
    every = result.total
    assert every.modelled_j(ModelBasis.PLACEMENT) == pytest.approx(14.95936)
    assert (every.net.joules, every.gross.joules) == (pytest.approx(22.9), pytest.approx(30.9))
    # The model's 3 % are the same error in both transfers: 3 % of the sum, not 3 % / sqrt(2).
    assert every.modelled[ModelBasis.PLACEMENT].u_joules == pytest.approx(0.03 * 14.95936)
    measured, modelled = 0.3 * math.sqrt(2), 0.03 * 14.95936
    ratio = 22.9 / 14.95936
    expected = math.hypot(measured / 14.95936, ratio * modelled / 14.95936)
    assert every.ratio(ModelBasis.PLACEMENT).u == pytest.approx(expected)


def test_the_error_of_a_meters_gain_adds_up_over_a_boards_transfers_not_over_boards() -> None:
    """Two uploads of 20 J, 1 % of gain error each: 0.4 J on one board, 0.2 * sqrt(2) on two."""

    def upload(device: str, order: str) -> tuple[LedgerRow, PhaseSpan]:
        row, span = transfer(Phase.UPLOAD, order, 0, 2.0, 20.0, 20.0)
        return replace(row, device=device, u_own_j=0.0, u_gain=0.01), replace(span, device=device)

    one = compared(upload("a", "u1"), upload("a", "u2")).total
    two = compared(upload("a", "u1"), upload("b", "u2")).total
    assert one.net.u_joules == pytest.approx(0.4)
    assert two.net.u_joules == pytest.approx(0.2 * math.sqrt(2))


def test_sums_are_kept_by_board_link_and_direction() -> None:
    rows = [replace(ROWS[0], device="b"), ROWS[0], ROWS[2]]
    spans = [replace(SPANS[0], device="b", order_id="w"), SPANS[0], SPANS[2]]
    result = compare_transfers(rows, spans, {**BOTH, "w": LinkUse("wifi", 1000.0)})
    assert {key: part.transfers for key, part in result.by_class().items()} == {
        ("lte", "down"): 1,
        ("lte", "up"): 1,
        ("wifi", "down"): 1,
    }
    assert list(result.by_device()) == [("a", "lte", "down"), ("a", "lte", "up"), ("b", "wifi", "down")]
    # 20 Mbit at 1000 Mbit/s: 20 ms at (137.01 * 1000 + 132.86) mW.
    wifi = result.by_class()["wifi", "down"]
    assert wifi.modelled_j(ModelBasis.PLACEMENT) == pytest.approx(0.020 * 137.14286)
    assert wifi.modelled_j(ModelBasis.ACTUAL) == pytest.approx(2.0 * (137.01 * 10 + 132.86) * 1e-3)
    assert wifi.achieved_mbit_s == pytest.approx(10.0)


def test_a_named_model_is_held_against_every_transfer_with_its_covariance() -> None:
    """alpha_up 100 +- 4, alpha_down 50 +- 0, beta 500 +- 20, independent.

    Up 20 Mbit in 2.5 s, down 20 Mbit in 2 s: 2000 + 1000 + 500 * 4.5 mJ; u = hypot(20 * 4, 4.5 * 20) mJ.
    """
    power = LinkPower("mine", 100.0, 50.0, 500.0)
    known = KnownLink(power, ((16.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 400.0)))
    result = compare_transfers(ROWS, SPANS, BOTH, named=model(known))
    assert result.bases == (ModelBasis.ACTUAL, ModelBasis.PLACEMENT, ModelBasis.NAMED)
    assert result.total.modelled[ModelBasis.NAMED].joules == pytest.approx(5.25)
    assert result.total.modelled[ModelBasis.NAMED].u_joules == pytest.approx(math.hypot(0.080, 0.090))
    down, up = result.transfers
    assert down.modelled[ModelBasis.NAMED].joules == pytest.approx(2.0)
    assert up.modelled[ModelBasis.NAMED].joules == pytest.approx(3.25)


def test_errors_of_two_link_models_add_up_linearly() -> None:
    rows = [ROWS[0], ROWS[2]]
    links = {"d": LinkUse("wifi", 1000.0), "u": LTE_10}
    result = compare_transfers(rows, [SPANS[0], SPANS[2]], links)
    wifi_j, lte_j = 0.020 * 137.14286, 2 * 5.67194
    assert result.total.modelled[ModelBasis.PLACEMENT].u_joules == pytest.approx(0.03 * (wifi_j + lte_j))


def test_a_transfer_with_unmeasured_time_is_listed_but_left_out_of_the_sums() -> None:
    rows = [replace(ROWS[0], covered_s=1.0), *ROWS[1:]]
    result = compare_transfers(rows, SPANS, BOTH)
    assert len(result.transfers) == 2
    assert (result.download.transfers, result.download.left_out) == (0, 1)
    assert math.isnan(result.download.ratio(ModelBasis.ACTUAL).value)
    assert result.total.net.joules == 22.0
    assert result.download.verdict(ModelBasis.ACTUAL).sentence == (
        "nothing to compare: 1 transfer not seen in full"
    )


def test_a_transfer_recorded_in_two_pieces_is_one_transfer_at_its_whole_throughput() -> None:
    """20 Mbit in 2 s, a seam after the first: the bytes stay with the first piece."""
    first = transfer(Phase.DOWNLOAD, "d", 0, 1.0, 0.5, 20.0)
    second = transfer(Phase.DOWNLOAD, "d", 1, 1.0, 0.4, 0.0)
    (whole,) = compared(first, second).transfers
    assert whole.achieved_mbit_s == pytest.approx(10.0)
    assert whole.net.joules == pytest.approx(0.9)
    assert whole.duration_s == 2.0


def test_an_order_without_a_link_is_not_compared() -> None:
    assert [t.order_id for t in compare_transfers(ROWS, SPANS, {"u": LTE_10}).transfers] == ["u"]


def test_a_link_nobody_modelled_is_measured_all_the_same() -> None:
    result = compare_transfers(ROWS, SPANS, {"d": LinkUse("satellite", 0.0)})
    part = result.by_class()["satellite", "down"]
    assert part.net.joules == 0.9
    assert math.isnan(part.ratio(ModelBasis.ACTUAL).value)
    assert part.verdict(ModelBasis.ACTUAL).finding is ModelFinding.NOTHING


def test_rows_and_spans_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="3 ledger rows for 2 spans"):
        compare_transfers(ROWS, SPANS[:2], {})


def verdict(net_j: float, u_net_j: float, *, length_s: float = 2.0):
    row, span = transfer(Phase.DOWNLOAD, "d", 0, length_s, net_j, 20.0)
    row = replace(row, u_own_j=u_net_j)
    links = {"d": LTE_10}
    exact = model(KnownLink(LinkPower("lte", 0.0, 0.0, 1000.0)))
    result = compare_transfers([row], [span], links, paper=exact)
    return result.download.verdict(ModelBasis.ACTUAL)


def test_verdicts_say_what_the_figures_allow_and_no_more() -> None:
    """The model says 1 W * 2 s = 2 J."""
    assert verdict(0.86, 0.05).sentence == (
        "measured/modelled = 0.430 [0.380, 0.480]: "
        "the interval is below 1, so the model overstates the energy"
    )
    assert verdict(3.0, 0.2).sentence == (
        "measured/modelled = 1.50 [1.30, 1.70]: the interval is above 1, so the model understates the energy"
    )
    assert verdict(2.1, 0.06).sentence == (
        "measured/modelled = 1.050 [0.990, 1.110]: "
        "the interval holds 1 and no factor of two, so the model agrees"
    )
    assert verdict(2.1, 0.06).finding is ModelFinding.AGREES
    assert verdict(2.3, 0.06).finding is ModelFinding.UNDERSTATES  # 2.5 u away
    assert verdict(2.1, 0.6).sentence == (
        "measured/modelled = 1.05 [0.45, 1.65]: not resolved, the interval holds 1 and a factor of two "
        "(about 2 such transfers would settle it at this ratio)"
    )
    assert [verdict(2.1, 0.6).settled, verdict(3.0, 0.2).settled] == [False, True]


def test_a_short_transfer_is_judged_by_its_interval_as_a_long_one_is() -> None:
    """0.4 s at 1 W: 0.4 J. One line a second says little of one, and u says so."""
    assert verdict(0.2, 0.05, length_s=0.4).finding is ModelFinding.OVERSTATES
    assert verdict(0.4, 0.4, length_s=0.4).finding is ModelFinding.NOT_RESOLVED


@pytest.mark.parametrize(("net_j", "u_net_j"), [(1.1, 0.48), (1.3, 0.36), (2.6, 0.7), (4.0, 1.0)])
def test_an_interval_that_a_factor_of_two_fits_into_is_no_agreement(net_j: float, u_net_j: float) -> None:
    """0.55 ± 0.48 holds 1, and 0.5 as well: it says nothing. Neither does 1.30 ± 0.70, which holds 2."""
    assert verdict(net_j, u_net_j).finding is ModelFinding.NOT_RESOLVED
    assert verdict(net_j, u_net_j).remark == "not resolved"


def test_agreement_may_be_as_wide_as_a_factor_of_two_allows() -> None:
    assert verdict(2.2, 0.55).finding is ModelFinding.AGREES  # 1.1 ± 0.55: 0.55 to 1.65
    assert verdict(2.2, 0.61).finding is ModelFinding.NOT_RESOLVED  # 0.49 to 1.71


@pytest.mark.parametrize("value", [0.2, 0.4, 0.55, 0.75, 1.0, 1.4, 1.5, 1.8, 3.0, 5.0])
@pytest.mark.parametrize("u_gain", [0.0, 0.15])
@pytest.mark.parametrize("u_model", [0.0, 0.08])
def test_as_many_transfers_as_are_asked_for_settle_it_and_fewer_do_not(
    value: float, u_gain: float, u_model: float
) -> None:
    """Far from 1 the nearest decision is that the model is wrong, near 1 that it agrees."""

    def judged(transfers: int) -> ModelVerdict:
        own_j = 2.2 * max(1.0, value) * math.sqrt(transfers)  # 1 J modelled each
        gain_j, model_j = u_gain * value * transfers, u_model * transfers
        measured = Energy(
            value * transfers,
            terms=((UncertaintyPart.GAIN, "a", gain_j), (UncertaintyPart.SAMPLING, "", own_j)),
        )
        modelled = Energy(float(transfers), terms=((UncertaintyPart.MODEL, "x", model_j),))
        return verdict_of(Ratio.of(measured, modelled), transfers=transfers, left_out=0)

    (asked,) = re.findall(r"about ([0-9,]+) such transfers would settle it at this ratio", judged(1).sentence)
    needed = int(asked.replace(",", ""))
    assert [judged(needed - 1).settled, judged(needed + 1).settled] == [False, True]


def test_what_no_number_of_transfers_lowers_is_said() -> None:
    """A gain known to 30 % stays, however many transfers it is in; 20 % leave 0.60 to 1.40, an agreement."""

    def said(u_gain: float) -> str:
        row, span = transfer(Phase.DOWNLOAD, "d", 0, 2.0, 2.0, 20.0)
        row = replace(row, u_gain=u_gain, u_own_j=1.4)
        exact = model(KnownLink(LinkPower("lte", 0.0, 0.0, 1000.0)))
        compared = compare_transfers([row], [span], BOTH, paper=exact)
        return compared.download.verdict(ModelBasis.ACTUAL).sentence

    assert said(0.3) == (
        "measured/modelled = 1.0 [-0.5, 2.5]: not resolved, the interval holds 1 and a factor of two (no "
        "number of transfers would settle it at this ratio: gain, idle power and model alone leave ± 0.60)"
    )
    assert said(0.2).endswith("(about 22 such transfers would settle it at this ratio)")


def test_errors_of_parameters_fitted_on_each_board_are_independent() -> None:
    """Two boards, 2 s each at beta 1000 +- 10 mW of its own: 20 mJ * sqrt(2); shared they are 40 mJ."""
    known = KnownLink(LinkPower("x", 0.0, 0.0, 1000.0), ((0.0,) * 3, (0.0,) * 3, (0.0, 0.0, 100.0)))
    rows = [ROWS[0], replace(ROWS[0], device="b")]
    spans = [SPANS[0], replace(SPANS[0], device="b", order_id="u")]
    own = LinkModel("x", {ANY: known}, Provenance("test"), {"a": known, "b": known})
    each = compare_transfers(rows, spans, BOTH, named=own).total.modelled[ModelBasis.NAMED]
    shared = compare_transfers(rows, spans, BOTH, named=model(known)).total.modelled[ModelBasis.NAMED]
    assert (each.joules, shared.joules) == (pytest.approx(4.0), pytest.approx(4.0))
    assert each.u_joules == pytest.approx(0.020 * math.sqrt(2))
    assert shared.u_joules == pytest.approx(0.040)


def test_sums_of_modelled_transfers_have_the_uncertainty_of_their_covariance() -> None:
    covariance = ((100.0, -30.0, 40.0), (-30.0, 25.0, -10.0), (40.0, -10.0, 900.0))
    known = KnownLink(LinkPower("x", 300.0, 100.0, 1000.0), covariance)
    works = [RadioWork.of(10.0, 5.0, "up"), RadioWork.of(4.0, 4.0, "down")]
    modelled = total(work.energy(known) for work in works)
    assert modelled.joules == pytest.approx(3.0 + 0.4 + 3.0)
    amounts = np.array([10.0, 4.0, 3.0])
    assert modelled.u_joules == pytest.approx(1e-3 * math.sqrt(amounts @ np.array(covariance) @ amounts))


def test_one_radio_of_the_paper_can_stand_for_every_link() -> None:
    """3G down at 10 Mbit/s: 2 s at 122.12 * 10 + 817.88 mW."""
    down, _ = compare_transfers(ROWS, SPANS, BOTH, named=paper_radio("3g")).transfers
    assert down.modelled[ModelBasis.NAMED].joules == pytest.approx(2 * 2.03908)
