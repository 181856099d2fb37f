"""Adam against a first step by hand, torch's own, and in a training of a run; SGD's momentum that goes on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.learning.batches import Batches
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner
from roambench.learning.models.build import build
from roambench.learning.optimisers import Adam, optimiser_of, velocities_of, velocity_of
from roambench.learning.shards import Shard
from trained_with import trained_with


def test_the_first_two_steps_are_those_worked_out_by_hand():
    weights = torch.tensor([1.0, -2.0], dtype=torch.float64)
    adam = Adam([weights], learning_rate=0.1)
    adam.step([torch.tensor([4.0, -0.5], dtype=torch.float64)])
    # The corrected means are g and g^2, so every step is 0.1 long, but for the 1e-8: g / (|g| + 1e-8).
    assert weights.tolist() == pytest.approx(
        [1 - 0.1 * 4 / (4 + 1e-8), -2 + 0.1 * 0.5 / (0.5 + 1e-8)], rel=1e-15
    )
    before = weights[0].item()
    adam.step([torch.tensor([1.0, 0.0], dtype=torch.float64)])
    # m = 0.9 x 0.4 + 0.1 = 0.46 of 1 - 0.81 = 0.19; v = 0.999 x 0.016 + 0.001 = 0.016984 of 0.001999.
    moved = 0.1 * (0.46 / 0.19) / (math.sqrt(0.016984 / 0.001999) + 1e-8)
    assert before - weights[0].item() == pytest.approx(moved, rel=1e-12)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_twenty_steps_are_those_of_torchs_own_adam(weight_decay: float):
    draws = np.random.default_rng(3)
    starts = [draws.standard_normal(shape) for shape in ((4, 3), (4,), (2, 4))]
    ours = [torch.tensor(start) for start in starts]
    theirs = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
    adam = Adam(ours, learning_rate=0.01, weight_decay=weight_decay)
    reference = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay, foreach=False)
    for _ in range(20):
        gradients = [torch.tensor(draws.standard_normal(start.shape)) for start in starts]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        adam.step(gradients)
        reference.step()
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-13, atol=0)
        assert one.dtype == torch.float64


def test_a_training_takes_the_steps_of_torchs_adam_whatever_the_momentum():
    draws = np.random.default_rng(7)
    images = draws.standard_normal((20, 1, 32, 32)).astype(np.float32)
    labels = draws.integers(0, 10, 20)
    module = build("mlp", 1, 10, seed=2).double()
    start = flatten(module)
    result = trained_with(
        module, images, labels,
        start=start, epochs=2, batch_size=8, learning_rate=0.001, momentum=0.9, seed=11, optimiser="adam",
    )  # fmt: skip
    module = build("mlp", 1, 10, seed=2).double()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.001, foreach=False)
    batches = Batches(images, labels, dtype=torch.float64)
    for epoch in range(2):
        for pixels, targets in batches.epoch(11, epoch, 8):
            optimiser.zero_grad()
            functional.cross_entropy(module(pixels), targets).backward()
            optimiser.step()
    np.testing.assert_allclose(result.vector, flatten(module), rtol=0, atol=1e-9)
    assert np.abs(result.vector - start).max() > 0.002


def test_an_unknown_optimiser_is_answered_with_those_there_are():
    with pytest.raises(ConfigError, match="optimiser 'lion': expected one of sgd, adam"):
        optimiser_of("lion", [], 0.1, 0.9, 0.0)


SPEC = LearningSpec("mlp", 1, 10, 0.05, 0.9, 0.01, 64, "")
DRAWS = np.random.default_rng(3)
SHARD = Shard(
    DRAWS.standard_normal((24, 1, 32, 32), dtype=np.float32), DRAWS.integers(0, 10, 24).astype(np.int64)
)


def start() -> np.ndarray:
    return DRAWS.standard_normal(Learner(SPEC).layout.size).astype(np.float32) * 0.1


def test_two_trainings_that_hand_their_velocity_on_are_one_training_of_two_steps() -> None:
    # Whole-batch steps: the order of the images within a batch is all that differs.
    model, learner = start(), Learner(SPEC)
    both = learner.train(SHARD, LocalTraining(seed=5, steps=2), model)
    first = learner.train(SHARD, LocalTraining(seed=5, steps=1), model)
    second = learner.train(SHARD, LocalTraining(seed=5, steps=1), first.vector, velocity=first.velocity)
    forgetful = learner.train(SHARD, LocalTraining(seed=5, steps=1), first.vector)
    assert np.abs(second.vector - both.vector).max() < 1e-6
    assert np.abs(forgetful.vector - both.vector).max() > 1e-4


def test_the_velocity_that_a_training_is_given_is_not_changed() -> None:
    learner = Learner(SPEC)
    first = learner.train(SHARD, LocalTraining(seed=5), start())
    assert first.velocity is not None
    before = first.velocity.copy()
    learner.train(SHARD, LocalTraining(seed=6), first.vector, velocity=first.velocity)
    assert np.array_equal(first.velocity, before)


def test_without_momentum_there_is_no_velocity() -> None:
    plain = LearningSpec("mlp", 1, 10, 0.05, 0.0, 0.0, 64, "")
    assert Learner(plain).train(SHARD, LocalTraining(seed=5), start()).velocity is None


def test_a_velocity_lies_like_the_parameters_and_is_0_where_the_model_holds_buffers() -> None:
    velocities = [torch.tensor([[1.0, 2.0]]), torch.tensor([3.0])]
    flat = velocity_of(velocities, np.ones(5, np.float32))
    assert flat is not None
    assert flat.tolist() == [1.0, 2.0, 3.0, 0.0, 0.0]
    back = velocities_of(velocities, flat)
    assert [tensor.tolist() for tensor in back] == [[[1.0, 2.0]], [3.0]]


def test_a_velocity_of_another_model_is_refused() -> None:
    with pytest.raises(ModelError, match=r"velocity of shape \(2,\)"):
        velocities_of([torch.zeros(3)], np.zeros(2, np.float32))
