from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.mobility.contacts_motion import reflected_path, straight_path

BOX_M = (10.0, 10.0)


def one(position, velocity, box=BOX_M, duration_s=1.0):
    return reflected_path(np.array([position], float), np.array([velocity], float), box, duration_s)


def test_a_device_that_meets_no_wall_moves_straight():
    motion = one((2, 3), (4, -1))
    assert motion.pieces.tolist() == [1]
    assert motion.at(0.0).tolist() == [[2.0, 3.0]]
    assert motion.at(0.5).tolist() == [[4.0, 2.5]]
    assert motion.at(1.0).tolist() == [[6.0, 2.0]]


def test_a_wall_turns_the_velocity_across_it_at_the_moment_it_is_reached():
    motion = one((9, 5), (4, 2))
    assert motion.pieces.tolist() == [2]
    assert motion.start_s.tolist() == [[0.0, 0.25]]
    assert motion.start_m.tolist() == [[[9.0, 5.0], [10.0, 5.5]]]
    assert motion.velocity_m_s.tolist() == [[[4.0, 2.0], [-4.0, 2.0]]]
    assert motion.at(1.0).tolist() == [[7.0, 7.0]]


def test_a_corner_turns_both_components_and_sends_a_device_back_the_way_it_came():
    motion = one((1, 1), (-2, -2))
    assert motion.at(0.5).tolist() == [[0.0, 0.0]]
    assert motion.at(0.75).tolist() == [[0.5, 0.5]]
    assert motion.at(1.0).tolist() == [[1.0, 1.0]]
    far = one((8, 9), (4, 2))  # the other corner, at half time
    assert far.at(0.5).tolist() == [[10.0, 10.0]]
    assert far.at(1.0).tolist() == [[8.0, 9.0]]


def test_a_fast_device_rebounds_as_often_as_the_step_lasts():
    motion = one((9, 5), (25, 0))  # walls after 1, 11 and 21 m of 25
    assert motion.pieces.tolist() == [4]
    np.testing.assert_allclose(motion.start_s, [[0.0, 0.04, 0.44, 0.84]], rtol=1e-15)
    assert motion.start_m[0, 1:, 0].tolist() == [10.0, 0.0, 10.0]
    np.testing.assert_allclose(motion.at(1.0), [[6.0, 5.0]], rtol=1e-14)


def test_each_axis_has_its_own_walls_and_times():
    motion = one((1, 1), (-3, -2), box=(10.0, 4.0), duration_s=2.0)
    np.testing.assert_allclose(motion.start_s, [[0.0, 1 / 3, 0.5]], rtol=1e-15)
    np.testing.assert_allclose(motion.at(2.0), [[5.0, 3.0]], rtol=1e-14)


def test_a_device_that_starts_on_a_wall_and_heads_out_turns_at_once():
    assert one((10, 5), (3, 0)).at(1.0).tolist() == [[7.0, 5.0]]
    assert one((0, 0), (-3, -1)).at(1.0).tolist() == [[3.0, 1.0]]


def test_a_wall_reached_at_the_very_end_turns_nobody_in_this_step():
    motion = one((7, 5), (3, 0))
    assert motion.pieces.tolist() == [1]
    assert motion.at(1.0).tolist() == [[10.0, 5.0]]


def test_devices_with_fewer_pieces_stand_still_after_the_end_only():
    motion = reflected_path(np.array([[9.0, 5.0], [1.0, 1.0]]), np.array([[25.0, 0.0], [1.0, 2.0]]), BOX_M)
    assert motion.pieces.tolist() == [4, 1]
    assert motion.start_m[1, 1:].tolist() == [[2.0, 3.0]] * 3
    assert motion.velocity_m_s[1].tolist() == [[1.0, 2.0]] + [[0.0, 0.0]] * 3
    assert motion.at(0.5)[1].tolist() == [1.5, 2.0]
    assert motion.at(1.0)[1].tolist() == [2.0, 3.0]


def test_the_extent_holds_the_turning_points():
    low_m, high_m = one((9, 5), (4, 2)).extent_m()
    assert (low_m.tolist(), high_m.tolist()) == ([[7.0, 5.0]], [[10.0, 7.0]])


def test_a_straight_path_takes_the_whole_duration():
    motion = straight_path(np.array([[0.0, 0.0]]), np.array([[6.0, -3.0]]), 3.0)
    assert motion.at(1.0).tolist() == [[2.0, -1.0]]
    assert motion.at(3.0).tolist() == [[6.0, -3.0]]


@settings(max_examples=60, deadline=None)
@given(
    start=st.tuples(st.floats(0, 7), st.floats(0, 3)),
    velocity=st.tuples(st.floats(-40, 40), st.floats(-40, 40)),
    share=st.floats(0, 1),
)
def test_the_reflected_path_is_the_straight_one_folded_into_the_box(start, velocity, share):
    motion = one(start, velocity, box=(7.0, 3.0), duration_s=2.0)
    time_s = 2.0 * share
    for axis, side_m in enumerate((7.0, 3.0)):
        unfolded = (start[axis] + velocity[axis] * time_s) % (2 * side_m)
        assert motion.at(time_s)[0, axis] == pytest.approx(min(unfolded, 2 * side_m - unfolded), abs=1e-12)


@pytest.mark.parametrize(
    ("position", "velocity", "box", "duration_s", "message"),
    [
        ((11, 5), (0, 0), BOX_M, 1.0, r"device 0 starts at \(11.0, 5.0\) m, outside the box"),
        ((1, 5), (float("nan"), 0), BOX_M, 1.0, "velocity holds NaN"),
        ((1, 5), (0, 0), (10.0, 0.0), 1.0, "width and a height of more than 0"),
        ((1, 5), (0, 0), BOX_M, 0.0, "expected more than 0 s"),
        ((1, 5), (1e6, 0), BOX_M, 1.0, "check speeds and units"),
    ],
)
def test_a_motion_that_cannot_be_is_refused(position, velocity, box, duration_s, message):
    with pytest.raises(ValueError, match=message):
        one(position, velocity, box, duration_s)


def test_a_time_outside_the_step_is_refused():
    with pytest.raises(ValueError, match="outside the motion's"):
        one((1, 5), (1, 0)).at(1.01)
