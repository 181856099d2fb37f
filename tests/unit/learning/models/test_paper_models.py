"""The papers' models besides MOHAWK's: their sizes counted by hand, and that they train."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from roambench.learning.layout import flatten, head_of, layout_of
from roambench.learning.models.build import build
from roambench.learning.models.catalogue import MODELS
from samples import sampled
from trained_with import trained_with

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("name", "channels", "parameters", "statistics"),
    [
        # 25*32+32 | 25*32*64+64 | 4096*512+512 | 512*10+10
        ("middle_cnn2", 1, 832 + 51_264 + 2_097_664 + 5_130, 0),
        # 27*32+32 | 9*32*64+64 | 9*64*64+64 | 1024*256+256 | 256*10+10
        ("middle_cnn3", 3, 896 + 18_496 + 36_928 + 262_400 + 2_570, 0),
        # 25*16+16 | 25*16*32+32 | 2048*128+128 | 128*10+10
        ("dfl_cnn", 1, 416 + 12_832 + 262_272 + 1_290, 0),
        ("gn_lenet", 3, 89_834, 0),
        ("resnet18", 3, 11_173_962, 9_600),
        ("resnet50", 3, 23_520_842, 53_120),
    ],
)
def test_the_number_of_parameters(name: str, channels: int, parameters: int, statistics: int):
    module = build(name, channels, 10)
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    assert layout_of(module).size == parameters + statistics


@pytest.mark.parametrize("name", [name for name in MODELS.own if name != "mlp"])
def test_the_number_of_parameters_that_its_description_states_is_that_of_the_model(name: str):
    told = re.search(
        r"([\d,]+)\s+parameters for (\d)\s+channels?(?: and|,)\s+10 classes", MODELS.load(name).__doc__ or ""
    )
    assert told is not None
    module = build(name, int(told[2]), 10)
    assert sum(parameter.numel() for parameter in module.parameters()) == int(told[1].replace(",", ""))


PICTURED = ("middle_cnn2", "middle_cnn3", "dfl_cnn", "gn_lenet", "resnet18")


@pytest.mark.parametrize("name", sampled(PICTURED[:-1], PICTURED))
def test_it_learns_to_tell_two_pictures_apart(name: str):
    module = build(name, 1, 2, seed=3)
    images = np.zeros((4, 1, 32, 32), dtype=np.float32)
    images[:2, :, :, :16] = 1.0
    images[2:, :, :, 16:] = 1.0
    arguments = {"batch_size": 4, "learning_rate": 0.02, "momentum": 0.9, "seed": 1}
    labels = np.array([0, 0, 1, 1])
    first = trained_with(module, images, labels, start=flatten(module), epochs=1, **arguments)
    last = trained_with(module, images, labels, start=first.vector, epochs=8, **arguments)
    assert last.mean_loss < 0.5 * first.mean_loss


def test_a_resnets_statistics_travel_with_the_model_and_its_counters_do_not():
    module = build("resnet18", 3, 10)
    names = layout_of(module).names
    assert "bn1.running_mean" in names
    assert not any("num_batches_tracked" in name for name in names)
    vector = flatten(module)
    offset = sum(parameter.numel() for parameter in module.parameters())
    # Statistics come behind the parameters: mean 0, variance 1 of the first norm's 64 channels.
    assert vector[offset : offset + 64].tolist() == [0.0] * 64
    assert vector[offset + 64 : offset + 128].tolist() == [1.0] * 64
    assert head_of(module) == slice(offset - 5_130, offset)


def test_resnet50s_shapes_halve_three_times():
    module = build("resnet50", 3, 7)
    with torch.no_grad():
        assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
