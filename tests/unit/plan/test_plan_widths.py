"""`run --plan` says how sure the energy of each phase will be, and what would bring it to 5 %."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from roambench.energy.window_sums import sampling_j2
from roambench.meters.traits import MeterTraits
from roambench.plan.energy import PhaseJoules
from roambench.plan.plan import RunPlan
from roambench.plan.tables import widths_of
from roambench.plan.widths import ExpectedPhases

_SLOW = MeterTraits("slow", 1.0, 0.26, 0.26, 0.0, 0.0)
_FAST = MeterTraits("fast", 0.1, 0.06, 0.0, 0.0, 0.0)


def phases_of(count: int, watts: float, seconds: float, after_j: float = 0.0) -> ExpectedPhases:
    phases = ExpectedPhases()
    for _ in range(count):
        phases.add(watts, seconds, after_j)
    return phases


def plan_of(*phases: PhaseJoules) -> RunPlan:
    made = object.__new__(RunPlan)
    object.__setattr__(made, "joules", phases)
    return made


def test_a_wide_phase_says_how_many_of_them_would_bring_it_to_5_percent() -> None:
    wide = PhaseJoules("download", 44.0, 80.0, 20.0, 40, u_net_j=1.0)
    assert widths_of(plan_of(wide)) == [
        "net download ± 10 % (40 of 1.1 s); ± 5 % takes 160 of them, or a meter that prints every 100 ms"
    ]


def test_what_the_gain_of_the_meters_leaves_no_number_of_phases_lowers() -> None:
    lasting = PhaseJoules("upload", 40.0, 80.0, 20.0, 40, u_net_j=1.0, u_lasting_j=0.6)
    assert widths_of(plan_of(lasting)) == ["net upload ± 10 % (40 of 1.0 s)"]
    sure = PhaseJoules("train", 400.0, 800.0, 350.0, 40, u_net_j=2.0)
    assert widths_of(plan_of(sure)) == ["net train ± 1.1 % (40 of 10.0 s)"]


def test_where_nothing_is_measured_or_phases_touch_nothing_is_promised() -> None:
    assert widths_of(plan_of(PhaseJoules("train", 10.0, 20.0, 8.0))) == []


@pytest.mark.parametrize("duration_s", [0.2, 1.0, 2.0, 30.0])
def test_a_meter_that_looks_for_an_instant_is_as_unsure_as_a_boxcar_and_a_seamless_one_is_not(
    duration_s: float,
) -> None:
    instant = float(sampling_j2(3.0, np.array([duration_s]), 1.0, 0.0)[0])
    fraction = duration_s if duration_s < 0.5 else None
    expected = 9.0 * (fraction * (1.0 - fraction) if fraction else 1.0 / 6.0)
    assert instant == pytest.approx(expected, rel=0.05)
    assert float(sampling_j2(3.0, np.array([duration_s]), 1.0, 1.0)[0]) < 0.05 * instant


def test_ten_lines_a_second_are_surer_than_one() -> None:
    phases = phases_of(20, 1.2, 1.4)
    assert phases.u_j(1.5, _FAST) < 0.25 * phases.u_j(4.0, _SLOW)


def test_phases_of_a_whole_period_are_surer_than_those_of_half_a_period_more() -> None:
    whole, more = phases_of(60, 1.2, 2.0), phases_of(60, 1.2, 2.5)
    assert whole.u_j(4.0, _SLOW) < 0.8 * more.u_j(4.0, _SLOW)


def test_few_phases_are_less_sure_than_their_number_says() -> None:
    few, many = phases_of(3, 1.2, 2.3), phases_of(300, 1.2, 2.3)
    assert few.u_j(4.0, _SLOW) > 1.05 * many.u_j(4.0, _SLOW) / 10.0


def test_a_tail_is_part_of_the_net_energy_that_the_width_is_a_share_of() -> None:
    phases = phases_of(10, 0.5, 2.0, after_j=0.1)
    assert phases.net_j == pytest.approx(11.0)


def test_a_comparison_adds_both_directions_gain_and_all() -> None:
    down = PhaseJoules("download", 40.0, 80.0, 10.0, 40, u_net_j=0.5, u_lasting_j=0.3)
    up = PhaseJoules("upload", 40.0, 80.0, 20.0, 40, u_net_j=1.0, u_lasting_j=0.6)
    own_j = math.hypot(0.4, 0.8)
    share = 200.0 * math.hypot(own_j, 0.9) / 30.0
    assert widths_of(plan_of(down, up))[-1] == (
        f"compare: all transfers ± {share:.2g} %, and what the link model adds"
    )


def test_a_phases_gross_joules_are_idle_and_net() -> None:
    assert dataclasses.replace(PhaseJoules("train", 1.0, 2.0, 3.0)).gross_j == 5.0
