from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roambench.contract.phases import Fate, Phase, PhaseSpan
from roambench.energy.compare import LinkUse, compare_transfers
from roambench.energy.ledger import LedgerRow

S = 10**9
LTE_10 = LinkUse("lte", 10.0)


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
    fate = Fate.AGGREGATED if phase in (Phase.DOWNLOAD, Phase.UPLOAD) else None
    row = LedgerRow("a", 0, phase, fate, "t", length_s, length_s, net_j + 4, net_j, 0.3, 0.3, net_j)
    return row, span


PAIRS = [
    transfer(Phase.DOWNLOAD, "d", 0, 2.0, 0.9, 20.0),
    transfer(Phase.TRAIN, "d", 2, 10.0, 30.0, 0.0),
    transfer(Phase.UPLOAD, "u", 12, 2.5, 22.0, 20.0),
]
ROWS, SPANS = [row for row, _ in PAIRS], [span for _, span in PAIRS]


def test_each_transfer_stands_beside_eq_1_at_the_placements_and_at_the_real_throughput() -> None:
    result = compare_transfers(ROWS, SPANS, {"d": LTE_10, "u": LTE_10})
    down, up = result.transfers
    # 20 Mbit at 10 Mbit/s: 2 s * (51.97 * 10 + 1288.04) mW and 2 s * (438.39 * 10 + 1288.04) mW.
    assert down.modelled_j == pytest.approx(2 * 1.80774)
    assert up.modelled_j == pytest.approx(2 * 5.67194)
    # The upload took 2.5 s: 8 Mbit/s.
    assert up.measured_mbit_s == pytest.approx(8.0)
    assert up.modelled_at_measured_j == pytest.approx(2.5 * (438.39 * 8 + 1288.04) * 1e-3)
    assert (up.measured_net_j, up.u_measured_net_j) == (22.0, 0.3)


def test_totals_give_measured_over_modelled_with_its_uncertainty() -> None:
    result = compare_transfers(ROWS, SPANS, {"d": LTE_10, "u": LTE_10})
    assert result.download.ratio == pytest.approx(0.9 / 3.61548)
    assert result.upload.ratio == pytest.approx(22.0 / 11.34388)
    assert result.total.modelled_j == pytest.approx(14.95936)
    assert result.total.measured_net_j == pytest.approx(22.9)
    assert result.total.u_ratio == pytest.approx(0.3 * math.sqrt(2) / 14.95936)


def test_a_transfer_with_unmeasured_time_is_listed_but_left_out_of_the_totals() -> None:
    rows = [replace(ROWS[0], covered_s=1.0), *ROWS[1:]]
    result = compare_transfers(rows, SPANS, {"d": LTE_10, "u": LTE_10})
    assert len(result.transfers) == 2
    assert (result.download.transfers, result.download.left_out) == (0, 1)
    assert math.isnan(result.download.ratio)
    assert result.total.measured_net_j == 22.0


def test_an_order_without_a_link_is_not_compared() -> None:
    assert [t.order_id for t in compare_transfers(ROWS, SPANS, {"u": LTE_10}).transfers] == ["u"]


def test_rows_and_spans_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="3 ledger rows for 2 spans"):
        compare_transfers(ROWS, SPANS[:2], {})
