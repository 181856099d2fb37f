from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from link_matrix import linked
from roambench.aggregation.mixing import (
    MIXINGS,
    NegativeWeightWarning,
    data_size_mixing,
    fully_connected_mixing,
    left_out,
    metropolis_hastings_mixing,
    mixing_matrix,
    mixing_row,
    mobility_aware_mixing,
    plain_mixing,
)
from roambench.contract.errors import ConfigError

#: 0 - 1 - 2, and 3 by itself.
CHAIN = linked(4, (0, 1), (1, 2))


def test_plain_averaging_counts_oneself_among_the_n():
    expected = [[1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 2, 1 / 2, 0], [0, 0, 0, 1]]
    mixing = plain_mixing(CHAIN)
    assert mixing.dtype == np.float64
    assert mixing.toarray().tolist() == expected


def test_naive_mobility_aware_weights_are_the_shares_of_the_speeds():
    mixing = mobility_aware_mixing(CHAIN, [1.0, 2.0, 5.0, 7.0], 1.0)
    expected = [[1 / 3, 2 / 3, 0, 0], [1 / 8, 2 / 8, 5 / 8, 0], [0, 2 / 7, 5 / 7, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(mixing.toarray(), expected, rtol=1e-15)


def test_alpha_lies_between_plain_and_naive_weights():
    mixing = mobility_aware_mixing(CHAIN, [1.0, 2.0, 5.0, 7.0], 0.4)
    # Row 1: 1/3 + 0.4 (s_j/8 - 1/3) = 0.2 + 0.05 s_j.
    np.testing.assert_allclose(mixing.toarray()[1], [0.25, 0.30, 0.45, 0.0], rtol=1e-15)
    plain = mobility_aware_mixing(CHAIN, [1.0, 2.0, 5.0, 7.0], 0.0)
    assert plain.toarray().tolist() == plain_mixing(CHAIN).toarray().tolist()


def test_where_nobody_moves_speeds_give_plain_weights():
    mixing = mobility_aware_mixing(CHAIN, [0.0, 0.0, 3.0, 0.0], 1.0)
    assert mixing.toarray().tolist() == [[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_above_alpha_1_weights_go_negative_and_a_warning_tells_so():
    with pytest.warns(NegativeWeightWarning, match=r"alpha = 2\.0: above 1 .* negative weights"):
        mixing = mobility_aware_mixing(CHAIN, [1.0, 2.0, 5.0, 7.0], 2.0)
    # Row 1: 2 s_j/8 - 1/3.
    np.testing.assert_allclose(mixing.toarray()[1], [-1 / 12, 2 / 12, 11 / 12, 0.0], rtol=1e-14)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        mobility_aware_mixing(CHAIN, [1.0, 2.0, 5.0, 7.0], 1.0)
    assert heard == []
    with pytest.warns(NegativeWeightWarning):
        mobility_aware_mixing(CHAIN, [1.0, 2.0, 5.0, 7.0], 1.0001)


def test_data_size_weights_are_shares_of_the_samples_of_a_neighbourhood():
    mixing = data_size_mixing(CHAIN, [100, 300, 600, 50])
    expected = [[1 / 4, 3 / 4, 0, 0], [0.1, 0.3, 0.6, 0], [0, 1 / 3, 2 / 3, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(mixing.toarray(), expected, rtol=1e-15)


def test_a_neighbourhood_without_samples_is_averaged_plainly():
    mixing = data_size_mixing(CHAIN, [0, 0, 4, 0]).toarray()
    assert mixing.tolist() == [[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_metropolis_hastings_takes_the_larger_degree_and_leaves_oneself_the_rest():
    # A star of 0 with 1, 2, 3 and a link 1 - 2: degrees 3, 2, 2, 1.
    mixing = metropolis_hastings_mixing(linked(5, (0, 1), (0, 2), (0, 3), (1, 2)))
    expected = [
        [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0],
        [1 / 4, 5 / 12, 1 / 3, 0, 0],
        [1 / 4, 1 / 3, 5 / 12, 0, 0],
        [1 / 4, 0, 0, 3 / 4, 0],
        [0, 0, 0, 0, 1],
    ]
    np.testing.assert_allclose(mixing.toarray(), expected, rtol=1e-15)


def test_metropolis_hastings_refuses_one_way_links():
    one_way = sparse.csr_array(np.array([[False, True], [False, False]]))
    with pytest.raises(ValueError, match="symmetric"):
        metropolis_hastings_mixing(one_way)


def test_fully_connected_every_rule_but_that_by_speed_or_data_is_the_plain_mean():
    everybody = linked(4, *[(i, j) for i in range(4) for j in range(i)])
    assert fully_connected_mixing(4).toarray().tolist() == [[0.25] * 4] * 4
    assert plain_mixing(everybody).toarray().tolist() == [[0.25] * 4] * 4
    assert metropolis_hastings_mixing(everybody).toarray().tolist() == [[0.25] * 4] * 4
    np.testing.assert_allclose(
        data_size_mixing(everybody, [1, 2, 3, 4]).toarray(), [[0.1, 0.2, 0.3, 0.4]] * 4
    )


def test_the_weight_of_a_model_that_did_not_arrive_goes_to_ones_own():
    whole = data_size_mixing(CHAIN, [100, 300, 600, 50])
    mixing = left_out(whole, [1, 1], [2, 2])
    expected = [[1 / 4, 3 / 4, 0, 0], [0.1, 0.9, 0, 0], [0, 1 / 3, 2 / 3, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(mixing.toarray(), expected, rtol=1e-15)
    assert mixing_row(mixing, 1)[0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(whole.toarray()[1], [0.1, 0.3, 0.6, 0], rtol=1e-15)
    alone = left_out(mixing, [1], [0])
    np.testing.assert_allclose(alone.toarray()[1], [0, 1, 0, 0], rtol=1e-15)
    assert left_out(whole, [], []).toarray().tolist() == whole.toarray().tolist()


def test_leaving_each_other_out_keeps_metropolis_hastings_doubly_stochastic():
    whole = metropolis_hastings_mixing(linked(4, (0, 1), (0, 2), (0, 3), (1, 2)))
    one_sided = left_out(whole, [0], [1]).toarray()
    np.testing.assert_allclose(one_sided.sum(axis=0), [1.25, 0.75, 1, 1], rtol=1e-15)
    mutual = left_out(whole, [0, 1], [1, 0]).toarray()
    np.testing.assert_allclose(mutual.sum(axis=0), [1, 1, 1, 1], rtol=1e-15)
    np.testing.assert_allclose(mutual, mutual.T, rtol=1e-15)


def test_a_rule_is_taken_by_its_name():
    weights = {
        rule: mixing_matrix(rule, CHAIN, speeds=[1, 2, 5, 7], samples=[100, 300, 600, 50], alpha=1.0)[1, 2]
        for rule in MIXINGS
    }
    assert weights == {
        "plain": 1 / 3,
        "mobility_aware": 5 / 8,
        "data_size": 0.6,
        "metropolis_hastings": 1 / 3,
        "fully_connected": 0.25,
    }
    with pytest.raises(ConfigError, match="mixing = 'mean': expected one of plain, mobility_aware"):
        mixing_matrix("mean", CHAIN)
    with pytest.raises(ValueError, match="4 devices need as many speeds"):
        mixing_matrix("mobility_aware", CHAIN)


@pytest.mark.parametrize(("receiver", "sender"), [(0, 2), (1, 1), (4, 0), (0, -1)])
def test_who_exchanges_nothing_cannot_be_left_out(receiver, sender):
    with pytest.raises(ValueError, match=f"device {receiver} was to get no model from device {sender}"):
        left_out(plain_mixing(CHAIN), [receiver], [sender])


def test_a_row_tells_the_sources_ascending_with_their_weights_and_zeros_stay():
    sources, weights = mixing_row(mobility_aware_mixing(CHAIN, [3.0, 1.0, 0.0, 0.0], 1.0), 1)
    assert sources.tolist() == [0, 1, 2]
    assert weights.tolist() == [0.75, 0.25, 0.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mobility_aware_mixing(CHAIN, [1.0] * 4, -0.1), r"alpha = -0\.1"),
        (lambda: mobility_aware_mixing(CHAIN, [1.0] * 4, float("nan")), "alpha = nan"),
        (lambda: mobility_aware_mixing(CHAIN, [1.0, -2.0, 0.0, 0.0], 0.5), r"device 1: speed -2\.0"),
        (lambda: data_size_mixing(CHAIN, [1, 2, 3]), "4 devices need as many sample counts"),
        (lambda: data_size_mixing(CHAIN, [1, 2, -3, 1]), r"device 2: sample count -3\.0"),
        (lambda: plain_mixing(sparse.csr_array((2, 3))), r"shape \(2, 3\)"),
        (lambda: fully_connected_mixing(0), "at least one device"),
    ],
)
def test_what_gives_no_weights_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@st.composite
def networks(draw):
    devices = draw(st.integers(1, 9))
    links = draw(st.lists(st.tuples(st.integers(0, devices - 1), st.integers(0, devices - 1)), max_size=30))
    return linked(devices, *[(i, j) for i, j in links if i != j])


def rules(devices, data):
    """Every rule as a function of (neighbours, order of the devices)."""
    speeds = np.array(data.draw(st.lists(st.floats(0, 80), min_size=devices, max_size=devices)))
    samples = np.array(data.draw(st.lists(st.integers(0, 900), min_size=devices, max_size=devices)))
    alpha = data.draw(st.floats(0, 1))
    return [
        lambda neighbours, order: plain_mixing(neighbours),
        lambda neighbours, order: mobility_aware_mixing(neighbours, speeds[order], alpha),
        lambda neighbours, order: data_size_mixing(neighbours, samples[order]),
        lambda neighbours, order: metropolis_hastings_mixing(neighbours),
    ]


@settings(max_examples=60, deadline=None)
@given(neighbours=networks(), data=st.data())
def test_rows_add_up_to_1_and_hold_nobody_but_neighbours_and_oneself(neighbours, data):
    devices = neighbours.shape[0]
    allowed = neighbours.toarray() | np.eye(devices, dtype=bool)
    for rule in rules(devices, data):
        mixing = rule(neighbours, np.arange(devices))
        np.testing.assert_allclose(mixing.sum(axis=1), np.ones(devices), rtol=1e-12)
        assert (mixing.toarray() >= 0).all()
        assert not mixing.toarray()[~allowed].any()
        assert mixing.nnz == allowed.sum()
    doubly = metropolis_hastings_mixing(neighbours)
    np.testing.assert_allclose(doubly.sum(axis=0), np.ones(devices), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(neighbours=networks(), data=st.data())
def test_numbering_the_devices_differently_only_renumbers_the_weights(neighbours, data):
    devices = neighbours.shape[0]
    order = np.array(data.draw(st.permutations(range(devices))))
    mixed = sparse.csr_array(neighbours.toarray()[np.ix_(order, order)])
    for rule in rules(devices, data):
        first = rule(neighbours, np.arange(devices)).toarray()
        again = rule(mixed, order).toarray()
        np.testing.assert_allclose(again, first[np.ix_(order, order)], rtol=1e-12, atol=1e-15)
