"""Energies beside the truth of emulated boards are judged by what the method leaves open."""

from __future__ import annotations

import pytest

from roambench.energy.energy_value import Energy, UncertaintyPart
from roambench.report.summaries.truth_checks import TruthCheck, together

MEASURED = Energy(100.0, 0.0, 10.0, 0.0, ((UncertaintyPart.SAMPLING, "", 0.3),)).with_terms(
    (UncertaintyPart.GAIN, "pi-01", 1.1), (UncertaintyPart.OFFSET, "pi-01", 0.1)
)


def test_the_gain_that_a_real_meter_may_have_hides_no_error_where_the_emulated_one_has_none() -> None:
    check = TruthCheck.of(MEASURED, 101.0, rounding=0.5)
    assert check.u_j == pytest.approx((0.3**2 + 0.05**2) ** 0.5)
    assert check.within == 0


def test_an_emulated_meter_with_a_gain_is_judged_with_what_is_unknown_of_it() -> None:
    check = TruthCheck.of(MEASURED, 101.0, rounding=None)
    assert check.u_j == MEASURED.u_joules
    assert check.within == 1


def test_boards_together_are_judged_without_gain_only_if_no_meter_has_one() -> None:
    perfect, not_so = (TruthCheck.of(MEASURED, 101.0, rounding=how) for how in (0.5, None))
    both = MEASURED + MEASURED
    sure, unsure = together([perfect, perfect], both), together([perfect, not_so], both)
    assert sure is not None
    assert unsure is not None
    assert sure.u_j == pytest.approx((2.0 * 0.3**2 + 0.1**2) ** 0.5)  # the meter they share rounds both alike
    assert unsure.u_j == both.u_joules
