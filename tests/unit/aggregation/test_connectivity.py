from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from link_matrix import linked
from roambench.aggregation.connectivity import (
    cumulative_neighbours,
    neighbourhood_distances,
    spectral_gap,
    strong_connectivity,
)
from roambench.aggregation.mixing import (
    data_size_mixing,
    fully_connected_mixing,
    left_out,
    metropolis_hastings_mixing,
    plain_mixing,
)

NONE, LEFT, RIGHT, BOTH = linked(3), linked(3, (0, 1)), linked(3, (1, 2)), linked(3, (0, 1), (1, 2))


def test_b_is_1_where_every_step_connects_everybody():
    assert strong_connectivity([BOTH, BOTH, BOTH]) == 1


def test_b_is_the_length_of_windows_whose_links_together_connect_everybody():
    assert strong_connectivity([LEFT, RIGHT, LEFT, RIGHT]) == 2
    assert strong_connectivity([LEFT, NONE, RIGHT, RIGHT, LEFT, LEFT]) == 3


def test_windows_are_aligned_so_a_pair_across_their_border_does_not_count():
    # Steps 0-1 hold LEFT only; two steps from 1 or from 3 would do, but windows of 2 start at 0, 2, 4.
    # Of 3 steps: 0-2 and 3-5 both hold LEFT and RIGHT.
    steps = [LEFT, LEFT, RIGHT, RIGHT, LEFT, LEFT]
    assert strong_connectivity(steps) == 3
    # LEFT RIGHT | LEFT RIGHT | RIGHT LEFT: windows of 2 do.
    assert strong_connectivity([LEFT, RIGHT, LEFT, RIGHT, RIGHT, LEFT]) == 2


def test_an_incomplete_window_at_the_end_tells_nothing():
    assert strong_connectivity([LEFT, RIGHT, LEFT]) == 2
    assert strong_connectivity([LEFT, RIGHT, NONE]) == 2
    assert strong_connectivity([BOTH, NONE]) == 2


def test_a_length_that_any_window_fails_is_ruled_out():
    # Of 4 steps: 0-3 connects, 4-7 has LEFT only. Of 5: 0-4 and 5-9 both connect.
    steps = [BOTH, LEFT, LEFT, LEFT, LEFT, LEFT, LEFT, LEFT, RIGHT, LEFT]
    assert strong_connectivity(steps) == 5


def test_a_network_that_never_connects_has_no_b():
    assert strong_connectivity([LEFT, LEFT, LEFT]) is None
    assert strong_connectivity([]) is None
    assert strong_connectivity([linked(1)]) == 1


def test_one_way_links_need_a_way_back():
    there = sparse.csr_array(np.array([[0, 1], [0, 0]], np.bool_))
    assert strong_connectivity([there, there]) is None
    assert strong_connectivity([there, sparse.csr_array(there.T)]) == 2


def test_a_weight_of_0_is_no_link():
    whole = plain_mixing(linked(2, (0, 1)))
    assert strong_connectivity([whole]) == 1
    assert strong_connectivity([left_out(whole, [0], [1])]) is None


def test_the_spectral_gap_is_1_for_the_mean_of_all_and_0_for_a_network_in_parts():
    assert spectral_gap(fully_connected_mixing(5)) == pytest.approx(1.0, abs=1e-12)
    assert spectral_gap(metropolis_hastings_mixing(linked(4, (0, 1), (2, 3)))) == pytest.approx(
        0.0, abs=1e-12
    )
    assert spectral_gap(metropolis_hastings_mixing(linked(1))) == 1.0


def test_the_spectral_gap_of_a_chain_is_that_worked_out_by_hand():
    # 0 - 1 - 2: W = [[2/3, 1/3, 0], [1/3, 1/3, 1/3], [0, 1/3, 2/3]], eigenvalues 1, 2/3, 0; W is symmetric,
    # so λ2(WᵀW) = 4/9.
    assert spectral_gap(metropolis_hastings_mixing(BOTH)) == pytest.approx(5 / 9, rel=1e-12)


def test_the_spectral_gap_is_taken_of_w_transposed_times_w():
    # W = [[1/4, 3/4], [1/4, 3/4]]: WᵀW = [[2/16, 6/16], [6/16, 18/16]], eigenvalues 20/16 and 0. Its own
    # eigenvalues are 1 and 0, those of WWᵀ the same as of WᵀW.
    assert spectral_gap(data_size_mixing(linked(2, (0, 1)), [1, 3])) == pytest.approx(1.0, rel=1e-12)
    # W = [[1/2, 1/2], [0, 1]] (0 hears of 1, 1 of nobody): WᵀW has trace 3/2 and determinant 1/4:
    # λ2 = (3 - √5)/4.
    deaf = left_out(plain_mixing(linked(2, (0, 1))), [1], [0])
    assert spectral_gap(deaf) == pytest.approx(1 - (3 - math.sqrt(5)) / 4, rel=1e-12)


def test_neighbours_add_up_by_class_and_repeats_count():
    # 0 is fast. Step 0: 0-1. Step 1: 0-1, 0-2. Step 2: 1-2.
    steps = [linked(3, (0, 1)), linked(3, (0, 1), (0, 2)), linked(3, (1, 2))]
    fast = [True, False, False]
    assert cumulative_neighbours(steps, fast).tolist() == [[1.0, 0.5], [3.0, 1.5], [3.0, 2.5]]
    assert cumulative_neighbours(steps, fast, unique=True).tolist() == [[1.0, 0.5], [2.0, 1.0], [2.0, 2.0]]


def test_oneself_is_no_neighbour_and_a_class_without_devices_has_no_mean():
    figures = cumulative_neighbours([plain_mixing(BOTH)], [False] * 3)
    assert math.isnan(figures[0, 0])
    assert figures[0, 1] == pytest.approx(4 / 3)
    assert cumulative_neighbours([], [True]).shape == (0, 2)
    with pytest.raises(ValueError, match="devices: 2 have a class, 3 have neighbours"):
        cumulative_neighbours([BOTH], [True, False])


def test_a_neighbourhood_is_compared_with_the_whole_population():
    # Whole: 6 of each class. 0 reaches itself and 1: (6, 2); 1 reaches all; 2 itself and 1: (2, 6).
    counts = [[4, 0], [2, 2], [0, 4]]
    distances = neighbourhood_distances(BOTH, counts)
    np.testing.assert_allclose(distances, [math.sqrt(2) / 4, 0.0, math.sqrt(2) / 4], rtol=1e-15)
    np.testing.assert_allclose(
        neighbourhood_distances(NONE, counts), [math.sqrt(0.5), 0.0, math.sqrt(0.5)], rtol=1e-15
    )
    with pytest.raises(ValueError, match="class counts of shape"):
        neighbourhood_distances(BOTH, counts[:2])
