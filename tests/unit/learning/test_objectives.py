"""Objectives with proximal terms: gradients by hand, and what their texts may say."""

import numpy as np
import pytest
import torch

from roambench.contract.errors import ConfigError, ModelError
from roambench.learning.local_algorithms import local_algorithm
from trained_with import trained_with


def softmax_regression() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2))


def trained(text: str, *, head: slice = slice(0, 0), global_model: np.ndarray | None = None) -> np.ndarray:
    """Two full-batch steps from zero on inputs of zero: without proximal terms only the biases could move."""
    images, labels = np.zeros((2, 1, 1, 2), dtype=np.float32), np.array([0, 1])
    return trained_with(
        softmax_regression(),
        images,
        labels,
        start=np.zeros(6, dtype=np.float32),
        epochs=2,
        batch_size=2,
        learning_rate=0.1,
        seed=1,
        objective=text,
        head=head,
        global_model=global_model,
    ).vector


def test_the_pull_to_the_global_base_has_no_half():
    # p = 1/2 for both labels: the loss pulls nowhere. Each step w <- w - 0.1 * 2 * 0.5 * (w - 1):
    # 0 -> 0.1 -> 0.19 for the weights; the head (here the two biases) is spared.
    pulled = trained(
        "middle_plus:lambda1=0,lambda2=0.5", head=slice(4, 6), global_model=np.ones(6, dtype=np.float32)
    )
    assert pulled.tolist() == pytest.approx([0.19] * 4 + [0.0] * 2, abs=1e-7)


def test_the_pull_to_the_start_works_against_the_other_one():
    # First step: at the start itself, only the global pulls: w = 0.1. Then
    # w <- 0.1 - 0.1 * (2*0.25*(0.1 - 0) + 2*0.5*(0.1 - 1)) = 0.1 - 0.1 * (0.05 - 0.9) = 0.185.
    pulled = trained("middle_plus:lambda1=0.25,lambda2=0.5", global_model=np.ones(6, dtype=np.float32))
    assert pulled.tolist() == pytest.approx([0.185] * 6, abs=1e-7)


def test_fedprox_holds_the_model_near_its_start_by_half_mu():
    images, labels = np.ones((1, 1, 1, 2), dtype=np.float32), np.array([0])
    arguments = {"start": np.zeros(6, dtype=np.float32), "epochs": 2, "batch_size": 1, "learning_rate": 0.1}
    free = trained_with(softmax_regression(), images, labels, seed=1, **arguments).vector
    held = trained_with(
        softmax_regression(), images, labels, seed=1, objective="fedprox:mu=2.0", **arguments
    ).vector
    # After step 1 every weight is +-0.05; FedProx adds -0.1 * 2.0 * (+-0.05) to step 2.
    assert (free - held).tolist() == pytest.approx([0.01, 0.01, -0.01, -0.01, 0.01, -0.01], abs=1e-7)


def test_proximal_terms_of_no_strength_change_no_bit():
    plain = trained("ce").tobytes()
    assert trained("middle_plus:lambda1=0,lambda2=0").tobytes() == plain
    assert trained("fedprox:mu=0").tobytes() == plain


def test_a_device_without_the_global_model_cannot_be_pulled_to_it():
    with pytest.raises(ModelError, match="needs the last global model"):
        trained("middle_plus")
    assert local_algorithm("middle_plus").needs_global
    assert not local_algorithm("fedprox").needs_global


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mse", "unknown local algorithm 'mse': expected one of ce, feddyn, fedprox, middle_plus, scaffold"),
        ("ce:mu=1", "unknown mu; it takes no numbers"),
        ("fedprox:lambda=1", "unknown lambda; it takes mu"),
        ("fedprox:mu=nan", "'mu=nan' is not key=number"),
        ("fedprox:mu=1,mu=2", "'mu=2' is not key=number, once each"),
        ("fedprox:", "'' is not key=number"),
        ("Fed Prox", "expected a name"),
    ],
)
def test_a_text_that_spells_no_objective_is_refused_with_what_was_expected(text: str, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        local_algorithm(text)
