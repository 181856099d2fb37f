"""An SGD step of a virtual device takes longer the more its model computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from roambench.experiment.sections import Experiment
from roambench.runner.step_time import _Counted, board_step_s
from roambench.runner.world import learning_task_of


def step_s(model: str = "mohawk_cnn", batch_size: int = 8, **simulated: float) -> float:
    experiment = Experiment.model_validate(
        {
            "systems": ["hierfavg"],
            "fleet": {"agents": 2},
            "learning": {"model": model, "images_per_device": 8, "batch_size": batch_size},
            "synthetic": {"train_images": 64, "test_images": 16},
            "simulated": simulated,
        }
    )
    return board_step_s(experiment, learning_task_of(experiment, 2))


def test_mohawks_cnn_takes_what_it_was_assumed_to_take() -> None:
    assert step_s() == pytest.approx(0.40, abs=0.005)


def test_the_batch_and_the_speed_scale_the_operations_alone() -> None:
    calls_s = 2 * step_s() - step_s(batch_size=16)
    assert 0.001 < calls_s < 0.02
    assert step_s(gflop_s=4.8) == pytest.approx(calls_s + 0.5 * (step_s() - calls_s))


def test_models_differ_as_on_a_processor() -> None:
    # CPU-seconds of one thread of a server, relative to MOHAWK's CNN: 0.34, 1.0, 0.55, 22.
    assert 0.1 < step_s("dfl_cnn") / step_s() < 0.7
    assert 0.5 < step_s("middle_cnn2") / step_s() < 2.0
    assert step_s("mlp") < 0.01 * step_s()
    assert 11.0 < step_s("resnet18") / step_s() < 44.0


def test_the_perceptron_takes_what_kept_figures_were_made_with() -> None:
    assert step_s("mlp") == pytest.approx(0.00274736)


def test_given_seconds_are_the_models_own() -> None:
    assert step_s(sgd_step_s=0.7) == 0.7


@pytest.mark.parametrize(
    ("module", "shape", "products"),
    [
        (nn.Linear(3, 5), (7, 3), 7 * 3 * 5),
        (nn.Conv1d(2, 4, 3, padding=1), (6, 2, 10), 6 * 10 * 4 * 2 * 3),
        (nn.Conv2d(4, 8, 3, padding=1, groups=2), (2, 4, 5, 5), 2 * 25 * 8 * 2 * 9),
        (nn.ConvTranspose2d(3, 2, 2, stride=2), (1, 3, 4, 4), 16 * 3 * 2 * 4),
        (nn.LSTM(3, 5, num_layers=2, batch_first=True), (2, 7, 3), 14 * 4 * (5 * (3 + 5) + 5 * (5 + 5))),
        (nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()), (4, 3), 0),
    ],
    ids=["linear", "conv1d", "grouped", "transposed", "lstm", "entries"],
)
def test_products_by_hand(module: nn.Module, shape: tuple[int, ...], products: int) -> None:
    with _Counted() as counted:
        module(torch.zeros(shape))
    assert counted.products == products


def test_attention_has_four_projections_and_two_products() -> None:
    tokens, batch, width = 6, 2, 8
    inputs = torch.zeros(tokens, batch, width)
    attention = nn.MultiheadAttention(width, 2)
    with _Counted() as counted:
        attention(inputs, inputs, inputs)
    assert counted.products == batch * (4 * tokens * width * width + 2 * tokens * tokens * width)
