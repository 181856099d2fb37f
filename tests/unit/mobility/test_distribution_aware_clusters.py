from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.distribution_aware import Mover, cluster_centres, dcm_field, grid_points, move

#: With R_c = 1 the seven points of this row have 3, 3, 2, 1, 2, 1, 1 static devices near them.
ROW = np.array([[1, place] for place in range(1, 8)])
STATIC = np.array([[1, 1], [1, 1], [1, 2], [1, 4], [1, 6]])


def test_centres_cover_greedily_until_every_static_device_is_near_one():
    # (1, 1) and (1, 2) cover three devices; of the two that are left (1, 5) covers both, (1, 3) one.
    for seed in range(30):
        centres = cluster_centres(ROW, STATIC, 1.0, seed)
        assert centres[0] in (0, 1)
        assert centres[1:].tolist() == [4]


def test_the_journals_rule_draws_among_all_that_cover_most():
    first = [int(cluster_centres(ROW, STATIC, 1.0, seed)[0]) for seed in range(400)]
    assert abs(first.count(0) - 200) <= 5 * math.sqrt(100)


def test_for_the_first_centre_the_workshops_rule_is_the_journals():
    first = [int(cluster_centres(ROW, STATIC, 1.0, seed, "most_static")[0]) for seed in range(100)]
    assert set(first) == {0, 1}


def test_the_workshops_rule_prefers_points_with_most_static_devices_in_all():
    # The first centre is (1, 2) or (1, 3), which cover four devices. The last, at (1, 5), is near (1, 4),
    # (1, 5) and (1, 6); of these only (1, 4) has a second device in reach, the covered one at (1, 3).
    static = np.array([[1, 2], [1, 2], [1, 2], [1, 3], [1, 5]])
    workshop = [cluster_centres(ROW, static, 1.0, seed, "most_static").tolist() for seed in range(300)]
    journal = [cluster_centres(ROW, static, 1.0, seed, "random").tolist() for seed in range(300)]
    assert {tuple(centres) for centres in workshop} == {(1, 3), (2, 3)}
    assert {tuple(centres) for centres in journal} == {(a, b) for a in (1, 2) for b in (3, 4, 5)}
    assert abs(sum(centres[1] == 3 for centres in journal) - 100) <= 5 * math.sqrt(300 * 2 / 9)


def test_what_is_still_tied_under_the_workshops_rule_is_drawn():
    # The last device, at (1, 5), is near (1, 4), (1, 5) and (1, 6), and all three have no other.
    static = np.array([[1, 1], [1, 1], [1, 5]])
    seconds = [int(cluster_centres(ROW, static, 1.0, seed, "most_static")[1]) for seed in range(300)]
    assert set(seconds) == {3, 4, 5}
    assert all(abs(seconds.count(point) - 100) <= 5 * math.sqrt(300 * 2 / 9) for point in (3, 4, 5))


def test_each_choice_has_a_draw_of_its_own():
    static = np.array([[1, 1], [1, 4], [1, 7]])  # R_c = 0: three points in any order
    orders = {tuple(cluster_centres(ROW, static, 0.0, seed).tolist()) for seed in range(200)}
    assert orders == {(0, 3, 6), (0, 6, 3), (3, 0, 6), (3, 6, 0), (6, 0, 3), (6, 3, 0)}
    assert cluster_centres(ROW, static, 0.0, 4).tolist() == cluster_centres(ROW, static, 0.0, 4).tolist()


def test_an_infinite_r_c_needs_one_centre():
    assert len(cluster_centres(grid_points(18), STATIC, math.inf, 1)) == 1


def test_centres_cover_everybody_on_the_papers_grid():
    draw = np.random.default_rng(2)
    for seed in range(20):
        static = draw.integers(1, 19, (15, 2))
        points = grid_points(18)
        for ties in ("random", "most_static"):
            centres = points[cluster_centres(points, static, 3.0, seed, ties)]
            apart = np.hypot(*(centres[:, None] - static[None]).transpose(2, 0, 1))
            assert (apart.min(axis=0) <= 3.0).all()
            assert len(np.unique(centres, axis=0)) == len(centres) <= 15


def test_dcm_moves_between_cluster_centres_only_and_knows_the_data_around_them():
    counts = np.array([[5, 0], [5, 0], [5, 0], [0, 5], [0, 5]])
    field = dcm_field(ROW, STATIC, counts, 1.0, 3)
    assert field.candidates.tolist() in ([0, 4], [1, 4])
    assert field.static_counts[4].tolist() == [0, 10]
    mover = Mover(0, 6, 6)
    visited = []
    for step in range(6):
        mover = move(field, mover, np.array([1, 1]), math.inf, 3, step)
        visited.append(mover.point)
    # The centre a mover stands on has distance 0, so with two of them it goes to and fro.
    first, second = visited[:2]
    assert {first, second} == set(field.candidates.tolist())
    assert visited == [first, second] * 3


def test_dcm_needs_a_static_device_and_a_point_near_each():
    with pytest.raises(ConfigError, match="no static device"):
        dcm_field(ROW, np.empty((0, 2), np.int64), np.empty((0, 2), np.int64), 1.0, 1)
    with pytest.raises(ConfigError, match=r"no point is within R_c = 1\.0 of static device 1"):
        cluster_centres(ROW, np.array([[1, 1], [9, 9]]), 1.0, 1)
    with pytest.raises(ConfigError, match="expected one of most_static, random"):
        cluster_centres(ROW, STATIC, 1.0, 1, "lowest")  # type: ignore[arg-type]
