from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.idle.baseline import (
    IdleBaselines,
    IdleLevel,
    NoBaselines,
    has_drifted,
    idle_baselines,
    idle_level,
)
from roambench.energy.readings.occupancy import SP2_WINDOW
from roambench.energy.readings.samples import PowerSamples


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


def test_rounding_keeps_a_steady_baseline_from_being_certain() -> None:
    assert idle_level([2.0] * 60).u_watts == 0.0
    assert idle_level([2.0] * 60, step_w=0.012).u_watts == pytest.approx(0.012 / 12.0**0.5)
    low, high = idle_level([2.0] * 60, 0.012), idle_level([2.004] * 60, 0.012)
    assert not has_drifted(low, high)


def test_baselines_are_the_idle_readings_before_and_after_all_work() -> None:
    def span(phase: Phase, start_s: int, end_s: int) -> PhaseSpan:
        return PhaseSpan("pi", "b", phase, 0, start_s * 10**9, end_s * 10**9)

    spans = [
        span(Phase.IDLE, 0, 60),
        span(Phase.TRAIN, 60, 80),
        span(Phase.IDLE, 80, 90),
        span(Phase.TRAIN, 90, 100),
        span(Phase.WAIT, 100, 110),
        span(Phase.IDLE, 110, 170),
    ]
    at = np.arange(0.5, 170.0)
    watts = np.select([at < 60.3, at < 100.3], [2.0, 5.0], 2.2)
    samples = PowerSamples.of(np.rint(at * 1e9).astype(np.int64), watts)
    found = idle_baselines(samples, spans, SP2_WINDOW)
    assert isinstance(found, IdleBaselines)
    assert (found.before.watts, found.after.watts) == pytest.approx((2.0, 2.2))
    # Readings of 1.5 .. 59.5 s, of 101.5 .. 109.5 s and 111.5 .. 169.5 s: half a second and the window's
    # reach inside the spans.
    assert (found.before.readings, found.after.readings) == (59, 9 + 59)
    after_s = (9 * 105.5 + 59 * 140.5) / 68
    assert (found.before_ns, found.after_ns) == pytest.approx((30.5e9, after_s * 1e9))
    assert found.drifted
    # Up to the second training, which nothing follows.
    assert idle_baselines(samples, spans[:4], SP2_WINDOW) == NoBaselines(59, 0)


@pytest.mark.parametrize(("first", "last"), [(Phase.IDLE, Phase.WAIT), (Phase.ABSENT, Phase.ABSENT)])
def test_a_baseline_counts_under_whatever_name_the_board_idles(first: Phase, last: Phase) -> None:
    """The minute after a run is stamped `wait` when the board's own order was the last one."""
    spans = [
        PhaseSpan("pi", "b", phase, 0, start_s * 10**9, end_s * 10**9)
        for phase, start_s, end_s in ((first, 0, 60), (Phase.UPLOAD, 60, 80), (last, 80, 140))
    ]
    at = np.arange(0.5, 140.0)
    watts = np.select([at < 60.3, at < 80.3], [2.0, 5.0], 2.0)
    found = idle_baselines(PowerSamples.of(np.rint(at * 1e9).astype(np.int64), watts), spans, SP2_WINDOW)
    assert isinstance(found, IdleBaselines)
    assert (found.before.watts, found.after.watts) == pytest.approx((2.0, 2.0))


def test_lost_time_is_no_baseline() -> None:
    """Nobody knows what the board did."""
    spans = [
        PhaseSpan("pi", "b", phase, 0, start_s * 10**9, end_s * 10**9)
        for phase, start_s, end_s in ((Phase.IDLE, 0, 60), (Phase.UPLOAD, 60, 80), (Phase.LOST, 80, 140))
    ]
    at = np.arange(0.5, 140.0)
    samples = PowerSamples.of(np.rint(at * 1e9).astype(np.int64), np.full(len(at), 2.0))
    assert idle_baselines(samples, spans, SP2_WINDOW) == NoBaselines(59, 0)
