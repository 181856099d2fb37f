from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roambench.contract.phases import Outcome, Phase
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.report.table10 import MeanSd, factors_between, table10


def row(device: str, step: int, phase: Phase, outcome: Outcome | None, gross_j: float) -> LedgerRow:
    training = f"{device}/{step}" if outcome else ""
    return LedgerRow(device, step, phase, outcome, training, 1.0, 1.0, gross_j, gross_j - 1.0, 0.1, gross_j)


ROWS = [
    # Round 0: a trains and its model is used, b trains in vain.
    row("a", 0, Phase.DOWNLOAD, Outcome.AGGREGATED, 2.0),
    row("a", 0, Phase.TRAIN, Outcome.AGGREGATED, 40.0),
    row("a", 0, Phase.UPLOAD, Outcome.AGGREGATED, 8.0),
    row("b", 0, Phase.DOWNLOAD, Outcome.WASTED, 3.0),
    row("b", 0, Phase.TRAIN, Outcome.WASTED, 37.0),
    # Round 1: nobody. Round 2: a trains and is still outstanding at the end.
    row("a", 2, Phase.TRAIN, Outcome.PENDING, 30.0),
    # Background is no part of it.
    row("a", 1, Phase.IDLE, None, 1000.0),
    row("b", 2, Phase.ABSENT, None, 1000.0),
    row("b", 2, Phase.LOST, None, 1000.0),
]


def test_cumulative_energies_are_sums_and_an_outstanding_model_is_wasted_at_the_end() -> None:
    table = table10(Ledger.of(ROWS))
    assert table.cumulative_consumed.joules == pytest.approx(120.0)
    assert table.cumulative_wasted.joules == pytest.approx(70.0)
    assert table10(Ledger.of(ROWS), finished=False).cumulative_wasted.joules == pytest.approx(40.0)


def test_means_per_training_count_a_useful_one_with_0_joules_wasted() -> None:
    table = table10(Ledger.of(ROWS))
    # Consumed 50, 40, 30; wasted 0, 40, 30.
    assert table.per_training_consumed == MeanSd(40.0, 10.0, 3)
    assert table.per_training_wasted.mean == pytest.approx(70 / 3)
    assert table.per_training_wasted.sd == pytest.approx(math.sqrt((70**2 / 9 + 50**2 / 9 + 20**2 / 9) / 2))


def test_means_per_board_are_over_its_whole_run_also_for_boards_that_never_trained() -> None:
    # a used 80 J, b 40 J.
    assert table10(Ledger.of(ROWS)).per_board_consumed.mean == pytest.approx(60.0)
    assert table10(Ledger.of(ROWS)).per_board_consumed.sd == pytest.approx(math.sqrt(800.0))
    assert table10(Ledger.of(ROWS)).per_board_wasted.mean == pytest.approx(35.0)
    assert table10(Ledger.of(ROWS), devices=["a", "b", "c"]).per_board_consumed.mean == pytest.approx(40.0)


def test_a_net_energy_that_its_uncertainty_hides_is_no_measure_of_another() -> None:
    """Of 1e-15 J ± 0.2 J everything else would be a quadrillion times as much."""
    hidden = [replace(ROWS[3], net_j=1e-15), replace(ROWS[2], net_j=7.0)]
    factors = factors_between(table10(Ledger.of(ROWS), "net"), table10(Ledger.of(hidden), "net"))
    assert all(math.isnan(value) for name, value in factors.items() if "wasted" in name)
    assert factors["cumulative_consumed_j"] == pytest.approx(114.0 / 7.0)


def test_means_per_round_leave_empty_rounds_out_and_count_them() -> None:
    table = table10(Ledger.of(ROWS))
    # Consumed 90 and 30 J, wasted 40 and 30 J.
    assert (table.per_round_consumed.mean, table.per_round_consumed.count) == (60.0, 2)
    assert table.per_round_consumed.sd == pytest.approx(math.sqrt(1800.0))
    assert (table.per_round_wasted.mean, table.per_round_wasted.count) == (35.0, 2)
    assert table.per_round_wasted.sd == pytest.approx(math.sqrt(50.0))
    assert table.empty_rounds == 1
    assert table10(Ledger.of(ROWS), rounds=5).empty_rounds == 3


def test_net_joules_are_accounted_beside_gross() -> None:
    # Six active rows, 1 J of idle power in each.
    assert table10(Ledger.of(ROWS), "net").cumulative_consumed.joules == pytest.approx(114.0)
    assert table10(Ledger.of(ROWS), "net").kind == "net"


def test_improvement_is_the_factor_by_which_the_first_spends_more() -> None:
    used = [row("a", 0, Phase.TRAIN, Outcome.AGGREGATED, 60.0)]
    found = factors_between(table10(Ledger.of(ROWS)), table10(Ledger.of(used)))
    assert found["cumulative_consumed_j"] == pytest.approx(2.0)
    assert found["per_training_consumed_j"] == pytest.approx(40 / 60)
    assert found["cumulative_wasted_j"] == math.inf
    assert math.isnan(
        factors_between(table10(Ledger.of(used)), table10(Ledger.of(used)))["cumulative_wasted_j"]
    )


def test_a_run_without_any_training_has_no_means_and_no_joules() -> None:
    table = table10(Ledger.of([]), rounds=3)
    assert table.cumulative_consumed.joules == 0.0
    assert table.empty_rounds == 3
    assert math.isnan(table.per_round_consumed.mean)
    assert table.per_round_consumed.count == 0


def test_fetching_a_cloud_aggregations_model_is_consumed_but_is_no_training() -> None:
    table = table10(Ledger.of([*ROWS, row("a", 2, Phase.DOWNLOAD, None, 6.0)]))
    assert table.cumulative_consumed.joules == pytest.approx(126.0)
    assert table.per_training_consumed == MeanSd(40.0, 10.0, 3)
    assert table.per_board_consumed.mean == pytest.approx(63.0)
