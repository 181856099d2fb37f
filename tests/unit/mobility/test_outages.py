from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import TraceError
from roambench.mobility.files import read_trace, write_trace
from roambench.mobility.outages import empty_runs, marked_outages, outage_runs, with_outages
from roambench.mobility.selection import repeated, window

DAY = [1] * 12 + [9] * 12  # quiet until noon, 9 devices in every hour after it


def counts(**holes: int) -> np.ndarray:
    """Three days of `DAY` with holes: h30=2 is hours 30 and 31 without a device."""
    present = np.array(DAY * 3)
    for name, length in holes.items():
        present[int(name[1:]) : int(name[1:]) + length] = 0
    return present


def test_runs_of_empty_steps_are_told_by_first_and_length():
    assert empty_runs(np.array([0, 0, 3, 0, 1, 0])) == ((0, 2), (3, 1), (5, 1))
    assert empty_runs(np.array([2, 2])) == ()


def test_a_single_empty_step_is_an_outage_only_in_an_hour_that_is_busy():
    # hour 6 has a mean of (1 + 1) / 2 devices where any was seen, hour 18 one of (9 + 9) / 2
    assert outage_runs(counts(h30=1), 3600.0) == ()
    assert outage_runs(counts(h42=1), 3600.0) == ((42, 1),)


def test_holes_do_not_hide_holes():
    # Of three days two miss hour 18: its mean is that of the third day, 9, and not 9 / 3.
    assert outage_runs(counts(h42=1, h66=1), 3600.0) == ((42, 1), (66, 1))
    # All three do: none was ever seen then, so nothing says that any was to be expected.
    assert outage_runs(counts(h18=1, h42=1, h66=1), 3600.0) == ()


def test_many_quiet_hours_in_a_row_are_a_hole_and_few_are_none():
    # Of three days at 1 device an hour: by chance none comes in two hours once in seven nights.
    assert outage_runs(counts(h29=2), 3600.0) == ()
    assert outage_runs(counts(h25=9), 3600.0) == ((25, 9),)


def test_hours_are_those_of_the_clock_not_of_the_window():
    # The window opens at noon: its hour 30 is 18 h, with a mean of 1; nothing else changes.
    assert outage_runs(counts(h30=1), 3600.0, 12 * 3600) == ()
    # Steps of half an hour, two a clock hour: of 12 h only step 25 is left, whose count is the hour's mean.
    halves = np.repeat(np.array(DAY), 2)
    halves[24], halves[25] = 0, 3
    assert outage_runs(halves, 1800.0) == ()
    halves[25] = 6
    assert outage_runs(halves, 1800.0) == ((24, 1),)


@pytest.fixture
def holed(make_trace):
    """Steps 0 and 4 have a device, 1 to 3 are a hole."""
    return make_trace([(0, 0, 1.0, 1.0), (4, 1, 2.0, 2.0)], [(0.0, 0.0)], devices=2, steps=6)


def test_keep_changes_nothing(holed):
    assert with_outages(holed, ((1, 3),), "keep") is holed


def test_drop_moves_the_later_steps_up(holed):
    dropped = with_outages(holed, ((1, 3),), "drop")
    assert (dropped.steps, dropped.step.tolist(), dropped.x_m.tolist()) == (3, [0, 1], [1.0, 2.0])
    assert dropped.provenance["dropped_outages"] == [[1, 3]]
    with pytest.raises(TraceError, match="every step is an outage"):
        with_outages(holed, ((0, 6),), "drop")


def test_marks_follow_a_window_a_repetition_and_a_file(holed, tmp_path):
    marked = with_outages(holed, ((1, 3), (5, 1)), "mark")
    assert marked.steps == 6
    assert marked_outages(marked) == ((1, 3), (5, 1))
    assert marked_outages(window(marked, 2, 4)) == ((0, 2), (3, 1))
    assert marked_outages(repeated(marked, 2)) == ((1, 3), (5, 1), (7, 3), (11, 1))
    write_trace(marked, tmp_path / "t.parquet")
    assert marked_outages(read_trace(tmp_path / "t.parquet")) == ((1, 3), (5, 1))
    assert marked_outages(holed) == ()


@pytest.mark.parametrize("nonsense", [7, "ab", [[1]], [["a", 2]], [[-1, 2]], [[1, 0]]])
def test_marks_that_make_no_sense_are_no_marks(holed, nonsense):
    object.__setattr__(holed, "provenance", {"outages": nonsense})
    assert marked_outages(holed) == ()
