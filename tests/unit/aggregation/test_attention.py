"""Eq. 5 and 6 of MOHAWK against numbers worked out by hand, for every reading of the cosine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.aggregation import COSINE_READINGS, attention_mean, attention_weights
from roambench.contract.errors import ConfigError
from roambench.vectors import weighted_mean

SIGMA = 0.1


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def share(*exponents: float) -> list[float]:
    scores = [math.exp(exponent) for exponent in exponents]
    return [score / sum(scores) for score in scores]


def test_eq_5_for_a_model_like_the_reference_and_one_at_right_angles():
    # cos = 1 and 0: e^-0.1 = 0.904837..., so the weights are 0.475021 and 0.524979.
    weights = attention_weights(vector(2, 0), [vector(5, 0), vector(0, 3)], SIGMA)
    assert weights.tolist() == pytest.approx([0.47502081, 0.52497919], abs=1e-8)
    assert weights.tolist() == pytest.approx(share(-0.1, 0.0), abs=1e-15)


def test_the_less_similar_model_weighs_more():
    # cos = 1, 24/25 and -1.
    weights = attention_weights(vector(3, 4), [vector(3, 4), vector(4, 3), vector(-3, -4)], SIGMA)
    assert weights.tolist() == pytest.approx(share(-0.1, -0.096, 0.1), abs=1e-12)
    assert weights[0] < weights[1] < weights[2]


def test_sigma_zero_gives_the_plain_mean():
    weights = attention_weights(vector(1, 2), [vector(3, 1), vector(-1, 5)], 0.0)
    assert weights.tolist() == [0.5, 0.5]


def test_the_mean_uses_the_weights():
    mean, weights = attention_mean(vector(2, 0), [vector(5, 0), vector(0, 3)], SIGMA)
    like, unlike = share(-0.1, 0.0)
    assert mean.tolist() == pytest.approx([5 * like, 3 * unlike], rel=1e-6)
    assert mean.tobytes() == weighted_mean([vector(5, 0), vector(0, 3)], weights).tobytes()


def test_as_printed_the_cosine_shrinks_with_the_lengths():
    # <x,y> / (|x|^2 |y|^2): 10 / (4 * 25) = 0.1 and 6 / (4 * 9) = 1/6.
    weights = attention_weights(vector(2, 0), [vector(5, 0), vector(3, 0)], 1.0, "printed")
    assert weights.tolist() == pytest.approx(share(-0.1, -1 / 6), abs=1e-12)


# Two entries: a 2x2 matrix and a vector of 2. The reference's columns are (1, 0) and (0, 1).
SHAPES = ((2, 2), (2,))
REFERENCE = vector(1, 0, 0, 1, 1, 1)
SAME = vector(1, 0, 0, 1, 1, 1)
# Columns of the matrix: (1, 0), like the reference's, and (1, 0), at right angles to it; vector (1, -1).
OTHER = vector(1, 1, 0, 0, 1, -1)


def test_per_entry_weighs_each_entry_by_its_own_cosine():
    # Matrix: <(1,0,0,1), (1,1,0,0)> / (sqrt 2 sqrt 2) = 1/2. Vector: 0. SAME has cos 1 in both.
    mean, weights = attention_mean(REFERENCE, [SAME, OTHER], SIGMA, "per_entry", SHAPES)
    matrix_same, matrix_other = share(-0.1, -0.05)
    tail_same, tail_other = share(-0.1, 0.0)
    assert mean.tolist() == pytest.approx(
        [1.0, matrix_other, 0.0, matrix_same, 1.0, tail_same - tail_other], rel=1e-6
    )
    # The log's weight is the average over the 6 parameters.
    assert weights[0] == pytest.approx((4 * matrix_same + 2 * tail_same) / 6, abs=1e-12)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_per_column_weighs_each_column_along_dimension_0():
    # First column cos = 1 for both: halves. Second column and the vector: cos 1 and 0.
    mean, weights = attention_mean(REFERENCE, [SAME, OTHER], SIGMA, "per_column", SHAPES)
    same, other = share(-0.1, 0.0)
    assert mean.tolist() == pytest.approx([1.0, other, 0.0, same, 1.0, same - other], rel=1e-6)
    assert weights.tolist() == pytest.approx([(2 * 0.5 + 4 * same) / 6, (2 * 0.5 + 4 * other) / 6], abs=1e-12)


def test_per_column_of_a_convolution_runs_over_its_output_channels():
    # Shape (2, 1, 1, 2): columns are parameters (0, 2) and (1, 3).
    reference = vector(1, 1, 0, 1)
    other = vector(0, 1, 1, 1)
    mean, _ = attention_mean(reference, [reference, other], SIGMA, "per_column", ((2, 1, 1, 2),))
    same_weight, other_weight = share(-0.1, 0.0)
    assert mean.tolist() == pytest.approx([same_weight, 1.0, other_weight, 1.0], rel=1e-6)


def test_the_four_readings_differ_on_the_same_models():
    models = [SAME, OTHER]
    first = [attention_weights(REFERENCE, models, SIGMA, name, SHAPES)[0] for name in COSINE_READINGS]
    assert len({round(weight, 9) for weight in first}) == 4


@pytest.mark.parametrize("cosine", COSINE_READINGS)
def test_a_model_alone_is_taken_whole(cosine: str):
    mean, weights = attention_mean(REFERENCE, [OTHER], SIGMA, cosine, SHAPES)
    assert weights.tolist() == pytest.approx([1.0], abs=1e-15)
    assert mean.tobytes() == OTHER.tobytes()


@pytest.mark.parametrize("cosine", COSINE_READINGS)
def test_a_zero_reference_makes_all_models_equal(cosine: str):
    zero = np.zeros(6, dtype=np.float32)
    weights = attention_weights(zero, [SAME, OTHER], SIGMA, cosine, SHAPES)
    assert weights.tolist() == pytest.approx([0.5, 0.5], abs=1e-15)


def test_a_huge_sigma_does_not_overflow():
    weights = attention_weights(vector(1, 0), [vector(1, 0), vector(-1, 0)], 1e6)
    assert weights.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("cosine", COSINE_READINGS)
def test_float64_models_are_weighed_and_averaged_in_float64(cosine: str):
    # 2^-40 is lost in float32: as 1 + 2^-40 is 1 there, the mean would be 1.
    models = [np.array([1 + 2.0**-40, 1, 1, 1, 1, 1]), np.ones(6)]
    mean, _ = attention_mean(np.ones(6), models, 0.0, cosine, SHAPES)
    assert mean.dtype == np.float64
    assert mean.tolist() == [1 + 2.0**-41, 1, 1, 1, 1, 1]


def test_a_model_too_large_for_float32_squares_is_still_weighed():
    # Overflowing squares would make the cosine 0 or not a number; it is 1 for the first, 0 for the second.
    weights = attention_weights(vector(1, 0), [vector(1e30, 0), vector(0, 1e30)], SIGMA)
    assert weights.tolist() == pytest.approx(share(-0.1, 0.0), abs=1e-12)


def test_an_unknown_reading_is_named():
    with pytest.raises(ConfigError, match=r"per_tensor.*per_column"):
        attention_weights(REFERENCE, [SAME], SIGMA, "per_tensor")


def test_per_entry_without_the_shapes_is_refused():
    with pytest.raises(ValueError, match="shapes hold 0 parameters, the model 6"):
        attention_weights(REFERENCE, [SAME], SIGMA, "per_entry")


def test_nothing_to_aggregate_is_refused():
    with pytest.raises(ValueError, match="at least one model"):
        attention_weights(REFERENCE, [], SIGMA)


def test_a_model_of_another_length_is_refused():
    with pytest.raises(ValueError, match="model 0 has shape"):
        attention_weights(REFERENCE, [vector(1)], SIGMA)
