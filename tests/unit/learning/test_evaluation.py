from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from roambench.learning.evaluation import evaluate
from roambench.learning.layout import flatten
from roambench.learning.models.build import build

#: One pixel in, two classes out: logits are (w0 x, w1 x).
TINY = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False))
IMAGES = np.array([1, -1, 2, 0], dtype=np.float32).reshape(4, 1, 1, 1)


def test_accuracy_and_loss_by_hand():
    # Logits (x, 0): classes 0, 1, 0 and a tie that goes to class 0.
    score = evaluate(TINY, np.array([1, 0], dtype=np.float32), IMAGES, np.array([0, 1, 1, 0]))
    assert score.accuracy == 0.75
    softplus = [math.log1p(math.exp(value)) for value in (-1, -1, 2, 0)]
    assert score.loss == pytest.approx(sum(softplus) / 4, rel=1e-6)


@pytest.mark.parametrize("batch_size", [1, 3, 4, 100])
def test_the_batch_size_does_not_change_the_score(batch_size: int):
    score = evaluate(
        TINY, np.array([1, 0], dtype=np.float32), IMAGES, np.array([0, 1, 1, 0]), batch_size=batch_size
    )
    assert score.accuracy == 0.75
    assert score.loss == pytest.approx(0.8618, abs=1e-3)


def test_a_score_is_the_same_every_time_and_the_model_is_not_changed():
    module = build("mohawk_cnn", 1, 10, seed=1)
    vector = flatten(module)
    draws = np.random.default_rng(0)
    images = draws.standard_normal((20, 1, 32, 32)).astype(np.float32)
    labels = draws.integers(0, 10, 20)
    assert evaluate(module, vector, images, labels) == evaluate(module, vector, images, labels)
    assert flatten(module).tobytes() == vector.tobytes()
    assert module.training


def test_bfloat16_rounds_products_and_leaves_the_loss_in_float32():
    module = build("mohawk_cnn", 1, 10, seed=1)
    vector = flatten(module)
    draws = np.random.default_rng(0)
    images = draws.standard_normal((64, 1, 32, 32)).astype(np.float32)
    labels = draws.integers(0, 10, 64)
    exact = evaluate(module, vector, images, labels)
    coarse = evaluate(module, vector, images, labels, bfloat16=True)
    assert 0 < abs(coarse.loss - exact.loss) < 0.02
    assert coarse == evaluate(module, vector, images, labels, bfloat16=True)
    assert flatten(module).tobytes() == vector.tobytes()
    assert evaluate(module, vector, images, labels) == exact


def test_dropout_is_off_while_scoring():
    module = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(1, 2, bias=False))
    state = torch.get_rng_state()
    score = evaluate(module, np.array([1, 0], dtype=np.float32), IMAGES, np.array([0, 1, 1, 0]))
    assert score.accuracy == 0.75
    assert torch.equal(torch.get_rng_state(), state)


def test_an_empty_test_set_is_refused():
    with pytest.raises(ValueError, match="cannot score on 0 images"):
        evaluate(TINY, np.zeros(2, dtype=np.float32), IMAGES[:0], np.zeros(0, dtype=np.int64))


class Views(nn.Module):
    """PyTorch's tutorials flatten by `view`, which channels-last activations refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(4 * 30 * 30, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        features = self.conv(pixels)
        return self.linear(features.view(len(features), -1))


class Volumes(nn.Module):
    """Weights of rank 5, which have no channels-last format of rank 4."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(1, 2, 3, padding=1)
        self.linear = nn.Linear(2 * 3 * 32 * 32, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(pixels.unsqueeze(1)).flatten(1))


class Formats(nn.Sequential):
    """Keeps whether its convolutions' weights and images were channels last."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        weight = self[0].weight
        self.seen = [one.is_contiguous(memory_format=torch.channels_last) for one in (weight, pixels)]
        return super().forward(pixels)


def coloured(count: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(3)
    images = draws.standard_normal((count, 3, 32, 32)).astype(np.float32)
    return images, draws.integers(0, 10, count)


def test_weights_and_images_are_both_channels_last() -> None:
    module = Formats(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 10))
    images, labels = coloured(70)
    evaluate(module, flatten(module), images, labels)
    assert module.seen == [True, True]


@pytest.mark.parametrize("kind", [Views, Volumes])
def test_a_model_that_takes_no_channels_last_is_scored_and_can_be_trained_afterwards(
    kind: type[nn.Module],
) -> None:
    torch.manual_seed(5)
    module = kind()
    images, labels = coloured(70)
    with torch.inference_mode():
        expected = int((module(torch.from_numpy(images)).argmax(dim=1).numpy() == labels).sum())
    score = evaluate(module, flatten(module), images, labels)
    assert score.accuracy == expected / 70
    module(torch.from_numpy(images)).sum().backward()  # the weights are no inference tensors
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_model_that_fails_in_any_format_says_so() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(5, 2))
    images, labels = coloured(2)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        evaluate(module, flatten(module), images, labels)
