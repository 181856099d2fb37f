from __future__ import annotations

import numpy as np
import pytest

from roambench.vectors import RunningMean


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def mean_of(*weighted: tuple[np.ndarray, float]) -> np.ndarray:
    running = RunningMean()
    for model, weight in weighted:
        running.add(model, weight)
    return running.mean()


def test_models_count_by_their_weights():
    # (100 * 4 + 300 * 8) / 400 and (100 * -2 + 300 * 2) / 400.
    assert mean_of((vector(4, -2), 100), (vector(8, 2), 300)).tolist() == [7.0, 1.0]


def test_equal_weights_make_a_plain_mean():
    assert mean_of((vector(1, 5), 7), (vector(2, 5), 7), (vector(6, 5), 7)).tolist() == [3.0, 5.0]


def test_a_model_alone_comes_back_bit_for_bit_whatever_it_weighs():
    model = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    mean = mean_of((model, 3.7))
    assert mean.tobytes() == model.tobytes()
    assert not np.shares_memory(mean, model)


def test_models_are_folded_to_their_end_and_left_as_they_were():
    models = [np.full(32_768 * 2 + 3, value, dtype=np.float32) for value in (1.0, 5.0)]
    mean = mean_of((models[0], 1), (models[1], 3))
    assert set(mean.tolist()) == {4.0}
    assert set(models[0].tolist()) == {1.0}
    assert set(models[1].tolist()) == {5.0}


def test_a_read_only_model_is_folded():
    model = np.frombuffer(vector(2, 4).tobytes(), dtype=np.float32)
    assert mean_of((model, 1), (model, 2)).tolist() == [2.0, 4.0]


def test_a_model_of_weight_zero_changes_nothing_wherever_it_comes():
    some, other = vector(1, 3), vector(9, 9)
    assert mean_of((other, 0), (some, 2), (other, 0)).tolist() == [1.0, 3.0]


def test_float64_models_are_summed_in_float64():
    mean = mean_of((np.array([2.0**53]), 1), (np.array([4.0]), 1), (np.array([-(2.0**53)]), 2))
    assert mean.dtype == np.float64
    assert mean.tolist() == [(4.0 - 2.0**53) / 4.0]


def test_the_sum_lies_near_the_exact_one():
    draws = np.random.default_rng(1)
    models = draws.standard_normal((400, 100)).astype(np.float32)
    weights = draws.integers(1, 2000, 400)
    exact = weights @ models.astype(np.float64) / weights.sum()
    assert np.abs(mean_of(*zip(models, weights, strict=True)) - exact).max() < 1e-6


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(weight: float):
    with pytest.raises(ValueError, match="at least 0"):
        mean_of((vector(1), weight))


def test_a_model_unlike_the_ones_before_is_refused():
    with pytest.raises(ValueError, match=r"model 1 has shape \(2,\)"):
        mean_of((vector(1), 1), (vector(1, 2), 1))
    with pytest.raises(ValueError, match="model 1 is float64"):
        mean_of((vector(1), 1), (np.ones(1), 1))


@pytest.mark.parametrize("added", [(), ((vector(1), 0.0),)])
def test_nothing_that_weighs_has_no_mean(added: tuple):
    with pytest.raises(ValueError, match="at least one model with a weight"):
        mean_of(*added)
