from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.contract.errors import TraceError
from roambench.mobility.contacts import (
    alone,
    contacts_at,
    contacts_during,
    everybody,
    neighbours_of,
    reflected_path,
    straight_path,
    trace_contacts,
    walk_contacts,
    walk_motion,
)
from roambench.mobility.contacts_motion import closest_m
from roambench.mobility.selection import window
from roambench.mobility.walks.reflected_walk import ReflectedWalkParameters, reflected_walk

BOX_M = (10.0, 10.0)


def pairs(neighbours) -> list[tuple[int, int]]:
    """The neighbours of a matrix, which must be symmetric and without loops."""
    dense = neighbours.toarray()
    assert dense.dtype == np.bool_
    assert (dense == dense.T).all()
    assert not dense.diagonal().any()
    return [(i, j) for i, j in zip(*np.nonzero(dense), strict=True) if i < j]


def reflected(positions, velocities, box=BOX_M):
    return reflected_path(np.array(positions, float), np.array(velocities, float), box)


def test_neighbours_at_a_step_are_those_at_most_the_radius_away():
    points = np.array([[1, 1], [4, 1], [1, 5], [4, 5]])
    assert pairs(contacts_at(points, 3.0)) == [(0, 1), (2, 3)]
    assert pairs(contacts_at(points, 2.999)) == []
    assert pairs(contacts_at(points, 4.0)) == [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_a_radius_that_is_no_whole_number_holds_what_is_exactly_as_far_away():
    # sqrt(13)² < 13 in float64: comparing squares would lose this neighbour.
    assert pairs(contacts_at(np.array([[1, 1], [3, 4]]), math.sqrt(13))) == [(0, 1)]


def test_devices_at_one_point_are_neighbours_at_radius_0_and_nobody_else_is():
    assert pairs(contacts_at(np.array([[2, 2], [2, 2], [2, 3]]), 0.0)) == [(0, 1)]


def test_an_infinite_radius_makes_everybody_neighbours():
    all_pairs = [(0, 1), (0, 2), (1, 2)]
    assert pairs(contacts_at(np.array([[0, 0], [1e9, 0], [0, 1e9]]), math.inf)) == all_pairs
    assert pairs(contacts_during(reflected([(1, 1)] * 3, [(0, 0)] * 3), math.inf)) == all_pairs
    assert pairs(everybody(3)) == all_pairs


def test_at_iteration_0_everybody_is_alone():
    assert alone(3).shape == (3, 3)
    assert pairs(alone(3)) == []


def test_a_contact_that_exists_only_between_two_steps_counts():
    start, end = np.array([[0, 0], [5, 3]], float), np.array([[10, 0], [5, 3]], float)
    assert pairs(contacts_at(start, 3.0)) == pairs(contacts_at(end, 3.0)) == []
    passing = straight_path(start, end)
    assert pairs(contacts_during(passing, 3.0)) == [(0, 1)]
    assert pairs(contacts_during(passing, 2.999)) == []


def test_two_that_cross_the_same_point_at_different_times_do_not_meet():
    # Paths cross at (5, 5): device 0 is there at 1/4, device 1 at 3/4; they come as near as at time 1/2,
    # when they are at (10, 5) and (5, 0).
    motion = straight_path(np.array([[0.0, 5.0], [5.0, -10.0]]), np.array([[20.0, 5.0], [5.0, 10.0]]))
    assert closest_m(motion, np.array([0]), np.array([1])) == pytest.approx([math.sqrt(50)], rel=1e-15)
    assert pairs(contacts_during(motion, 7.0)) == []


def test_a_rebound_that_comes_near_only_at_the_wall_is_a_contact():
    # From x = 4 to the wall at 2/3 and back to x = 2; the other stands 2 m from where it touches.
    motion = reflected([(4, 5), (0, 7)], [(-6, 0), (0, 0)])
    assert closest_m(motion, np.array([0]), np.array([1])).tolist() == [2.0]
    assert pairs(contacts_during(motion, 2.0)) == [(0, 1)]
    assert pairs(contacts_during(motion, 1.999)) == []


def test_a_rebound_out_of_a_corner_is_a_contact():
    # In the corner at half time, back where it came from at the end: sqrt(2) from the corner.
    motion = reflected([(1, 1), (0, 0)], [(-2, -2), (0, 0)])
    assert closest_m(motion, np.array([0]), np.array([1])).tolist() == [0.0]
    assert pairs(contacts_during(motion, 0.0)) == [(0, 1)]
    # From a place 2 m along the wall the way out and back is never nearer than where it begins and ends.
    aside = reflected([(1, 1), (2, 0)], [(-2, -2), (0, 0)])
    assert closest_m(aside, np.array([0]), np.array([1])) == pytest.approx([math.sqrt(2)], rel=1e-15)


def test_every_rebound_of_a_step_is_followed():
    # 34 m in a 10 m box: x = 1 → 0 → 10 → 0 → 10 → 7. The right wall is 3 m from the other device.
    motion = reflected([(1, 5), (10, 8)], [(-34, 0), (0, 0)])
    assert motion.pieces.tolist() == [5, 1]
    assert closest_m(motion, np.array([0]), np.array([1])) == pytest.approx([3.0], rel=1e-15)


def test_two_rebounding_devices_are_followed_together():
    # Both run at 8 m a step on one line: 0 turns at the left wall at 1/4, 1 at the right wall at 1/8. Then
    # they run towards each other from x = 1 and x = 10 (time 1/8), apart 9 until 0 turns at x = 0 (time 1/4,
    # the other at 9), and close in at 16 m a step for the last 3/4: they would meet at 13/16.
    motion = reflected([(2, 5), (9, 5)], [(-8, 0), (8, 0)])
    assert motion.at(0.25).tolist() == [[0.0, 5.0], [9.0, 5.0]]
    np.testing.assert_allclose(motion.at(13 / 16), [[4.5, 5.0], [4.5, 5.0]], rtol=1e-15)
    assert closest_m(motion, np.array([0]), np.array([1])).tolist() == [0.0]


def test_devices_that_keep_their_distance_are_compared_by_it():
    motion = straight_path(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[7.0, 2.0], [10.0, 6.0]]))
    assert closest_m(motion, np.array([0]), np.array([1])).tolist() == [5.0]


def test_a_matrix_lists_a_devices_neighbours_ascending():
    points = np.array([[5, 5], [5, 6], [9, 9], [5, 4]])
    neighbours = contacts_at(points, 1.0)
    assert neighbours_of(neighbours, 0).tolist() == [1, 3]
    assert neighbours_of(neighbours, 2).tolist() == []


crowds = st.lists(
    st.tuples(st.floats(0, 30), st.floats(0, 20), st.floats(-90, 90), st.floats(-90, 90)),
    min_size=2,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(crowd=crowds, radius_m=st.floats(0, 15))
def test_any_moment_contacts_agree_with_dense_sampling_of_time(crowd, radius_m):
    rows = np.array(crowd)
    motion = reflected_path(rows[:, :2], rows[:, 2:], (30.0, 20.0))
    found = contacts_during(motion, radius_m).toarray()
    moments = 401
    least = np.full(found.shape, np.inf)
    for time_s in np.linspace(0, 1, moments):
        points = motion.at(time_s)
        least = np.minimum(least, np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1)))
    speeds = np.hypot(rows[:, 2], rows[:, 3])
    # Between two samples a pair comes nearer by at most half a sample's way of both.
    missed = (speeds[:, None] + speeds[None]) / (moments - 1) / 2
    others = ~np.eye(len(rows), dtype=bool)
    assert found[others & (least <= radius_m - 1e-9)].all()
    assert not found[others & (least > radius_m + missed + 1e-9)].any()


@settings(max_examples=30, deadline=None)
@given(crowd=crowds, radius_m=st.floats(0, 15), data=st.data())
def test_the_order_of_the_devices_does_not_matter(crowd, radius_m, data):
    rows = np.array(crowd)
    order = data.draw(st.permutations(range(len(rows))))
    found = contacts_during(reflected_path(rows[:, :2], rows[:, 2:], (30.0, 20.0)), radius_m).toarray()
    mixed = rows[order]
    again = contacts_during(reflected_path(mixed[:, :2], mixed[:, 2:], (30.0, 20.0)), radius_m).toarray()
    assert (again == found[np.ix_(order, order)]).all()


def test_the_search_for_candidates_loses_no_pair_of_a_large_crowd():
    draw = np.random.default_rng(7)
    count, box = 300, (100.0, 60.0)
    way_m = np.where(draw.random(count) < 0.1, 150.0, 5.0)  # some bounce across the world, most hardly move
    angle = draw.uniform(0, 2 * np.pi, count)
    velocities = way_m[:, None] * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    motion = reflected_path(draw.uniform(0, 1, (count, 2)) * box, velocities, box)
    one, other = np.triu_indices(count, 1)
    meet = closest_m(motion, one, other) <= 4.0
    assert 1000 < meet.sum() < 20_000
    assert pairs(contacts_during(motion, 4.0)) == list(zip(one[meet], other[meet], strict=True))


def test_two_fast_devices_that_start_far_apart_and_end_as_near_as_the_radius_are_found():
    motion = straight_path(np.array([[0.0, 0.0], [84.0, 0.0]]), np.array([[40.0, 0.0], [44.0, 0.0]]))
    assert pairs(contacts_during(motion, 4.0)) == [(0, 1)]


def test_a_negative_radius_is_refused():
    with pytest.raises(ValueError, match=r"radius of -1\.0 m"):
        contacts_at(np.zeros((2, 2)), -1.0)
    with pytest.raises(ValueError, match="radius of nan m"):
        contacts_during(reflected([(1, 1)], [(0, 0)]), math.nan)


@pytest.fixture
def passing(make_trace):
    """0 walks past 1; 2 is there at step 1 only, near where 0 was on its way; 3 never comes."""
    fixes = [(0, 0, 0.0, 0.0), (0, 1, 5.0, 3.0), (1, 0, 10.0, 0.0), (1, 1, 5.0, 3.0), (1, 2, 5.0, 1.0)]
    return make_trace(fixes, [], devices=4, steps=3)


def test_a_replayed_step_takes_its_fixes_as_they_stand(passing):
    assert pairs(trace_contacts(passing, 0, 3.0)) == []
    assert pairs(trace_contacts(passing, 1, 3.0)) == [(1, 2)]
    assert pairs(trace_contacts(passing, 1, math.inf)) == [(0, 1), (0, 2), (1, 2)]
    assert trace_contacts(passing, 2, 3.0).shape == (4, 4)
    assert pairs(trace_contacts(passing, 2, 3.0)) == []


def test_a_replayed_step_may_count_who_was_met_on_the_way(passing):
    # Only who was present before and now has a way: 0 does not meet 2, which came from nowhere.
    assert pairs(trace_contacts(passing, 1, 3.0, "any_moment")) == [(0, 1), (1, 2)]
    assert pairs(trace_contacts(passing, 0, 6.0, "any_moment")) == [(0, 1)]


def test_a_way_begins_at_a_devices_own_last_fix_whoever_left_since(make_trace):
    fixes = [(0, 0, 90.0, 90.0), (0, 1, 0.0, 0.0), (0, 2, 5.0, 3.0), (1, 1, 10.0, 0.0), (1, 2, 5.0, 3.0)]
    trace = make_trace(fixes, [], devices=3, steps=2)
    assert pairs(trace_contacts(trace, 1, 3.0, "any_moment")) == [(1, 2)]


def test_a_step_outside_the_trace_is_refused(passing):
    with pytest.raises(TraceError, match=r"step 3 lies outside the trace's 0\.\.2"):
        trace_contacts(passing, 3, 1.0)


#: A small box with fast devices: many rebounds, some devices crossing it more than once in a step.
PARAMETERS = ReflectedWalkParameters(
    devices=20, fast_share=0.5, width_m=100.0, height_m=60.0, speed_max_m=10.0, beta=8.0, steps=30
)


@pytest.fixture(scope="module")
def trace():
    return reflected_walk(PARAMETERS, 5)


def places_m(trace, step):
    rows = trace.rows(step)
    return np.stack((trace.x_m[rows], trace.y_m[rows]), axis=1)


def test_the_motion_leads_from_each_step_of_the_trace_to_the_next(trace):
    most = 0
    for step in range(1, trace.steps):
        motion = walk_motion(trace, PARAMETERS, 5, step)
        np.testing.assert_allclose(motion.at(0.0), places_m(trace, step - 1), atol=1e-9)
        np.testing.assert_allclose(motion.at(1.0), places_m(trace, step), atol=1e-9)
        most = max(most, int(motion.pieces.max()))
    assert most >= 4


def test_at_iteration_0_only_oneself_and_later_whoever_was_met_on_the_way(trace):
    radius_m = 5.0
    assert walk_contacts(trace, PARAMETERS, 5, 0, radius_m).nnz == 0
    on_the_way = at_an_end = 0
    for step in range(1, trace.steps):
        found = walk_contacts(trace, PARAMETERS, 5, step, radius_m).toarray()
        ends = np.zeros_like(found)
        for moment in (step - 1, step):
            x_m, y_m = places_m(trace, moment).T
            ends |= np.hypot(x_m[:, None] - x_m, y_m[:, None] - y_m) <= radius_m - 1e-6
        np.fill_diagonal(ends, False)
        assert found[ends].all()
        on_the_way += int((found & ~ends).sum())
        at_an_end += int(ends.sum())
    assert on_the_way > at_an_end > 0


def test_a_step_that_nobody_walked_is_refused(trace):
    with pytest.raises(TraceError, match="step 30: a walk of 30 steps"):
        walk_motion(trace, PARAMETERS, 5, 30)
    other = ReflectedWalkParameters(devices=21)
    with pytest.raises(TraceError, match="20 of 21 walkers are present"):
        walk_motion(window(trace, 0, 2), other, 5, 1)
