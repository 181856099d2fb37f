"""SGD's momentum that goes on from one training to the next."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roambench.contract.errors import ModelError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.learning.learner import Learner
from roambench.learning.optimisers import velocities_of, velocity_of
from roambench.learning.shards import Shard

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
