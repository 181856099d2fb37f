"""Many models trained as one batch are the models that training one after the other gives."""

from __future__ import annotations

import dataclasses
import math
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from roambench.contract.errors import ConfigError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.fleet.simulated.stacked_feed import StackedFeed
from roambench.fleet.simulated.stacked_graphs import GraphedStep
from roambench.fleet.simulated.stacked_learner import StackedLearner, StackedTask
from roambench.fleet.simulated.stacked_model import StackedModel
from roambench.learning.batches import Batches
from roambench.learning.layout import flatten
from roambench.learning.learner import module_of
from roambench.learning.models.build import build
from roambench.learning.shards import Shard
from roambench.learning.training import TrainingResult, train

pytestmark = pytest.mark.usefixtures("one_thread")

#: float64, so that nothing but a mistake is larger than 1e-12.
SPEC = LearningSpec("mlp", 1, 10, 0.05, 0.9, 1e-3, 8, "", precision="float64")
#: Every device torch finds here: a GPU is tested where there is one.
DEVICES = ["cpu", *["cuda"] * torch.cuda.is_available()]


def shard(samples: int, channels: int = 1, seed: int = 0) -> Shard:
    draws = np.random.default_rng((samples, seed))
    images = draws.standard_normal((samples, channels, 32, 32)).astype(np.float32)
    return Shard(images, draws.integers(0, 10, samples))


def task(samples: int, number: int, spec: LearningSpec = SPEC, **changes: object) -> StackedTask:
    module = build(spec.model, spec.in_channels, 10, seed=number)
    steps = 2 * math.ceil(samples / spec.batch_size)
    plain = StackedTask(
        shard(samples, spec.in_channels, number),
        in_precision(flatten(module), spec),
        None,
        "ce",
        steps,
        number,
    )
    return dataclasses.replace(plain, **changes)


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_that_cannot_be_captured_goes_on_as_it_is(device: str) -> None:
    """It asks for a number on the CPU. On a GPU, all tests with DEVICES replay what can be captured."""
    total = torch.zeros(2, device=device)
    step = GraphedStep(lambda added: total.add_(float(added.sum())).clone())
    found = [step(torch.full((2,), float(number), device=device)).tolist() for number in range(5)]
    assert found == [[0.0, 0.0], [2.0, 2.0], [6.0, 6.0], [12.0, 12.0], [20.0, 20.0]]
    assert step.failure


def in_precision(vector: np.ndarray, spec: LearningSpec) -> np.ndarray:
    return vector.astype(spec.precision)


def alone(one: StackedTask, spec: LearningSpec = SPEC) -> TrainingResult:
    """The same training as a worker does it."""
    module = module_of(spec)
    training = LocalTraining(1, one.seed, one.steps, one.objective)
    head = StackedModel(module_of(spec), torch.device("cpu")).head
    return train(module, one.shard, one.start, training, spec, global_model=one.global_model, head=head)


def apart(result: TrainingResult | str, expected: TrainingResult) -> float:
    """The largest difference of two models, relative to the norm of the second."""
    assert isinstance(result, TrainingResult), result
    assert (result.samples, result.sgd_steps) == (expected.samples, expected.sgd_steps)
    assert result.vector.dtype == expected.vector.dtype
    difference = np.abs(result.vector - expected.vector).max()
    return float(difference / np.linalg.norm(expected.vector))


def assert_equal(tasks: list[StackedTask], stack: int, device: str, spec: LearningSpec = SPEC) -> None:
    results = StackedLearner(spec, stack=stack, device=device).train(tasks)
    assert len(results) == len(tasks)
    for result, one in zip(results, tasks, strict=True):
        expected = alone(one, spec)
        assert apart(result, expected) < 1e-12
        assert isinstance(result, TrainingResult)
        assert result.mean_loss == pytest.approx(expected.mean_loss, rel=1e-12)
        assert result.mean_squared_loss == pytest.approx(expected.mean_squared_loss, rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", [1, 3, 64])
def test_shards_of_any_size_train_side_by_side(device: str, stack: int) -> None:
    """Last batches of 1 to 8 images, 1 to 3 batches an epoch, one device with less data than a batch."""
    assert_equal([task(samples, samples) for samples in (19, 8, 5, 16, 9, 24, 17)], stack, device)


def test_a_device_may_train_longer_than_the_others() -> None:
    assert_equal([task(12, 1), task(12, 2, steps=7), task(12, 3, steps=2), task(30, 4, steps=3)], 64, "cpu")


@pytest.mark.parametrize(
    "objective", ["fedprox:mu=0.5", "middle_plus:lambda1=0.3,lambda2=0.2", "fedprox:mu=0"]
)
def test_proximal_terms_pull_every_model_to_its_own_anchors(objective: str) -> None:
    anchors = [in_precision(flatten(build("mlp", 1, 10, seed=50 + number)), SPEC) for number in range(3)]
    tasks = [task(11, n, objective=objective, global_model=anchors[n]) for n in range(3)]
    assert_equal(tasks, 64, "cpu")
    pulled, free = alone(tasks[0]), alone(dataclasses.replace(tasks[0], objective="ce"))
    assert (apart(pulled, free) > 1e-4) is (objective != "fedprox:mu=0")


def test_devices_of_different_objectives_do_not_mix() -> None:
    anchor = in_precision(flatten(build("mlp", 1, 10, seed=50)), SPEC)
    pulled = {"objective": "middle_plus:lambda1=0.3,lambda2=0.2", "global_model": anchor}
    assert_equal([task(9, 1), task(9, 2, **pulled), task(9, 3), task(9, 4, **pulled)], 64, "cpu")


@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.0, 0.01), (0.9, 0.0)])
def test_momentum_and_decay_are_each_models_own(momentum: float, weight_decay: float) -> None:
    spec = dataclasses.replace(SPEC, momentum=momentum, weight_decay=weight_decay)
    assert_equal([task(10, 1), task(20, 2)], 64, "cpu", spec)


def test_adam_moves_every_model_by_its_own_means() -> None:
    spec = dataclasses.replace(SPEC, optimiser="adam", learning_rate=0.001)
    assert_equal([task(10, 1, spec), task(20, 2, spec)], 64, "cpu", spec)


def test_crops_and_flips_are_those_of_the_device_alone() -> None:
    spec = dataclasses.replace(SPEC, augmentation="crop_flip", in_channels=3)
    assert_equal([task(10, 1, spec), task(13, 2, spec)], 64, "cpu", spec)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", ["dfl_cnn", "gn_lenet"])
def test_convolutions_are_stacked_too(model: str, device: str) -> None:
    channels = 3 if model == "gn_lenet" else 1
    spec = dataclasses.replace(SPEC, model=model, in_channels=channels, batch_size=4, learning_rate=0.01)
    assert_equal([task(samples, samples, spec) for samples in (6, 4, 6)], 64, device, spec)


def test_equal_tasks_in_equal_stacks_give_equal_bits() -> None:
    spec = dataclasses.replace(SPEC, precision="float32")
    tasks = [task(samples, samples, spec) for samples in (20, 16, 13)]
    once, again = (StackedLearner(spec, stack=2).train(tasks) for _ in range(2))
    for one, two in zip(once, again, strict=True):
        assert isinstance(one, TrainingResult)
        assert isinstance(two, TrainingResult)
        assert (one.vector.tobytes(), one.mean_loss) == (two.vector.tobytes(), two.mean_loss)


def test_float32_agrees_to_rounding() -> None:
    """Measured 3e-9 to 6e-9 of the norm after 4 to 6 steps. The largest parameter is a 24th of the norm,
    so one rounding of it is 2.5e-9; 1e-7 leaves room for another CPU's kernels."""
    spec = dataclasses.replace(SPEC, model="dfl_cnn", precision="float32", learning_rate=0.01)
    tasks = [task(samples, samples, spec) for samples in (20, 16, 13)]
    for result, one in zip(StackedLearner(spec, stack=3).train(tasks), tasks, strict=True):
        assert isinstance(result, TrainingResult)
        assert result.vector.dtype == np.float32
        assert apart(result, alone(one, spec)) < 1e-7


def test_a_model_that_diverges_is_refused_alone() -> None:
    wild = task(16, 2, start=in_precision(np.full(flatten(build("mlp", 1, 10)).size, 1e200), SPEC))
    tasks = [task(16, 1), wild, task(16, 3)]
    first, refused, third = StackedLearner(SPEC, stack=64).train(tasks)
    assert refused == "training diverged after 4 steps: the model holds NaN or infinity"
    assert apart(first, alone(tasks[0])) < 1e-12
    assert apart(third, alone(tasks[2])) < 1e-12


def test_what_cannot_be_done_is_refused_alone_and_says_why() -> None:
    tasks = [
        task(9, 1, objective="mse"),
        task(9, 2, objective="middle_plus"),
        task(9, 3, start=np.zeros(7)),
        task(9, 4),
    ]
    unknown, anchorless, short, sound = StackedLearner(SPEC, stack=64).train(tasks)
    assert isinstance(unknown, str)
    assert "unknown local algorithm 'mse'" in unknown
    assert anchorless == "the objective needs the last global model, and this device holds none"
    assert isinstance(short, str)
    assert short.endswith("parameters, the vector shape (7,)")
    assert apart(sound, alone(tasks[3])) < 1e-12


def test_bfloat16_computes_coarsely_and_keeps_float32_models() -> None:
    spec = dataclasses.replace(SPEC, model="dfl_cnn", precision="float32", learning_rate=0.01)
    one = task(16, 1, spec)
    (coarse,) = StackedLearner(spec, stack=1, autocast=True).train([one])
    assert isinstance(coarse, TrainingResult)
    assert coarse.vector.dtype == np.float32
    # bfloat16 has 8 bits: some thousandths of the way that training went, but not another way.
    moved = np.linalg.norm(alone(one, spec).vector - one.start)
    gone = np.linalg.norm(coarse.vector - alone(one, spec).vector) / moved
    assert 1e-4 < gone < 0.1


def test_a_step_has_every_devices_own_batch_and_weights_that_add_up_to_one() -> None:
    shards = [shard(5), shard(2, seed=1)]
    spec = dataclasses.replace(SPEC, batch_size=3)
    feed = StackedFeed(spec, shards, [7, 8], torch.float64, torch.device("cpu"))
    pixels, labels, weights = feed.step(0)
    third = 1.0 / 3.0
    assert weights.tolist() == [[third, third, third], [0.5, 0.5, 0.0]]
    own = list(Batches(shards[0].images, shards[0].labels, channels_last=False).epoch(7, 0, 3))
    assert torch.equal(pixels[0].float(), own[0][0])
    assert torch.equal(labels[0], own[0][1])
    assert torch.equal(pixels[1, 2], pixels[1, 0])  # filled up
    _, _, weights = feed.step(1)  # two are left of the first's epoch; the second one begins its next
    assert weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert feed.counts(1).tolist() == [2, 2]


class Noisy:
    """A task whose model draws at random in training."""

    def load(self, folder: object, download: bool) -> None:
        raise NotImplementedError

    def build(self, in_channels: int, classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(1024, classes, device="meta"))


class Normed(Noisy):
    """A task whose model keeps running statistics, as ResNets do."""

    def build(self, in_channels: int, classes: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(in_channels, 3, 5, stride=4, device="meta"),
            nn.BatchNorm2d(3, device="meta"),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(3 * 7 * 7, classes, device="meta"),
        )


@pytest.fixture
def tasks_module(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("stacked_tasks")
    vars(module).update(Noisy=Noisy, Normed=Normed)
    monkeypatch.setitem(sys.modules, "stacked_tasks", module)
    return "stacked_tasks"


def test_a_model_that_cannot_be_stacked_is_refused_before_anything_runs(tasks_module: str) -> None:
    told = r'cannot be stacked \(.*random.*expected simulated.backend = "workers"'
    with pytest.raises(ConfigError, match=told):
        StackedLearner(dataclasses.replace(SPEC, task=f"{tasks_module}:Noisy"), stack=2)


def test_batch_statistics_are_each_models_own_and_of_its_own_images_only(tasks_module: str) -> None:
    """A batch that is not full is not filled up: 6 images are batches of 4 and 2 whoever else trains."""
    spec = dataclasses.replace(SPEC, task=f"{tasks_module}:Normed", batch_size=4)
    start = flatten(module_of(spec))
    tasks = [task(samples, samples, spec, start=start) for samples in (6, 6, 7, 4)]
    assert_equal(tasks, 64, "cpu", spec)
    (result,) = StackedLearner(spec, stack=1).train(tasks[:1])
    assert isinstance(result, TrainingResult)
    # The last 6 entries: running means, which began at 0, and variances, which began at 1.
    assert np.abs(result.vector[-6:-3]).min() > 1e-6
    assert np.abs(result.vector[-3:] - 1.0).min() > 1e-3
