from __future__ import annotations

import pytest

from roambench.aggregation import data_size_weights, equal_weights


def test_a_model_weighs_as_much_as_its_share_of_the_samples():
    assert data_size_weights([500, 1500]).tolist() == [0.25, 0.75]


def test_a_device_without_samples_weighs_nothing():
    assert data_size_weights([0, 3]).tolist() == [0.0, 1.0]


def test_equal_weights_make_a_plain_mean():
    assert equal_weights(4).tolist() == [0.25] * 4


@pytest.mark.parametrize("samples", [[], [0, 0], [3, -1]])
def test_counts_that_give_no_weights_are_refused(samples: list[int]):
    with pytest.raises(ValueError, match="sample"):
        data_size_weights(samples)


def test_a_plain_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        equal_weights(0)
