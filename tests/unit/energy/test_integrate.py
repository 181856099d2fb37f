from __future__ import annotations

from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.energy_value import Energy
from roambench.energy.integrate import SP2_DELAY_S, covered_by_span, power_curve, trapezoid_by_span
from roambench.energy.readings.samples import PowerSamples

S = 10**9


def ns(*at_s: float) -> np.ndarray:
    return np.rint(np.array(at_s) * 1e9).astype(np.int64)


def whole_run(
    at_ns: npt.ArrayLike, watts: npt.ArrayLike, start_ns: int, end_ns: int, *, delay_s: float = SP2_DELAY_S
) -> Energy:
    return power_curve(PowerSamples.of(at_ns, watts), start_ns, end_ns, delay_s=delay_s).energy()


def span(phase: Phase, start_s: float, end_s: float) -> PhaseSpan:
    return PhaseSpan("pi", "b", phase, 0, round(start_s * S), round(end_s * S))


def test_a_ramp_is_integrated_exactly_on_real_timestamps() -> None:
    # P = t at uneven times; integral from 1 to 4 is (16 - 1) / 2.
    energy = whole_run(ns(0.0, 1.3, 2.1, 3.3, 4.5), [0.0, 1.3, 2.1, 3.3, 4.5], 1 * S, 4 * S, delay_s=0.0)
    assert energy.joules == pytest.approx(7.5)
    assert energy.covered_s == pytest.approx(3.0)
    assert energy.gap_s == 0.0


def test_stamps_are_moved_back_by_the_delay_of_the_meters_window() -> None:
    # P = t seen 0.26 s late: the value at 1.26 is the power at 1.
    at = np.arange(0.0, 6.0)
    energy = whole_run(ns(*(at + 0.26)), at, 1 * S, 4 * S)
    assert energy.joules == pytest.approx(7.5)


def test_lines_that_only_a_working_board_delays_lose_no_joules() -> None:
    # A value is half a second old: the first line of a phase still shows the rest before it, the first
    # behind it the phase. Those printed within the phase come 0.2 s late.
    due_s = np.arange(0.0, 100.0)
    begins_s, ends_s = np.arange(10.5, 90.0, 20.0), np.arange(20.5, 100.0, 20.0)

    def works(at_s: np.ndarray) -> np.ndarray:
        return np.any((at_s > begins_s[:, None]) & (at_s < ends_s[:, None]), axis=0)

    watts = np.where(works(due_s - 0.6), 5.0, 2.0)
    on_time = whole_run(ns(*due_s), watts, 0, 99 * S, delay_s=0.6)
    late = whole_run(ns(*(due_s + 0.2 * works(due_s))), watts, 0, 99 * S, delay_s=0.6)
    assert late.joules == pytest.approx(on_time.joules)


def test_a_meter_that_looks_all_the_time_misses_no_step() -> None:
    at_s, watts = np.arange(0.0, 101.0), np.where(np.arange(101) % 20 < 10, 2.0, 5.0)
    ten_steps = PowerSamples.of(ns(*at_s), watts)
    u_j = [
        power_curve(ten_steps, 0, 100 * S, delay_s=0.5 * w, window_s=w, step_w=0.0).energy().u_joules
        for w in (0.0, 0.5, 1.0)
    ]
    # 3 W at ten borders, each anywhere within a second: 3 sqrt(10 / 12); half a second of it, and steps that
    # show as two; nothing.
    expected = 3.0 * np.sqrt(10.0 / 12.0)
    assert u_j == pytest.approx([expected, 0.5 * expected / np.sqrt(1.0 - 0.5 / 3.0), 0.0])


def test_a_gap_is_counted_and_holds_no_joules() -> None:
    at = [0, 1, 2, 3, 6, 7, 8, 9, 10]
    energy = whole_run(ns(*at), [2.0] * len(at), 0, 10 * S, delay_s=0.0)
    assert energy.joules == pytest.approx(14.0)
    assert energy.gap_s == pytest.approx(3.0)
    assert energy.coverage == pytest.approx(0.7)


def test_two_and_a_half_periods_are_still_bridged() -> None:
    assert whole_run(ns(0, 2.5, 3.5), [2.0] * 3, 0, ns(3.5)[0], delay_s=0.0).gap_s == 0.0
    assert whole_run(ns(0, 2.51, 3.5), [2.0] * 3, 0, ns(3.5)[0], delay_s=0.0).gap_s == pytest.approx(2.51)


def test_the_nearest_value_is_held_at_an_edge_that_is_near_and_not_at_one_that_is_far() -> None:
    near = whole_run(ns(1, 2, 3), [2.0, 2.0, 3.0], 0, 4 * S, delay_s=0.0)
    assert near.joules == pytest.approx(2 + 2 + 2.5 + 3)
    assert near.gap_s == 0.0
    far = whole_run(ns(2, 3), [2.0, 2.0], 0, 5 * S, delay_s=0.0)
    assert far.joules == pytest.approx(2.0)
    assert (far.covered_s, far.gap_s) == (1.0, 4.0)


def test_no_samples_at_all_are_a_gap_as_long_as_the_run() -> None:
    for at in (ns(), ns(100.0)):
        energy = whole_run(at, np.ones(len(at)), 0, 10 * S)
        assert (energy.joules, energy.covered_s, energy.gap_s) == (0.0, 0.0, 10.0)


def test_covered_intervals_are_where_a_truth_may_be_integrated() -> None:
    curve = power_curve(PowerSamples.of(ns(0, 1, 2, 6, 7, 8), [2.0] * 6), 0, 8 * S, delay_s=0.0)
    assert curve.covered_intervals() == [(0, 2 * S), (6 * S, 8 * S)]


def test_spans_share_the_whole_energy_and_their_covered_time() -> None:
    at = [0, 1, 2, 3, 7, 8, 9, 10]
    curve = power_curve(PowerSamples.of(ns(*at), [1, 2, 5, 5, 3, 2, 2, 1]), 0, 10 * S, delay_s=0.0)
    spans = [span(Phase.IDLE, 0, 1.4), span(Phase.TRAIN, 1.4, 7.25), span(Phase.WAIT, 7.25, 10)]
    naive = trapezoid_by_span(curve, spans)
    assert naive.sum() == pytest.approx(curve.energy().joules)
    assert covered_by_span(curve, spans).tolist() == pytest.approx([1.4, 1.6 + 0.25, 2.75])
    # 0..1: 1.5 J; 1..1.4: mean of 2 and 3.2 W over 0.4 s.
    assert naive[0] == pytest.approx(1.5 + 2.6 * 0.4)


def fleet_ratio(virtual: ModuleType, seeds: range, gain: float = 1.0) -> float:
    """Measured over true energy of a fleet with one board per seed, 20 rounds each."""
    measured = truth = 0.0
    for seed in seeds:
        signal = virtual.rounds_of_one_device(seed, 20)
        seen = virtual.metered(signal, seed, gain=gain)
        measured += whole_run(seen.ns, seen.watts, signal.start_ns, signal.end_ns).joules
        truth += signal.true_j([(signal.start_ns, signal.end_ns)])
    return measured / truth


def test_the_uncertainty_of_a_whole_run_holds_the_truth(virtual: ModuleType) -> None:
    off = []
    for seed in range(40):
        signal = virtual.rounds_of_one_device(seed, 20)
        seen = virtual.metered(signal, seed)
        energy = whole_run(seen.ns, seen.watts, signal.start_ns, signal.end_ns)
        off.append((energy.joules - signal.true_j([(signal.start_ns, signal.end_ns)])) / energy.u_joules)
    assert np.count_nonzero(np.abs(off) <= 2.0) >= 38
    # And it is not so wide that it would hold anything.
    assert 0.3 < np.std(off) < 1.3


def test_the_whole_runs_of_a_fleet_of_10_are_within_0_3_percent_of_the_truth(virtual: ModuleType) -> None:
    for first in range(0, 40, 10):
        assert fleet_ratio(virtual, range(first, first + 10)) == pytest.approx(1.0, abs=0.003)


def test_a_gain_of_3_percent_shows_as_3_percent(virtual: ModuleType) -> None:
    assert fleet_ratio(virtual, range(10), gain=1.03) == pytest.approx(1.03, abs=0.003)


def test_a_stall_of_5_seconds_lowers_coverage_and_the_rest_still_agrees(virtual: ModuleType) -> None:
    signal = virtual.rounds_of_one_device(8, 10)
    seen = virtual.metered(signal, 8, stalls=[(100.0, 105.0)])
    curve = power_curve(seen, signal.start_ns, signal.end_ns)
    energy = curve.energy()
    assert 5.0 <= energy.gap_s <= 6.1
    assert energy.coverage < 1.0
    assert energy.joules == pytest.approx(signal.true_j(curve.covered_intervals()), rel=0.01)


def test_rounding_of_a_steady_power_does_not_average_away() -> None:
    at = np.arange(0.0, 101.0)
    steady = power_curve(PowerSamples.of(ns(*at), np.full(101, 2.0)), 0, 100 * S, delay_s=0.0, step_w=0.01)
    # 10 mW / sqrt(12) for 100 s.
    assert steady.energy().u_joules == pytest.approx(0.01 / 12.0**0.5 * 100.0)
    lively = 2.0 + 0.01 * (np.arange(101) % 20)
    moving = power_curve(PowerSamples.of(ns(*at), lively), 0, 100 * S, delay_s=0.0, step_w=0.01)
    assert moving._rounding_j == pytest.approx(0.01 / 12.0**0.5 * 100.0 / 20.0**0.5)


def test_windows_end_to_end_miss_nothing_of_the_noise() -> None:
    at = np.arange(0.0, 100.0, 0.25)
    noisy = 2.0 + 0.1 * (np.arange(len(at)) % 2)
    samples = PowerSamples.of(ns(*at), noisy)
    gappy, whole = (
        power_curve(samples, 0, 99 * S, 0.25, 0.0, window_s).energy().u_joules for window_s in (0.0, 0.25)
    )
    assert whole < 0.7 * gappy
