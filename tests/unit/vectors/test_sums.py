from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roambench.contract.draws import generator
from roambench.vectors import RunningSum, cosine, dot, norm, weighted_mean
from roambench.vectors.sums import BLOCK


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_the_weighted_mean_is_the_sum_of_weights_times_models():
    mean = weighted_mean([vector(1, 2), vector(5, -2)], np.array([0.25, 0.75]))
    assert mean.dtype == np.float32
    assert mean.tolist() == [4.0, -1.0]


def test_a_matrix_of_models_gives_the_same_mean_as_a_list_of_them():
    models = np.random.default_rng(0).standard_normal((7, 40_000)).astype(np.float32)
    weights = np.arange(1, 8) / 28.0
    assert weighted_mean(models, weights).tobytes() == weighted_mean(list(models), weights).tobytes()


def test_one_model_of_weight_one_comes_back_bit_for_bit():
    model = np.random.default_rng(1).standard_normal(50_001).astype(np.float32)
    mean = weighted_mean([model], np.array([1.0]))
    assert mean.tobytes() == model.tobytes()
    assert not np.shares_memory(mean, model)


def test_float32_models_are_summed_in_float32_and_float64_ones_in_float64():
    # In float32, 2^24 + 1 is 2^24 (ties go to even): both ones are lost. In float64 they are not.
    models = [vector(2**24), vector(1), vector(1)]
    assert weighted_mean(models, np.ones(3)).tolist() == [2.0**24]
    wide = weighted_mean([model.astype(np.float64) for model in models], np.ones(3))
    assert wide.dtype == np.float64
    assert wide.tolist() == [2.0**24 + 2]


def test_the_mean_of_many_float32_models_stays_near_the_exact_one():
    models = np.random.default_rng(5).standard_normal((1000, 50)).astype(np.float32)
    exact = np.mean(models.astype(np.float64), axis=0)
    assert np.abs(weighted_mean(models, np.full(1000, 0.001)) - exact).max() < 1e-6


def test_models_longer_than_a_block_are_averaged_to_the_end():
    models = [np.full(32_768 * 2 + 5, value, dtype=np.float32) for value in (1.0, 3.0)]
    assert set(weighted_mean(models, np.array([0.5, 0.5])).tolist()) == {2.0}


def test_a_read_only_model_can_be_averaged():
    model = np.frombuffer(np.arange(4, dtype=np.float32).tobytes(), dtype=np.float32)
    assert weighted_mean([model, model], np.array([0.5, 0.5])).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_no_model_is_refused():
    with pytest.raises(ValueError, match="at least one model"):
        weighted_mean([], np.array([]))


def test_as_many_weights_as_models_are_demanded():
    with pytest.raises(ValueError, match="2 models"):
        weighted_mean([vector(1), vector(2)], np.array([1.0]))


def test_models_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="model 1 has shape"):
        weighted_mean([vector(1, 2), vector(2)], np.array([0.5, 0.5]))


def test_models_of_different_precision_are_refused():
    with pytest.raises(ValueError, match="model 1 is float64, the first one float32"):
        weighted_mean([vector(1), np.ones(1)], np.array([0.5, 0.5]))


def test_a_model_that_is_not_flat_is_refused():
    with pytest.raises(ValueError, match="flat vector"):
        dot(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))


def test_dot_norm_and_cosine_by_hand():
    x, y = vector(3, 4), vector(4, 3)
    assert dot(x, y) == 24.0
    assert norm(x) == 5.0
    assert cosine(x, y) == pytest.approx(24 / 25, abs=1e-15)
    assert cosine(vector(1, 0), vector(0, 2)) == 0.0
    assert cosine(vector(1, 1), vector(-2, -2)) == pytest.approx(-1.0, abs=1e-15)


def test_dot_sums_in_float64():
    # In float32, 2^24 + 1 is 2^24 again.
    assert dot(vector(2**24, 1, 1), vector(1, 1, 1)) == 2**24 + 2


def test_the_zero_vector_is_similar_to_nothing():
    assert cosine(vector(0, 0), vector(1, 2)) == 0.0
    assert cosine(vector(0, 0), vector(0, 0)) == 0.0


@given(arrays(np.float32, 5, elements=st.floats(-1e10, 1e10, width=32)))
def test_a_cosine_never_leaves_minus_one_to_one(x: np.ndarray):
    assert -1.0 <= cosine(x, -x) <= cosine(x, x) <= 1.0


_DIGEST = """
import hashlib, numpy as np
from roambench.vectors import RunningMean, dot, products, weighted_mean
models = np.random.default_rng(3).standard_normal((20, 300_000)).astype(np.float32)
mean = weighted_mean(models, np.full(20, 0.05))
running = RunningMean()
for number, model in enumerate(models):
    running.add(model, number + 1)
dots, squares = products(mean, models)
for result in (mean, running.mean(), dots, squares):
    print(hashlib.sha256(result.tobytes()).hexdigest())
print(dot(models[0], models[1]).hex())
"""


def test_thread_count_does_not_change_a_bit():
    def run(threads: str) -> str:
        environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        return subprocess.run(
            [sys.executable, "-c", _DIGEST], env=environment, capture_output=True, text=True, check=True
        ).stdout

    alone = run("1")
    assert len(set(alone.split())) == 5
    assert alone == run("4") == run("3")


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
