from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import TraceError
from roambench.contract.records import Reading, ReadingFlag
from roambench.energy.readings.samples import (
    PowerSamples,
    in_means,
    split_looks,
    without_bursts,
    without_repeats,
)

S = 10**9


def samples(at_s: list[float], watts: list[float]) -> PowerSamples:
    return PowerSamples.of(np.rint(np.array(at_s) * 1e9).astype(np.int64), watts)


def test_columns_are_sorted_and_repeats_and_nan_are_dropped() -> None:
    made = PowerSamples.of([30, 10, 20, 20, 40], [3.0, 1.0, 2.0, 2.5, math.nan])
    assert made.ns.tolist() == [10, 20, 30]
    assert made.watts.tolist() == [1.0, 2.0, 3.0]


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(TraceError, match="stamps but"):
        PowerSamples.of([1, 2], [1.0])


def test_inconsistent_lines_and_an_output_that_is_off_are_not_power() -> None:
    readings = [
        Reading(1, 5.1, 0.4, 2.0),
        Reading(2, 5.1, 0.4, 99.0, flags=ReadingFlag.INCONSISTENT),
        Reading(3, 0.0, 0.0, 0.0, flags=ReadingFlag.OFF),
        Reading(4, 4.7, 0.4, 1.9, flags=ReadingFlag.UNDERVOLTAGE),
    ]
    assert PowerSamples.from_readings(readings).watts.tolist() == [2.0, 1.9]


def test_a_host_that_stalled_gets_its_waiting_lines_back_where_they_were_due() -> None:
    # Due at 3, 4 and 5; the host slept from 2.5 to 5.3.
    repaired = without_bursts(samples([1, 2, 5.3, 5.302, 5.304, 6, 7], [2.0, 2.1, 5.0, 5.1, 5.2, 5.0, 2.0]))
    assert repaired.samples.ns.tolist() == [10**9 * s for s in (1, 2, 3, 4, 5, 6, 7)]
    assert repaired.samples.watts.tolist() == [2.0, 2.1, 5.0, 5.1, 5.2, 5.0, 2.0]
    assert (repaired.respaced, repaired.dropped) == (3, 0)


def test_a_meter_that_catches_up_repeats_one_value_which_counts_once() -> None:
    # The timer fires three times at 5.3 s; all lines hold what the chip says at 5.3 s.
    repaired = without_bursts(samples([1, 2, 5.3, 5.302, 5.304, 6, 7], [2.0, 2.0, 5.0, 5.0, 5.0, 5.1, 2.0]))
    assert repaired.samples.ns.tolist() == [1_000_000_000, 2_000_000_000, 5_304_000_000, 6 * 10**9, 7 * 10**9]
    assert (repaired.respaced, repaired.dropped) == (0, 2)


def test_a_burst_of_different_lines_whose_count_does_not_fit_the_elapsed_time_is_left_as_it_is() -> None:
    """Lines were lost, or these were late for another reason: each is a reading of its own all the same."""
    seen = samples([1, 2, 9.3, 9.302, 10], [2.0, 2.1, 5.0, 5.1, 5.2])
    repaired = without_bursts(seen)
    assert repaired.samples.ns.tolist() == seen.ns.tolist()
    assert repaired.samples.watts.tolist() == [2.0, 2.1, 5.0, 5.1, 5.2]
    assert (repaired.respaced, repaired.dropped) == (0, 0)


def test_lines_on_time_are_left_alone() -> None:
    regular = samples([0.0, 1.05, 1.95, 3.0], [1.0, 2.0, 3.0, 4.0])
    assert without_bursts(regular).samples is regular


def test_a_burst_at_the_very_beginning_has_no_anchor_and_is_left_as_it_is() -> None:
    repaired = without_bursts(samples([5.3, 5.302, 6], [5.0, 5.1, 5.2]))
    assert repaired.samples.watts.tolist() == [5.0, 5.1, 5.2]
    assert repaired.samples.ns.tolist() == [5_300_000_000, 5_302_000_000, 6 * S]


def test_a_value_shown_three_times_by_a_meter_read_too_often_counts_once() -> None:
    # 100 ms lines, a new value every 264 ms: each is shown two or three times.
    at = np.arange(0, 20) * S // 10
    watts = 2.0 + 0.1 * (np.arange(20) * 0.1 // 0.2638)
    found = without_repeats(PowerSamples.of(at, watts), 0.1, 0.2638)
    assert found.fresh
    assert len(found.samples) == 8
    assert found.samples.ns.tolist() == [at[k] for k in (0, 3, 6, 8, 11, 14, 16, 19)]


def test_steady_power_is_counted_once_per_window_not_once_for_all_time() -> None:
    at = np.arange(0, 101) * S // 10
    found = without_repeats(PowerSamples.of(at, np.full(101, 2.0)), 0.1, 0.2638)
    # 10 s hold 37 whole windows of 263.8 ms behind the first.
    assert len(found.samples) == 38
    assert np.diff(found.samples.ns) == pytest.approx(0.2638e9, abs=1)


def test_a_pause_begins_a_stretch_anew() -> None:
    at = np.array([0, 100, 200, 900, 1000]) * S // 1000
    found = without_repeats(PowerSamples.of(at, np.full(5, 2.0)), 0.1, 0.2638)
    assert found.samples.ns.tolist() == [0, 900 * S // 1000]


def test_a_meter_slower_than_its_window_has_no_repeats_to_drop() -> None:
    samples = PowerSamples.of(np.arange(5) * S, np.full(5, 2.0))
    found = without_repeats(samples, 1.0, 0.2638)
    assert not found.fresh
    assert found.samples is samples


def test_no_lines_have_no_means() -> None:
    assert len(in_means(PowerSamples.of([], []), 20, 0.005)) == 0


def test_lines_of_5_ms_are_taken_in_means_of_100_ms_that_pass_over_pauses() -> None:
    at_ns = np.arange(1, 101) * 5_000_000
    at_ns[70:] += 40_000_000  # no line for 45 ms: ten lines before it fill no mean
    looks, period_s, window_s = split_looks(PowerSamples.of(at_ns, np.arange(100.0)), 0.005, 0.009)
    means = looks.samples
    assert (period_s, window_s) == pytest.approx((0.1, 0.104))
    assert means.watts.tolist() == [9.5, 29.5, 49.5, 79.5]
    assert means.ns.tolist() == [100_000_000, 200_000_000, 300_000_000, 490_000_000]


def test_lines_that_were_lost_leave_no_mean_that_is_longer_than_the_others() -> None:
    kept = np.delete(np.arange(1, 61), [3, 6, 9, 12, 15, 18])  # every third of the first: 130 ms for 20 lines
    means = in_means(PowerSamples.of(kept * 5_000_000, kept * 1.0), 20, 0.005)
    assert means.ns.tolist() == [230_000_000]


@pytest.mark.parametrize("nominal_s", [0.1, 0.25, 1.0])
def test_meters_that_print_ten_times_a_second_or_less_keep_their_lines(nominal_s: float) -> None:
    made = PowerSamples.of([0, S, 2 * S], [1.0, 2.0, 3.0])
    looks, period_s, window_s = split_looks(made, nominal_s, 0.2638)
    assert set(looks.samples.watts.tolist()) == {1.0, 2.0, 3.0}
    assert (period_s, window_s) == (nominal_s, 0.2638)
