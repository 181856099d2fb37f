"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from roambench.energy.energy_value import Energy
from roambench.report import numbers
from roambench.report.summaries.truth_checks import TruthCheck
from roambench.report.table10 import MeanSd


def test_one_value_has_no_standard_deviation() -> None:
    assert numbers.mean_sd(MeanSd.of([613.2])) == "613 J"
    assert numbers.mean_sd(MeanSd.of([612.0, 614.0])) == "613 J (sd 1)"
    assert numbers.mean_sd(MeanSd.of([])) == "–"


def test_an_energy_without_a_known_uncertainty_is_a_number_alone() -> None:
    assert numbers.energy(Energy(79.7, covered_s=60.0)) == "79.7 J"


@pytest.mark.parametrize(
    ("measured_j", "u_j", "true_j", "told"),
    [
        (10.5, 0.1, 10.0, "+5.00 % (+5.0 u)"),
        (0.31, 0.6, 1e-16, "+0.31 J (+0.5 u)"),
        (-0.31, 0.6, -1e-16, "-0.31 J (-0.5 u)"),
        (0.31, 0.6, 0.0, "+0.31 J (+0.5 u)"),
        (26.0, 0.0, 1e-13, "+26.0 J"),
        (0.9, 0.6, 0.5, "+0.40 J (+0.7 u)"),
        (0.0, 0.0, 0.0, "–"),
        (1.0, 0.1, math.nan, "–"),
    ],
)
def test_a_distance_from_a_truth_that_the_uncertainty_hides_is_told_in_joules(measured_j, u_j, true_j, told):
    assert numbers.against_truth(measured_j, u_j, true_j) == told


def test_a_check_against_a_truth_that_is_nothing_has_no_relative_error():
    assert math.isnan(TruthCheck(1, 1, 0.3, 0.6, 1e-16).error)
    assert math.isnan(TruthCheck(1, 0, 0.3, 0.0, 1e-16).error)
    assert TruthCheck(1, 1, 10.5, 0.5, 10.0).error == pytest.approx(0.05)
