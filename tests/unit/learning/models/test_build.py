from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from roambench.contract.errors import ConfigError
from roambench.learning.layout import flatten, layout_of
from roambench.learning.models.build import build, draw_weights
from roambench.learning.models.catalogue import MODELS


@pytest.mark.parametrize(
    ("in_channels", "classes", "parameters"),
    [(1, 10, 659_242), (3, 10, 659_818), (1, 62, 685_918), (3, 100, 705_988)],
    ids=["mnist", "cifar-10", "emnist-byclass", "cifar-100"],
)
def test_mohawks_cnn_has_the_published_number_of_parameters(in_channels: int, classes: int, parameters: int):
    module = build("mohawk_cnn", in_channels, classes)
    assert layout_of(module).size == parameters
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters


def test_mohawks_cnn_is_the_function_with_relu_before_pooling():
    module = build("mohawk_cnn", 1, 10, seed=4)
    weights = dict(module.named_parameters())
    convolutions = [tensor for tensor in weights.values() if tensor.dim() == 4]
    (hidden, hidden_bias), (out, out_bias) = [
        (tensor, weights[name.replace("weight", "bias")])
        for name, tensor in weights.items()
        if tensor.dim() == 2
    ]
    images = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 1, 32, 32)).astype(np.float32))
    x = images
    for index, kernel in enumerate(convolutions):
        x = functional.relu(functional.conv2d(x, kernel, padding=1))
        if index in (0, 2, 4):
            x = functional.max_pool2d(x, 2)
    x = functional.relu(functional.linear(x.flatten(1), hidden, hidden_bias))
    expected = functional.linear(x, out, out_bias)
    assert expected.shape == (3, 10)
    torch.testing.assert_close(module(images), expected, rtol=0, atol=1e-5)


def test_weights_are_kaiming_normal_and_biases_zero():
    module = build("mohawk_cnn", 1, 10, seed=1)
    for name, parameter in module.named_parameters():
        values = parameter.detach().numpy()
        if values.ndim == 1:
            assert not values.any()
            continue
        expected = math.sqrt(2.0 / (values.size / len(values)))
        # The standard error of a deviation over n draws is sigma / sqrt(2 n); 5 of them.
        assert values.std() == pytest.approx(expected, rel=5 / math.sqrt(2 * values.size)), name
        assert abs(values.mean()) < 5 * expected / math.sqrt(values.size), name


def test_equal_seeds_give_equal_models_and_other_seeds_other_ones():
    first, again, other = (flatten(build("mlp", 1, 10, seed)) for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_building_a_model_leaves_torchs_global_generator_alone():
    state = torch.get_rng_state()
    build("mohawk_cnn", 1, 10, seed=3)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_unknown_model_is_answered_with_the_names_there_are():
    with pytest.raises(ConfigError, match=r"unknown model 'vgg': expected one of .*mlp.*mohawk_cnn"):
        build("vgg", 1, 10)
    assert {"mlp", "mohawk_cnn"} <= set(MODELS.names())


class Hollow(nn.Module):
    """Parameters without entries, and one without axes whose name ends as those of `spectral_norm` do."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in (("wide", (3, 0)), ("short", (0,)), ("gate_u", ()), ("bias", (3,))):
            setattr(self, name, nn.Parameter(torch.empty(shape, device="meta")))


def test_parameters_without_entries_have_nothing_to_draw():
    module = Hollow()
    draw_weights(module, seed=1)
    assert [tuple(parameter.shape) for parameter in module.parameters()] == [(3, 0), (0,), (), (3,)]
    assert flatten(module).tolist() == [0.0] * 4
