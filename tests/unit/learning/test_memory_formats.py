"""Models that take images channels last, and models that do not."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from roambench.agent.orders.trainer_process import TrainerProcess
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.learning.evaluation import evaluate
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner, works_channels_last
from roambench.learning.shards import Shard, write_shard


class Tutorial(nn.Module):
    """PyTorch's tutorial network, on smaller images."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 6, 5)
        self.second = nn.Conv2d(6, 16, 3)
        self.last = nn.Linear(16 * 2 * 2, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.first(images).relu(), 2)
        out: Tensor = self.last(self.second(x).relu().view(-1, 16 * 2 * 2))
        return out


class ViewInBackward(torch.autograd.Function):
    @staticmethod
    def forward(context: object, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        return gradient.view(len(gradient), -1).view(gradient.shape)


class Backward(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, 3, 3), nn.Conv2d(3, 3, 3)
        self.last = nn.Linear(3 * 8 * 8, classes)

    def forward(self, images: Tensor) -> Tensor:
        between = ViewInBackward.apply(self.first(images))
        out: Tensor = self.last(self.second(between).flatten(1))
        return out


class Volume(nn.Module):
    """Weights of five axes, which torch cannot lay channels last as it does images."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv3d(1, 4, (channels, 3, 3))
        self.last = nn.Linear(4 * 10 * 10, classes)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(images[:, None]).flatten(1))
        return out


class Rows(nn.Module):
    """A model of sequences: images of three axes less."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(channels, 4, 5)
        self.last = nn.Linear(4 * 140, classes)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(images.view(len(images), images.shape[1], -1)).flatten(1))
        return out


class Plain(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 4, 3)
        self.last = nn.Linear(4 * 10 * 10, classes)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(images).flatten(1))
        return out


class Hopeless(Plain):
    def forward(self, images: Tensor) -> Tensor:
        raise RuntimeError("it can do nothing")


MODELS = (Tutorial, Backward, Volume, Rows, Plain, Hopeless)
DRAWS = np.random.default_rng(0)
SHARD = Shard(DRAWS.standard_normal((10, 3, 12, 12)).astype(np.float32), np.arange(10))


@pytest.fixture
def spec_of(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("format_tasks")
    for model in MODELS:
        build = staticmethod(lambda channels, classes, model=model: model(channels, classes))
        setattr(module, model.__name__, type(model.__name__, (), {"load": None, "build": build}))
    for model in MODELS:
        getattr(module, model.__name__).load = lambda self, folder, download: None
    monkeypatch.setitem(sys.modules, "format_tasks", module)

    def spec(model: type[nn.Module], **changes: object) -> LearningSpec:
        task = f"format_tasks:{model.__name__}"
        numbers = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0, "batch_size": 4}
        return LearningSpec("", 3, 10, **{**numbers, "shard": "", "task": task, **changes})  # type: ignore[arg-type]

    return spec


@pytest.mark.parametrize(
    ("model", "works"),
    [(Tutorial, False), (Backward, False), (Rows, True), (Plain, True), (Hopeless, True)],
)
def test_a_model_that_needs_contiguous_images_is_told_by_a_step_of_it(spec_of, model, works):
    assert works_channels_last(spec_of(model), SHARD) is works


@pytest.mark.parametrize("model", [Tutorial, Backward, Volume, Rows, Plain])
def test_every_model_can_be_trained_and_scored_in_the_format_that_was_found(spec_of, model):
    spec = spec_of(model, channels_last=works_channels_last(spec_of(model), SHARD))
    learner, module = Learner(spec), model(3, 10)
    trained = learner.train(SHARD, LocalTraining(), flatten(module)).vector
    assert evaluate(module, trained, SHARD.images, SHARD.labels).loss > 0.0


def test_a_warm_up_takes_no_more_than_what_the_device_has(spec_of, tmp_path):
    """A batch of two million images would be 3.5 GB of blanks."""
    write_shard(tmp_path / "shard.safetensors", SHARD)
    spec = spec_of(Plain, batch_size=2_000_000, shard=str(tmp_path / "shard.safetensors"))
    answer = TrainerProcess().answer({"op": "prepare", "spec": spec.to_json().decode()})
    assert answer["samples"] == 10


def test_an_error_of_any_kind_in_a_users_model_is_the_trainers_answer(spec_of, monkeypatch, tmp_path):
    def failing(self: Plain, images: Tensor) -> Tensor:
        raise AttributeError("no attribute 'head'")

    monkeypatch.setattr(Plain, "forward", failing)
    write_shard(tmp_path / "shard.safetensors", SHARD)
    spec = spec_of(Plain, shard=str(tmp_path / "shard.safetensors"))
    answer = TrainerProcess().answer({"op": "prepare", "spec": spec.to_json().decode()})
    line = failing.__code__.co_firstlineno + 1
    said = f"training it fails: AttributeError: no attribute 'head' ({__file__}:{line})"
    assert answer == {"refused": f"task 'format_tasks:Plain': build: {said}"}


def test_a_warm_up_takes_steps_of_the_devices_own_first_batch(spec_of, monkeypatch):
    sizes: list[int] = []

    def counting(self: Plain, images: Tensor) -> Tensor:
        sizes.append(len(images))
        return plain(self, images)

    plain = Plain.forward
    monkeypatch.setattr(Plain, "forward", counting)
    Learner(spec_of(Plain, batch_size=200)).warm_up(SHARD, 2)
    Learner(spec_of(Plain, batch_size=4)).warm_up(SHARD, 2)
    Learner(spec_of(Plain, batch_size=200)).warm_up(Shard(SHARD.images[:1], SHARD.labels[:1]), 2)
    assert sizes == [10, 10, 4, 4, 2, 2]


def test_a_step_so_large_that_training_diverges_warms_up_all_the_same(spec_of):
    assert Learner(spec_of(Plain, learning_rate=1e30)).warm_up(SHARD, 6) > 0.0
