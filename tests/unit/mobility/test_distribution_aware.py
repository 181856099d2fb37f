from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.distribution_aware import (
    Field,
    Mover,
    class_distributions,
    dam_field,
    destination_probabilities,
    distribution_distances,
    grid_points,
    move,
    next_destination,
    static_counts,
    step_towards,
)

#: Two classes, R_c = 1, a row of five points; static devices at the first, the third (two) and the fifth.
ROW = np.array([[1, 1], [1, 2], [1, 3], [1, 4], [1, 5]])
STATIC = np.array([[1, 1], [1, 3], [1, 3], [1, 5]])
COUNTS = np.array([[6, 0], [1, 1], [0, 2], [0, 6]])
OWN = np.array([2, 2])
FIELD = dam_field(ROW, STATIC, COUNTS, 1.0)


def test_the_grid_is_numbered_from_1_row_by_row():
    assert grid_points(2).tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert len(grid_points(18)) == 324
    with pytest.raises(ConfigError, match="grid of 0 x 0"):
        grid_points(0)


def test_the_samples_around_a_point_are_those_of_static_devices_within_r_c():
    assert FIELD.static_counts.tolist() == [[6, 0], [7, 3], [1, 3], [1, 9], [0, 6]]
    everywhere = static_counts(ROW, STATIC, COUNTS, math.inf)
    assert everywhere.tolist() == [[7, 9]] * 5
    diagonal = static_counts(np.array([[1, 1]]), np.array([[3, 4]]), np.array([[5, 7]]), math.sqrt(13))
    assert diagonal.tolist() == [[5, 7]]  # exactly R_c away


def test_the_distribution_at_a_point_has_the_mover_itself_in_it():
    # Eq. 4: (6+2, 0+2)/10, (7+2, 3+2)/14, (1+2, 3+2)/8, (1+2, 9+2)/14, (0+2, 6+2)/10.
    expected = [[0.8, 0.2], [9 / 14, 5 / 14], [3 / 8, 5 / 8], [3 / 14, 11 / 14], [0.2, 0.8]]
    np.testing.assert_allclose(class_distributions(FIELD.static_counts, OWN), expected, rtol=1e-15)
    assert class_distributions(np.zeros((1, 2)), np.zeros(2)).tolist() == [[0.0, 0.0]]


def test_the_distribution_distance_is_euclidean_over_the_classes():
    distributions = class_distributions(FIELD.static_counts, OWN)
    # Eq. 5 from the first point: √2 times the difference in one class.
    expected = math.sqrt(2) * np.array([0, 0.8 - 9 / 14, 0.8 - 3 / 8, 0.8 - 3 / 14, 0.6])
    np.testing.assert_allclose(distribution_distances(distributions, distributions[0]), expected, rtol=1e-14)
    three = distribution_distances(np.array([[0.5, 0.5, 0.0]]), np.array([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(three, [math.sqrt(0.09 + 0.04 + 0.25)], rtol=1e-15)


def test_a_destination_is_as_probable_as_it_is_distant_in_distribution():
    assert destination_probabilities(np.array([0.0, 0.75, 0.25]) / 2).tolist() == [0.0, 0.75, 0.25]
    assert destination_probabilities(np.zeros(4)).tolist() == [0.25] * 4


def test_destinations_are_drawn_with_the_probabilities_of_eq_6():
    draws = 2000
    drawn = [next_destination(FIELD, Mover(0, 0, 0), OWN, 11, step) for step in range(draws)]
    differences = np.array([0, 0.8 - 9 / 14, 0.8 - 3 / 8, 0.8 - 3 / 14, 0.6])
    chances = differences / differences.sum()
    counts = np.bincount(drawn, minlength=5)
    assert counts[0] == 0
    # Five standard deviations of a binomial.
    assert (np.abs(counts - draws * chances) <= 5 * np.sqrt(draws * chances * (1 - chances))).all()


def test_a_movers_own_samples_count_at_every_point():
    # A little and a lot of class 0 lie around points 0 and 1, nothing around point 2, where the mover stands.
    field = Field(ROW[:3], np.array([[1, 0], [1000, 0], [0, 0]]), np.array([0, 1]))
    draws = 500
    drawn = [next_destination(field, Mover(0, 2, 2), np.array([0, 10]), 7, step) for step in range(draws)]
    # With its ten samples of class 1: (1, 10) / 11 and (1000, 10) / 1010; without they were equally unlike.
    chance = (1 / 11) / (1 / 11 + 1000 / 1010)
    assert abs(drawn.count(0) - draws * chance) <= 5 * math.sqrt(draws * chance * (1 - chance))


def test_where_all_distances_are_0_any_candidate_may_be_drawn():
    # No device within R_c of any point: the mover's own distribution everywhere.
    field = dam_field(ROW, np.array([[9, 9]]), np.array([[5, 5]]), 1.0)
    draws = 1000
    counts = np.bincount(
        [next_destination(field, Mover(0, 2, 2), OWN, 3, step) for step in range(draws)], minlength=5
    )
    assert (np.abs(counts - 200) <= 5 * math.sqrt(draws * 0.2 * 0.8)).all()


def test_probabilities_are_normalised_over_the_candidates():
    # DCM: only the points 1 and 4 are candidates, the mover stands on point 0 which is none.
    field = Field(ROW, FIELD.static_counts, np.array([1, 4]))
    draws = 2000
    drawn = [next_destination(field, Mover(0, 0, 0), OWN, 5, step) for step in range(draws)]
    assert set(drawn) == {1, 4}
    first, second = 0.8 - 9 / 14, 0.6
    chance = first / (first + second)
    assert abs(drawn.count(1) - draws * chance) <= 5 * math.sqrt(draws * chance * (1 - chance))


def test_a_destination_within_r_m_is_reached_at_once_exactly_r_m_included():
    field = dam_field(grid_points(9), np.empty((0, 2), np.int64), np.empty((0, 2), np.int64), 1.0)
    here, there = 0, 8 * 9 + 6  # (1, 1) and (9, 7): √(64 + 36) = 10 away
    assert step_towards(field, Mover(0, here, there), there, 10.0, 1, 0) == there
    assert step_towards(field, Mover(0, here, there), there, math.inf, 1, 0) == there
    nearer = step_towards(field, Mover(0, here, there), there, 9.99, 1, 0)
    assert nearer != there
    # A step of exactly √13 may be taken: (1, 1) to (3, 4).
    assert step_towards(field, Mover(0, 0, 0), 2 * 9 + 3, math.sqrt(13), 1, 0) == 2 * 9 + 3


def test_a_destination_out_of_reach_is_approached_as_near_as_r_m_allows():
    field = dam_field(grid_points(9), np.empty((0, 2), np.int64), np.empty((0, 2), np.int64), 1.0)
    # From (1, 1) to (9, 1) with R_m = 3: (4, 1).
    assert field.points[step_towards(field, Mover(0, 0, 0), 8 * 9, 3.0, 1, 0)].tolist() == [4, 1]
    # From (1, 1) to (9, 9) with R_m = 3: (3, 3) is √8 away, (3, 4) too far: √13.
    assert field.points[step_towards(field, Mover(0, 0, 0), 80, 3.0, 1, 0)].tolist() == [3, 3]
    # R_m below 1: there is nowhere to go.
    assert step_towards(field, Mover(0, 0, 0), 80, 0.9, 1, 0) == 0


def test_equally_near_points_are_drawn_evenly_and_keyed_by_device_and_step():
    field = dam_field(grid_points(9), np.empty((0, 2), np.int64), np.empty((0, 2), np.int64), 1.0)
    # From (1, 1) to (9, 9) with R_m = 1: (1, 2) and (2, 1) are equally near.
    reached = [step_towards(field, Mover(4, 0, 80), 80, 1.0, 2, step) for step in range(400)]
    assert set(reached) == {1, 9}
    assert abs(reached.count(1) - 200) <= 5 * math.sqrt(100)
    again = [step_towards(field, Mover(4, 0, 80), 80, 1.0, 2, step) for step in range(400)]
    assert again == reached
    assert [step_towards(field, Mover(5, 0, 80), 80, 1.0, 2, step) for step in range(400)] != reached
    assert [step_towards(field, Mover(4, 0, 80), 80, 1.0, 3, step) for step in range(400)] != reached


def test_a_destination_is_kept_until_it_is_reached_and_then_drawn_anew():
    mover = Mover(0, 0, 4)  # bound for (1, 5)
    way = []
    for step in range(3):
        mover = move(FIELD, mover, OWN, 2.0, 7, step)
        way.append((mover.point, mover.destination))
    assert way[:2] == [(2, 4), (4, 4)]
    # On arrival a new destination is drawn; from point 4 every other point is distant, itself is not.
    assert way[2][1] == next_destination(FIELD, Mover(0, 4, 4), OWN, 7, 2) != 4


def test_without_a_limit_every_move_reaches_its_destination():
    mover = Mover(3, 2, 2)
    for step in range(50):
        before = mover
        mover = move(FIELD, mover, OWN, math.inf, 7, step)
        assert mover.point == mover.destination == next_destination(FIELD, before, OWN, 7, step)
        assert mover.point != before.point


def test_devices_may_be_moved_in_any_order():
    one, other = Mover(0, 0, 0), Mover(1, 0, 0)
    first = [move(FIELD, mover, OWN, 5.0, 1, step) for mover in (one, other) for step in range(20)]
    second = [move(FIELD, mover, OWN, 5.0, 1, step) for mover in (other, one) for step in range(20)]
    assert first == second[20:] + second[:20]
    assert [mover.point for mover in first[:20]] != [mover.point for mover in first[20:]]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"R_m = -1\.0"):
        move(FIELD, Mover(0, 0, 0), OWN, -1.0, 1, 0)
    with pytest.raises(ValueError, match="4 static devices, class counts of shape"):
        static_counts(ROW, STATIC, COUNTS[:2], 1.0)
    with pytest.raises(ConfigError, match="no static device"):
        Field(ROW, FIELD.static_counts, np.empty(0, np.intp))
