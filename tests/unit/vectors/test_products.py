from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.vectors import dot, products


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_products_with_the_reference_and_with_itself_by_hand():
    dots, squares = products(vector(3, 4), [vector(4, 3), vector(-3, -4), vector(0, 0)])
    assert dots.tolist() == [24.0, -25.0, 0.0]
    assert squares.tolist() == [25.0, 25.0, 0.0]
    assert dots.dtype == squares.dtype == np.float64


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 65_536, 140_000])
def test_every_parameter_counts_once(size: int):
    dots, squares = products(np.full(size, 2, np.float32), [np.full(size, 3, np.float32)])
    assert dots.tolist() == [6.0 * size]
    assert squares.tolist() == [9.0 * size]


@pytest.mark.parametrize("size", [1, 4, 17, 650, 1024])
def test_small_models_have_the_products_that_each_has_alone(size: int):
    draws = np.random.default_rng(3)
    reference, *models = draws.standard_normal((40, size + 3)).astype(np.float32)[:, 1:-2]
    together = products(reference, models)
    for index, model in enumerate(models):
        (product,), (square,) = products(reference, [model])
        assert (together[0][index], together[1][index]) == (product, square)
        assert square == pytest.approx(dot(model, model), rel=1e-6)


def test_runs_are_added_in_float64():
    # In float32 the first run's 2^24 would swallow the ones of the other runs.
    model = np.zeros(4 * 1024, np.float32)
    model[0], model[1024], model[2048], model[3072] = 2**12, 1, 1, 1
    assert products(model, [model])[1].tolist() == [2**24 + 3]


def test_the_products_of_a_large_model_lie_near_the_exact_ones():
    draws = np.random.default_rng(2)
    reference, model = (draws.standard_normal(300_001).astype(np.float32) for _ in range(2))
    (product,), (square,) = products(reference, [model])
    exact_square = math.fsum(float(value) ** 2 for value in model)
    assert square == pytest.approx(exact_square, rel=1e-7)
    assert abs(product - dot(reference, model)) < 1e-7 * exact_square


def test_float64_models_lose_nothing_to_float32():
    reference, model = np.array([1.0 + 2.0**-40, 1.0]), np.array([1.0, -1.0])
    assert products(reference, [model])[0].tolist() == [2.0**-40]


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_squares_that_float32_cannot_hold_are_made_in_float64(scale: float):
    model = vector(3 * scale, 4 * scale)
    dots, squares = products(vector(1, 0), [model])
    assert squares.tolist() == pytest.approx([25 * scale**2], rel=1e-6)
    assert dots.tolist() == pytest.approx([3 * scale], rel=1e-6)


def test_where_the_bytes_lie_in_memory_changes_no_bit():
    model = np.random.default_rng(4).standard_normal(50_003).astype(np.float32)
    told = set()
    for offset in range(0, 64, 4):
        moved = np.frombuffer(bytes(offset) + model.tobytes(), dtype=np.float32, offset=offset)
        dots, squares = products(moved, [model, moved])
        told.add((*dots.tolist(), *squares.tolist()))
    assert len(told) == 1


def test_models_of_another_length_are_refused():
    with pytest.raises(ValueError, match="model 1 has shape"):
        products(vector(1, 2), [vector(1)])
