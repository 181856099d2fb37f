from __future__ import annotations

import numpy as np
import pytest

from roambench.aggregation import Folding, data_size_weights, equal_weights


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


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_models_are_averaged_by_their_shares():
    folding = Folding()
    for model, share in ((vector(8, 0), 100), (vector(0, 4), 300)):
        folding.add(model, share)
    mean, weights = folding.close()
    assert mean.tolist() == [2.0, 3.0]
    assert weights.tolist() == [0.25, 0.75]


def test_a_share_of_zero_is_a_weight_of_zero():
    folding = Folding()
    folding.add(vector(5), 0)
    folding.add(vector(3), 2)
    mean, weights = folding.close()
    assert mean.tolist() == [3.0]
    assert weights.tolist() == [0.0, 1.0]


def test_shares_that_add_up_to_nothing_are_refused():
    folding = Folding()
    folding.add(vector(5), 0)
    with pytest.raises(ValueError, match="at least one model with a weight"):
        folding.close()
