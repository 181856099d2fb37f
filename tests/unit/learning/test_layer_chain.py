"""Chains of usual layers are trained without autograd's graph, to its bits; all else is left to it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from roambench.learning.layer_chain import LayerChain, layer_chain_of
from roambench.learning.layout import flatten
from roambench.learning.models.build import build
from trained_with import trained_with

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("model", ["mohawk_cnn", "middle_cnn3", "dfl_cnn"])
def test_a_cnn_is_trained_to_the_bits_that_autograd_gives(model: str, channels_last: bool) -> None:
    draws = np.random.default_rng(7)
    data = draws.standard_normal((20, 3, 32, 32)).astype(np.float32), draws.integers(0, 10, 20)

    def trained(watched: bool) -> tuple[bytes, float]:
        module = build(model, 3, 10, seed=2)
        start = flatten(module)
        if watched:
            module[1].register_forward_hook(lambda *_: None)
        settings = {"epochs": 2, "batch_size": 8, "learning_rate": 0.01, "momentum": 0.9, "seed": 5}
        result = trained_with(module, *data, start=start, channels_last=channels_last, **settings)
        return result.vector.tobytes(), result.mean_loss

    assert isinstance(layer_chain_of(build(model, 3, 10), takes_images=True), LayerChain)
    assert trained(watched=False) == trained(watched=True)


@pytest.mark.parametrize(
    "front",
    [
        [nn.Conv2d(2, 4, 3, stride=2, dilation=2, groups=2, bias=True), nn.ReLU(), nn.MaxPool2d(3, 2, 1)],
        [nn.MaxPool2d((2, 1)), nn.Conv2d(2, 4, (3, 5), padding=(1, 2), bias=False), nn.ReLU(inplace=True)],
        [nn.ReLU(), nn.Conv2d(2, 2, 1), nn.Conv2d(2, 4, 3)],
    ],
)
def test_each_option_of_a_layer_has_autograds_gradients(front: list[nn.Module]) -> None:
    torch.manual_seed(1)
    pixels, targets = torch.randn(6, 2, 12, 12), torch.tensor([0, 1, 2, 0, 1, 2])
    wide = nn.Sequential(*front, nn.Flatten())(pixels.clone()).shape[1]
    module = nn.Sequential(*front, nn.Flatten(), nn.Linear(wide, 5), nn.ReLU(), nn.Linear(5, 3))
    chain = layer_chain_of(module, takes_images=True)
    assert chain is not None

    losses, gradients = chain(pixels.clone(), targets)

    expected = nn.functional.cross_entropy(module(pixels.clone()), targets, reduction="none")
    assert torch.equal(losses, expected)
    by_autograd = torch.autograd.grad(expected.mean(), list(module.parameters()))
    for mine, theirs in zip(gradients, by_autograd, strict=True):
        assert torch.equal(mine, theirs)


def test_other_models_and_layers_that_are_watched_are_left_to_autograd() -> None:
    def two() -> nn.Sequential:
        return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))

    def images(*layers: nn.Module) -> nn.Sequential:
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(6, 3))

    watched, frozen, biasless = two(), two(), nn.Sequential(nn.Linear(6, 3, bias=False))
    watched[1].register_forward_hook(lambda *_: None)
    frozen[0].weight.requires_grad_(False)
    square = nn.Linear(5, 5)
    tied = nn.Sequential(square, nn.ReLU(), square)

    assert isinstance(layer_chain_of(two(), takes_images=False), LayerChain)
    assert isinstance(layer_chain_of(nn.Sequential(nn.Linear(6, 3)), takes_images=False), LayerChain)
    others = [watched, frozen, biasless, tied, nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(6, 5)]
    assert [layer_chain_of(other, takes_images=False) for other in others] == [None] * len(others)

    assert isinstance(layer_chain_of(images(nn.Conv2d(1, 2, 3)), takes_images=True), LayerChain)
    unusual = [
        two(),
        images(nn.Conv2d(1, 2, 3, padding="same")),
        images(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")),
        images(nn.Conv2d(1, 2, 3), nn.Dropout()),
        images(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(2), nn.Linear(6, 3)),
        nn.Sequential(nn.Linear(6, 3), nn.Flatten(), nn.Linear(6, 3)),
    ]
    assert [layer_chain_of(other, takes_images=True) for other in unusual] == [None] * len(unusual)
    counted = two()
    with TorchFunctionMode():  # who counts a model's calls counts them all
        assert layer_chain_of(counted, takes_images=False) is None
