"""Models that come one at a time add up to the same bits as all at once."""

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.vectors import RunningSum, weighted_mean
from roambench.vectors.sums import BLOCK


def test_a_running_sum_is_the_weighted_mean_bit_for_bit() -> None:
    draw = generator(3, "models")
    models = draw.standard_normal((5, 2 * BLOCK + 17)).astype(np.float32)
    weights = np.array([0.1, 0.3, -0.05, 0.0, 0.65])
    total = RunningSum()
    for model, weight in zip(models, weights, strict=True):
        total.add(model, float(weight))
    assert np.array_equal(total.total(), weighted_mean(models, weights))


def test_a_model_is_neither_kept_nor_changed() -> None:
    model = np.array([1.0, 2.0], np.float32)
    total = RunningSum()
    total.add(model, 2.0)
    model[0] = 100.0
    total.add(np.array([1.0, 1.0], np.float32), 0.5)
    assert total.total().tolist() == [2.5, 4.5]


def test_a_sum_of_nothing_or_of_unlike_models_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        RunningSum().total()
    total = RunningSum()
    total.add(np.zeros(3, np.float32), 1.0)
    with pytest.raises(ValueError, match="shape"):
        total.add(np.zeros(4, np.float32), 1.0)
