from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.energy.baseline import IdleLevel, has_drifted, idle_between, idle_level


def test_independent_readings_give_sd_over_root_n() -> None:
    values = np.random.Generator(np.random.PCG64(3)).normal(1.9, 0.02, 10_000)
    level = idle_level(values)
    assert level.watts == pytest.approx(1.9, abs=1e-3)
    assert level.u_watts == pytest.approx(0.02 / 100.0, rel=0.1)


def test_readings_that_follow_each_other_count_for_fewer() -> None:
    # 1.8 and 2.0 in two blocks of four: r = (3 + 3 - 1) / 8, n_eff = 8 * (3/8) / (13/8).
    level = idle_level([1.8] * 4 + [2.0] * 4)
    assert level.watts == pytest.approx(1.9)
    assert level.effective == pytest.approx(24 / 13)
    assert level.u_watts == pytest.approx((0.08 / 7 / (24 / 13)) ** 0.5)


def test_readings_that_alternate_are_not_taken_as_better_than_independent() -> None:
    assert idle_level([1.8, 2.0] * 4).effective == 8.0
    assert idle_level([1.9] * 4).u_watts == 0.0


def test_one_reading_is_no_baseline() -> None:
    with pytest.raises(ConfigError, match="at least 2 readings, got 1"):
        idle_level([1.9])


@pytest.mark.parametrize(
    ("after_w", "u_w", "drifted"),
    [(1.91, 0.01, False), (1.96, 0.01, True), (1.93, 0.001, True), (1.95, 1.0, True)],
)
def test_a_drift_of_3_u_or_of_2_percent_is_told(after_w: float, u_w: float, drifted: bool) -> None:
    assert has_drifted(IdleLevel(1.9, u_w, 60, 60.0), IdleLevel(after_w, u_w, 60, 60.0)) is drifted


def test_idle_power_runs_straight_from_one_baseline_to_the_other() -> None:
    before, after = IdleLevel(1.9, 0.0, 60, 60.0), IdleLevel(2.1, 0.0, 60, 60.0)
    assert idle_between(before, 100, after, 300, [0, 100, 150, 300, 400]) == pytest.approx(
        [1.9, 1.9, 1.95, 2.1, 2.1]
    )
