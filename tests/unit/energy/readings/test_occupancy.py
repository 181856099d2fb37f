from __future__ import annotations

import numpy as np
import pytest

from roambench.energy.readings.occupancy import SP2_WINDOW, MeterWindow, level_occupancy


def test_a_window_of_equal_width_and_age_is_a_triangle_that_ends_at_the_reading() -> None:
    window = MeterWindow(0.25, 0.25)
    # Half of the weight lies within 0.25 s, 1/8 within the first and before the last 0.125 s.
    within = window.weight_within(np.array([-1.0, 0.0, 0.125, 0.25, 0.375, 0.5, 9.0]))
    assert within == pytest.approx([0, 0, 0.125, 0.5, 0.875, 1, 1])


def test_a_window_of_known_age_is_a_boxcar() -> None:
    assert MeterWindow(0.5, 0.0).weight_within(np.array([0.0, 0.125, 0.5, 1.0])).tolist() == [0, 0.25, 1, 1]
    assert MeterWindow(0.0, 0.5).weight_within(np.array([0.0, 0.125, 0.5, 1.0])).tolist() == [0, 0.25, 1, 1]


def test_unequal_width_and_age_make_a_trapezoid_with_the_right_centre() -> None:
    window = MeterWindow(0.3, 0.1)
    u = np.linspace(0.0, 0.4, 40_001)
    mean_delay_s = np.trapezoid(1.0 - window.weight_within(u), u)
    assert mean_delay_s == pytest.approx(0.2, abs=1e-6)


def test_the_sp2_looks_on_average_0_26_seconds_back() -> None:
    u = np.linspace(0.0, SP2_WINDOW.support_s, 40_001)
    assert np.trapezoid(1.0 - SP2_WINDOW.weight_within(u), u) == pytest.approx(0.2638, abs=1e-6)


def test_occupancy_of_a_reading_at_a_border_is_split_and_sums_to_one() -> None:
    window = MeterWindow(0.25, 0.25)
    starts, ends = np.array([0.0, 2.0, 2.2]), np.array([2.0, 2.2, 9.0])
    # At 2.25 the triangle covers 1.75..2.25: 1/2 before 2.0, then 0.5 - 0.02 up to 2.2, 0.02 after it.
    shares = level_occupancy(np.array([1.0, 2.25, 5.0]), starts, ends, window, np.arange(3), 3)
    assert shares[0].tolist() == [1, 0, 0]
    assert shares[1] == pytest.approx([0.5, 0.48, 0.02])
    assert shares[2].tolist() == [0, 0, 1]


def test_a_reading_beyond_the_spans_is_only_partly_occupied() -> None:
    window, level = MeterWindow(0.25, 0.25), np.zeros(1, np.int64)
    shares = level_occupancy(np.array([0.25, 50.0]), np.array([0.0]), np.array([9.0]), window, level, 1)
    assert shares.ravel() == pytest.approx([0.5, 0.0])
