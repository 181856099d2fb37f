from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.evaluation import evaluate
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner
from roambench.learning.models.build import build
from roambench.learning.partition import partition
from roambench.learning.shards import Shard
from roambench.vectors import weighted_mean
from trained_with import trained_with

SPEC = LearningSpec(
    model="mlp",
    in_channels=1,
    classes=10,
    learning_rate=0.05,
    momentum=0.9,
    weight_decay=0.0,
    batch_size=8,
    shard="unused",
)


@pytest.fixture(scope="module")
def shard() -> Shard:
    digits = load_dataset("digits")
    return Shard(digits.train_images[:40], digits.train_labels[:40])


def test_a_learner_trains_by_its_settings(shard: Shard):
    module = build("mlp", 1, 10, seed=3)
    start = flatten(module)
    learner = Learner(SPEC)
    assert learner.layout.size == start.size
    expected = trained_with(
        module,
        shard.images,
        shard.labels,
        start=start,
        epochs=2,
        batch_size=8,
        learning_rate=0.05,
        momentum=0.9,
        seed=5,
    )
    result = learner.train(shard, LocalTraining(2, 5), start)
    assert result.vector.tobytes() == expected.vector.tobytes()
    assert (result.samples, result.sgd_steps) == (40, 10)


def test_warming_up_does_not_change_what_comes_after(shard: Shard):
    start = flatten(build("mlp", 1, 10, seed=3))
    cold, warm = Learner(SPEC), Learner(SPEC)
    warm.warm_up(shard)
    first = cold.train(shard, LocalTraining(1, 5), start)
    assert warm.train(shard, LocalTraining(1, 5), start).vector.tobytes() == first.vector.tobytes()


def test_unknown_names_are_answered_with_the_ones_there_are(shard: Shard):
    start = flatten(build("mlp", 1, 10))
    with pytest.raises(ConfigError, match="unknown start rule 'mix': expected one of ap, average"):
        Learner(SPEC).train(shard, LocalTraining(start_rule="mix"), start)
    with pytest.raises(ConfigError, match="unknown model 'resnet'"):
        Learner(replace(SPEC, model="resnet"))


def test_three_devices_learn_real_digits_together():
    digits = load_dataset("digits")
    shards = [
        Shard(digits.train_images[chosen], digits.train_labels[chosen])
        for chosen in partition(digits.train_labels, 3, 200, 100.0, seed=1)
    ]
    learner, module = Learner(SPEC), build("mlp", 1, 10, seed=1)
    model = flatten(module)
    before = evaluate(module, model, digits.test_images, digits.test_labels)
    for step in range(3):
        trained = [
            learner.train(shard, LocalTraining(2, 10 * step + device), model).vector
            for device, shard in enumerate(shards)
        ]
        model = weighted_mean(trained, np.full(3, 1 / 3))
    after = evaluate(module, model, digits.test_images, digits.test_labels)
    assert before.accuracy < 0.3
    assert after.accuracy > 0.85
    assert after.loss < before.loss
