from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import TraceError
from roambench.contract.records import Reading, ReadingFlag
from roambench.energy.readings.samples import (
    PowerSamples,
    without_bursts,
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
