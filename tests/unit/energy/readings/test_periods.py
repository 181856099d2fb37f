"""Periods between lines, found for many at once as they are one by one."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roambench.energy.idle.local_idle import IdleReadings
from roambench.energy.readings.periods import (
    CREEP,
    EARLY,
    REGULAR,
    is_regular,
    nearby,
    periods_between,
    places,
)


def one_by_one(at_s: npt.NDArray[np.float64], period_s: float) -> list[int]:
    """The rule as it is told of each line."""
    counts: list[int] = []
    due_s = float(at_s[0]) if len(at_s) else 0.0
    for arrival_s in at_s[1:].tolist():
        count = math.floor((arrival_s - due_s) / period_s + EARLY)
        if count < 1:
            if counts and counts[-1] > 1:
                counts[-1] -= 1
            else:
                due_s = arrival_s
            count = 1
        else:
            due_s += count * period_s
            due_s += min(arrival_s - due_s, count * CREEP * period_s)
        counts.append(count)
    return counts


@settings(deadline=None)
@example(470, 2, 0.4, 0.0, 1.0)  # every line is lost
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3, 40, 3_000]),
    st.sampled_from([0.0, 0.01, 0.4]),
    st.sampled_from([0.0, 0.002, 0.3, 1.5]),
    st.sampled_from([1.0, 0.1]),
)
def test_lines_at_once_have_the_periods_that_they_have_one_by_one(
    seed: int, lines: int, lost: float, late_s: float, period_s: float
) -> None:
    """Among lines that are lost, late by a part of a period or by some, and in bursts."""
    draw = np.random.default_rng(seed)
    due_s = np.arange(2 * lines) * period_s * (1.0 + 1e-4 * draw.standard_normal())
    due_s = due_s[draw.random(2 * lines) >= lost][:lines]
    at_s = np.maximum.accumulate(due_s + period_s * draw.exponential(late_s, len(due_s)))
    assert periods_between(at_s, period_s).tolist() == one_by_one(at_s, period_s)


def test_a_single_line_has_no_period() -> None:
    assert periods_between(np.array([1.0]), 1.0).tolist() == []


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 7, 500]), st.sampled_from([0.0, 0.2, 0.95]))
def test_the_variance_of_a_sum_of_readings_is_that_of_an_autoregression(
    seed: int, count: int, alike: float
) -> None:
    draw = np.random.default_rng(seed)
    at_s = np.cumsum(draw.uniform(0.5, 3.0, count))
    weights = draw.standard_normal(count) * (draw.random(count) < 0.5)
    quiet = IdleReadings(at_s, np.zeros(count), 0.3, alike, 1.0)
    apart = np.abs(at_s[:, None] - at_s[None, :])
    alike_of = np.where(apart == 0.0, 1.0, max(alike, 1e-9) ** apart)
    assert math.isclose(
        quiet.variance_of(weights), 0.09 * float(weights @ alike_of @ weights), rel_tol=1e-9, abs_tol=1e-12
    )


SOME_S = st.lists(st.integers(0, 40), min_size=1, max_size=60).map(lambda some: np.sort(np.array(some) / 8.0))


@given(SOME_S, SOME_S, st.sampled_from([0.5, 1.0, 9.0]))
def test_moments_among_others_are_where_a_search_for_each_finds_them(
    at_s: npt.NDArray[np.float64], knots_s: npt.NDArray[np.float64], reach_s: float
) -> None:
    """With ties, gaps and none within reach."""
    for knots in (knots_s, knots_s[:0]):
        for side in ("left", "right"):
            assert np.array_equal(places(knots, at_s, side), np.searchsorted(knots, at_s, side))
    low, high = nearby(at_s, reach_s)
    assert np.array_equal(low, np.searchsorted(at_s, at_s - reach_s))
    assert np.array_equal(high, np.searchsorted(at_s, at_s + reach_s, "right"))


@given(SOME_S)
def test_a_meter_is_regular_by_the_median_of_its_steps(steps_s: npt.NDArray[np.float64]) -> None:
    for period_s in (1.0, 2.5, 5.0):
        assert is_regular(steps_s, period_s) == (np.median(np.abs(steps_s - period_s)) < REGULAR * period_s)
