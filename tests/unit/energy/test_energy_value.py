from __future__ import annotations

import math

import pytest

from roambench.energy.energy_value import Energy, total


def test_independent_uncertainties_add_in_quadrature_and_joules_linearly() -> None:
    both = Energy(100.0, 3.0, 50.0, 1.0) + Energy(20.0, 4.0, 10.0, 3.0)
    assert both == Energy(120.0, 5.0, 60.0, 4.0)


def test_coverage_is_the_measured_share_of_the_time() -> None:
    assert Energy(1.0, 0.0, 30.0, 10.0).coverage == 0.75
    assert Energy().coverage == 1.0
    assert Energy(gap_s=5.0).coverage == 0.0


def test_mean_power_is_over_the_measured_time_only() -> None:
    assert Energy(60.0, 0.0, 30.0, 30.0).mean_w == 2.0
    assert math.isnan(Energy(gap_s=1.0).mean_w)


def test_a_total_of_four_equal_boards_has_twice_the_uncertainty_of_one() -> None:
    assert total([Energy(10.0, 1.0, 5.0)] * 4) == Energy(40.0, 2.0, 20.0)
    assert total([]) == Energy()


def test_an_energy_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Energy().joules = 1.0  # type: ignore[misc]
