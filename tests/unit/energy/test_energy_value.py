from __future__ import annotations

import math

import pytest

from roambench.energy.energy_value import Energy, UncertaintyPart, total

GAIN = UncertaintyPart.GAIN


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


def test_what_two_energies_share_adds_linearly_with_its_sign() -> None:
    early = Energy(
        10.0, 0.0, 5.0, 0.0, ((UncertaintyPart.EDGES, "a", 3.0), (UncertaintyPart.SAMPLING, "", 4.0))
    )
    late = Energy(
        10.0, 0.0, 5.0, 0.0, ((UncertaintyPart.EDGES, "a", -3.0), (UncertaintyPart.SAMPLING, "", 3.0))
    )
    assert early.u_joules == 5.0
    # A border that moves takes from one what it gives to the other.
    assert (early + late).u_joules == 5.0
    assert (early + early).u_joules == pytest.approx((36.0 + 32.0) ** 0.5)


def test_the_budget_is_the_uncertainty_taken_apart() -> None:
    energy = Energy(
        1.0,
        0.0,
        1.0,
        0.0,
        (
            (UncertaintyPart.GAIN, "a", 2.0),
            (UncertaintyPart.GAIN, "b", 1.0),
            (UncertaintyPart.MODEL, "", 2.0),
        ),
    )
    assert energy.budget.gain_j == pytest.approx(5.0**0.5)
    assert energy.budget.model_j == 2.0
    assert energy.budget.total_j == energy.u_joules == 3.0


def test_no_sum_loses_an_uncertainty_on_the_way() -> None:
    plain, known = Energy(1.0, 3.0), Energy(1.0, 0.0, 1.0, 0.0, ((UncertaintyPart.BASELINE, "a", 4.0),))
    assert (plain + known + Energy(5.0)).u_joules == 5.0
    assert known.with_terms((UncertaintyPart.MODEL, "Huang", 3.0)).u_joules == 5.0


def test_a_part_of_an_energy_has_its_part_of_every_error() -> None:
    whole = Energy(100.0, terms=((GAIN, "pi-01", 1.0), (UncertaintyPart.SAMPLING, "", 0.5)))
    part = whole.times(0.25)
    assert part.joules == 25.0
    assert part.terms == ((GAIN, "pi-01", 0.25), (UncertaintyPart.SAMPLING, "", 0.125))


def test_beside_other_runs_only_what_is_wrong_in_every_run_is_shared() -> None:
    """Four runs of 3 J gain of one meter, 4 J of a clock that is set again in each."""
    run = Energy(100.0, terms=((GAIN, "pi-01", 3.0), (UncertaintyPart.EDGES, "pi-01", 4.0)))
    assert run.beside_other_runs().u_joules == run.u_joules == 5.0
    mean = total(run.beside_other_runs().times(0.25) for _ in range(4))
    assert mean.joules == 100.0
    assert mean.u_joules == pytest.approx(math.hypot(3.0, 4.0 / 2.0))
