"""Numbers as people read them."""

from __future__ import annotations

from roambench.energy.energy_value import Energy
from roambench.energy.table10 import MeanSd
from roambench.report import numbers


def test_one_value_has_no_standard_deviation() -> None:
    assert numbers.mean_sd(MeanSd.of([613.2])) == "613 J"
    assert numbers.mean_sd(MeanSd.of([612.0, 614.0])) == "613 ± 1 J"
    assert numbers.mean_sd(MeanSd.of([])) == "–"


def test_an_energy_without_a_known_uncertainty_is_a_number_alone() -> None:
    assert numbers.energy(Energy(79.7, covered_s=60.0)) == "79.7 J"
