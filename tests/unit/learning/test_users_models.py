"""Models as users write them: they draw from any generator, assign their buffers, leave parameters out."""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.fleet.simulated.job import TrainingJob
from roambench.fleet.simulated.stacked_learner import StackedLearner, StackedTask
from roambench.fleet.simulated.worker import TaskTrainer
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.evaluation import Evaluation, outputs
from roambench.learning.layout import flatten
from roambench.learning.learner import module_of
from roambench.learning.models.build import refuse_misfits
from roambench.learning.partitions import PartitionRequest
from roambench.learning.shards import Shard
from roambench.learning.task_parts import build_model, load_data, score, share_out
from roambench.learning.training import TrainingResult
from trained_with import trained_with

pytestmark = pytest.mark.usefixtures("one_thread")

IMAGES = np.random.default_rng(0).standard_normal((12, 1, 4, 4)).astype(np.float32)
LABELS = np.arange(12) % 10


class Model(nn.Module):
    """16 values -> 16 -> 10 logits, with `between` in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 10)
        self.more()

    def more(self) -> None:
        pass

    def between(self, values: Tensor) -> Tensor:
        return values

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(self.first(images.flatten(1))))
        return out


class Skipping(Model):
    """Stochastic depth by Python's generator."""

    def between(self, values: Tensor) -> Tensor:
        return values * 2.0 if random.random() < 0.5 else values


class Masking(Model):
    """NumPy's legacy generator."""

    def between(self, values: Tensor) -> Tensor:
        return values * torch.from_numpy(np.random.rand(16).astype(np.float32))  # noqa: NPY002


class Sampling(Model):
    """torch's, in scoring too, as the dropout of a Bayesian model."""

    def between(self, values: Tensor) -> Tensor:
        return values + torch.randn_like(values)


class Assigning(Model):
    """A running mean and a number of steps, assigned in each forward pass."""

    def more(self) -> None:
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("step", torch.tensor(0))

    def between(self, values: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * values.detach().mean(0)
            self.step = self.step + 1
        return (values - self.mean) / (1 + self.step)


class InPlace(Assigning):
    """The same, changed in place."""

    def between(self, values: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * values.detach().mean(0))
            self.step += 1
        return (values - self.mean) / (1 + self.step)


class Growing(Model):
    def more(self) -> None:
        self.register_buffer("queue", torch.zeros(2))

    def between(self, values: Tensor) -> Tensor:
        self.queue = torch.cat([self.queue, values.detach().mean().view(1)])
        return values


class Counting(Growing):
    def between(self, values: Tensor) -> Tensor:
        self.queue = (values > 0).sum(1)[:2]
        return values


class Clearing(Growing):
    def between(self, values: Tensor) -> Tensor:
        self.queue = None
        return values


class Resizing(Growing):
    def between(self, values: Tensor) -> Tensor:
        self.queue.resize_(5)
        return values


class ResizingSteps(Model):
    """A buffer of integers is no part of a model, and may grow in a training."""

    def more(self) -> None:
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))

    def between(self, values: Tensor) -> Tensor:
        self.steps.resize_(self.steps.numel() + 1)
        return values / self.steps.numel()


class Unused(Model):
    def more(self) -> None:
        self.aside = nn.Linear(16, 3)


class Blurring(nn.Module):
    """One kernel under two names, as layers share that blur before they pool."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        kernel = torch.full((4, 2, 3, 3), 1 / 9)
        self.first.register_buffer("blur", kernel)
        self.second.register_buffer("blur", kernel)
        self.last = nn.Linear(4, 10)

    def forward(self, images: Tensor) -> Tensor:
        for layer in (self.first, self.second):
            images = nn.functional.conv2d(torch.relu(layer(images)), layer.blur, padding=1, groups=2)
        out: Tensor = self.last(images.mean((2, 3)))
        return out


def trained(module: nn.Module, seed: int = 1, **more: bool) -> TrainingResult:
    start = np.linspace(-0.5, 0.5, flatten(module).size, dtype=np.float32)
    settings = {"epochs": 2, "batch_size": 4, "learning_rate": 0.05, "seed": seed}
    return trained_with(module, IMAGES, LABELS, start, **settings, **more)


@pytest.mark.parametrize("model", [Skipping, Masking, Sampling])
def test_draws_of_a_model_are_the_trainings_and_no_others(model: type[Model]) -> None:
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = random.random(), np.random.rand()  # noqa: NPY002
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    module = model()
    once, other, again = (trained(module, seed).vector.tobytes() for seed in (2**64 - 1, 1, 2**64 - 1))
    assert once == again != other
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002


@pytest.mark.parametrize("model", [Skipping, Masking, Sampling])
def test_a_model_that_draws_as_it_is_scored_has_one_score(model: type[Model]) -> None:
    module = model()
    vector = flatten(module)
    once, again = (score("", module, vector, IMAGES, LABELS) for _ in range(2))
    assert once == again


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_kernel_with_two_names_stays_one(channels_last: bool) -> None:
    module = Blurring()
    once = trained(module, channels_last=channels_last)
    answers = outputs(module, once.vector, IMAGES)
    assert module.first.blur is module.second.blur
    again = trained(module, channels_last=channels_last)
    assert once.vector.tobytes() == again.vector.tobytes()
    assert torch.equal(outputs(module, again.vector, IMAGES), answers)


def test_buffers_that_are_assigned_train_as_those_changed_in_place() -> None:
    assigned, in_place = trained(Assigning()), trained(InPlace())
    assert assigned.vector.tobytes() == in_place.vector.tobytes()
    assert np.abs(assigned.vector[-16:]).min() > 0.0


@pytest.mark.parametrize(
    ("model", "got"),
    [
        (Growing, r"torch\.float32 of shape \([38],\)"),
        (Counting, r"torch\.int64 of shape \(2,\)"),
        (Clearing, "none"),
        (Resizing, r"torch\.float32 of shape \(5,\)"),
    ],
)
def test_a_buffer_that_changes_its_kind_is_named_and_no_later_training_suffers(
    model: type[Model], got: str
) -> None:
    module = model()
    wanted = rf"queue: expected floating-point values of shape \(2,\), as built, got {got}"
    for _ in range(2):
        with pytest.raises(ModelError, match=wanted):
            trained(module)
    with pytest.raises(ModelError, match=wanted):
        outputs(module, flatten(module), IMAGES)
    assert flatten(module).size == flatten(model()).size


def test_steps_may_change_their_size_in_a_training() -> None:
    module = ResizingSteps()
    assert trained(module).vector.tobytes() == trained(module).vector.tobytes()
    assert module.steps.shape == (1,)


def test_parameters_that_the_loss_does_not_depend_on_are_named() -> None:
    with pytest.raises(ModelError, match=r"^aside\.weight, aside\.bias: expected a loss that depends on"):
        trained(Unused())


def refused(module: nn.Module) -> list[str]:
    with pytest.raises(ConfigError) as error:
        refuse_misfits("build", module)
    return list(error.value.problems)


def test_values_and_types_that_no_model_carries_are_refused_before_a_run() -> None:
    module = Model()
    module.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
    module.register_buffer("own", torch.full((3, 3), torch.nan), persistent=False)
    module.scale = nn.Parameter(torch.ones(16, dtype=torch.float64))
    module.words = nn.Embedding(9, 16, sparse=True)
    assert refused(module) == [
        "build: words: expected dense gradients, got sparse=True",
        "build: scale: expected float32, in which models travel, got torch.float64",
        "build: mask: expected finite values, or a buffer with persistent=False, got NaN or infinity",
    ]
    assert all("expected float32" in problem for problem in refused(Model().double()))


class Task:
    """Everything that it draws, it draws from the process's generators."""

    model: Callable[[], nn.Module] = Model

    def load(self, folder: object, download: bool) -> Dataset:
        images = np.random.rand(12, 1, 4, 4).astype(np.float32)  # noqa: NPY002
        return Dataset(images, LABELS, images, LABELS, 10)

    def build(self, in_channels: int, classes: int) -> nn.Module:
        module = type(self).model()
        module.register_buffer("mask", torch.from_numpy(np.random.rand(16) > 0.5))  # noqa: NPY002
        return module

    def partition(self, request: PartitionRequest) -> list[list[int]]:
        return [random.sample(range(12), 4) for _ in range(request.devices)]


class Scoring(Task):
    def evaluate(self, module: object, vector: object, images: object, labels: object) -> Evaluation:
        return Evaluation(random.random(), 0.0)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Names of tasks with these models."""
    module = types.ModuleType("users_models")
    monkeypatch.setitem(sys.modules, "users_models", module)

    def named(model: type[nn.Module], task: type[Task] = Task) -> str:
        name = f"{task.__name__}{model.__name__}"
        setattr(module, name, type(name, (task,), {"model": model}))
        return f"users_models:{name}"

    return named


def test_a_tasks_hooks_draw_the_same_in_every_process(tasks: Callable[..., str]) -> None:
    task = tasks(Model, Scoring)
    data = [load_data(task, "", None, download=False).train_images.tobytes() for _ in range(2)]
    assert data[0] == data[1]
    masks = [build_model(task, "", 1, 10, seed=seed).mask.tolist() for seed in (0, 0, 1)]
    assert masks[0] == masks[1] != masks[2]
    parts = [
        [part.tolist() for part in share_out(task, "", PartitionRequest(LABELS, 3, 4, 1.0, seed))]
        for seed in (7, 7, 8)
    ]
    assert parts[0] == parts[1] != parts[2]
    module = Model()
    assert len({score(task, module, flatten(module), IMAGES, LABELS).accuracy for _ in range(2)}) == 1


def spec_of(task: str) -> LearningSpec:
    return LearningSpec("", 1, 10, 0.05, 0.0, 0.0, 4, "", task=task, height=4, width=4)


@pytest.mark.parametrize("model", [Assigning, InPlace])
def test_buffers_of_stacked_models_are_each_models_own(tasks: Callable[..., str], model: type[Model]) -> None:
    spec = spec_of(tasks(model))
    module = module_of(spec)
    start = np.linspace(-0.5, 0.5, flatten(module).size, dtype=np.float32)
    found = StackedLearner(spec, stack=2).train(
        [StackedTask(Shard(IMAGES, LABELS), start, None, "ce", 6, seed) for seed in (1, 2)]
    )
    for seed, stacked in zip((1, 2), found, strict=True):
        assert isinstance(stacked, TrainingResult)
        settings = {"epochs": 2, "batch_size": 4, "learning_rate": 0.05, "seed": seed}
        single = trained_with(module, IMAGES, LABELS, start, **settings)
        assert np.abs(stacked.vector - single.vector).max() < 1e-5


def test_models_that_cannot_be_stacked_are_refused_with_the_reason(tasks: Callable[..., str]) -> None:
    class Brief(Model):
        def more(self) -> None:
            self.scale = nn.Parameter(torch.ones(16, dtype=torch.bfloat16))

        def between(self, values: Tensor) -> Tensor:
            return values * self.scale.float()

    class Floating(Assigning):
        def between(self, values: Tensor) -> Tensor:
            self.step = self.step + 0.5
            return values

    told = "cannot be stacked \\({}\\): expected simulated.backend"
    for model, reason in (
        (Brief, r"scale is no torch\.float32"),
        (Floating, "step changes its shape or type in a forward pass"),
        (Skipping, "it draws from Python's or NumPy's generator"),
        (Masking, "it draws from Python's or NumPy's generator"),
    ):
        with pytest.raises(ConfigError, match=told.format(reason)):
            StackedLearner(spec_of(tasks(model)), stack=2)


def test_an_empty_buffer_can_be_stacked(tasks: Callable[..., str]) -> None:
    class Empty(Model):
        def more(self) -> None:
            self.register_buffer("none", torch.zeros(0))

    spec = spec_of(tasks(Empty))
    start = np.full(flatten(module_of(spec)).size, 0.1, dtype=np.float32)
    (found,) = StackedLearner(spec, stack=1).train(
        [StackedTask(Shard(IMAGES, LABELS), start, None, "ce", 3, 1)]
    )
    assert isinstance(found, TrainingResult)
    assert found.vector.size == start.size


class Choosy(Model):
    """An index out of range, an error of no kind that we know, for some images and in training alone."""

    def between(self, values: Tensor) -> Tensor:
        return values if values.mean() < 1e3 else values * [1.0][int(self.training)]


def test_a_worker_lives_on_whatever_a_users_model_raises(tasks: Callable[..., str]) -> None:
    images = np.concatenate([IMAGES, np.full((4, 1, 4, 4), 1e6, dtype=np.float32)])
    parts = np.arange(16)
    trainer = TaskTrainer(spec_of(tasks(Choosy)), images, np.arange(16) % 10, parts, np.array([0, 12, 16]))
    start = np.full(flatten(Model()).size, 0.1, dtype=np.float32)
    training = LocalTraining(epochs=1)
    jobs = [TrainingJob(device, 0, -1, -1, 1, training) for device in (0, 1, 0)]
    outcomes = [trainer.carry_out(job, start, None, None, None)[0].refused for job in jobs]
    line = Choosy.between.__code__.co_firstlineno + 1
    wrong = f"build: training it fails: IndexError: list index out of range ({__file__}:{line})"
    assert outcomes == ["", f"task 'users_models:TaskChoosy': {wrong}", ""]
