"""The networks and the local training that one writes first: what all contenders but roambench run.

ReLU before pooling, default memory layout, torch.optim.SGD. "mohawk" is MOHAWK's CNN for 1x32x32 images,
659,242 parameters; "wide" halves its 1x28x28 images only twice: 1,740,874 parameters, 6.96 MB.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SIDES = {"mohawk": 32, "wide": 28}  # pixels


def network(name: str) -> nn.Sequential:
    if name == "mohawk":
        first, bias, flat = [conv(1, 32, False), nn.ReLU(), nn.MaxPool2d(2)], False, 64 * 4 * 4
    else:
        first, bias, flat = [conv(1, 32, True), nn.ReLU()], True, 64 * 7 * 7
    return nn.Sequential(
        *first,
        *double_block(32, 64, bias),
        *double_block(64, 64, bias),
        nn.Flatten(),
        nn.Linear(flat, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def conv(inputs: int, outputs: int, bias: bool) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=bias)


def double_block(inputs: int, outputs: int, bias: bool) -> list[nn.Module]:
    return [
        conv(inputs, outputs, bias),
        nn.ReLU(),
        conv(outputs, outputs, bias),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]


def load_vector(module: nn.Module, vector: np.ndarray) -> None:
    nn.utils.vector_to_parameters(torch.from_numpy(np.array(vector)), module.parameters())


def vector_of(tensors: Iterable[torch.Tensor]) -> np.ndarray:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy()


def train_client(
    module: nn.Module, images: np.ndarray, labels: np.ndarray, order: np.ndarray, case: object
) -> None:
    """One epoch of mini-batch SGD with a new optimiser, in the order given."""
    inputs, targets = torch.from_numpy(np.array(images)), torch.from_numpy(np.array(labels))
    inputs = inputs.to(next(module.parameters()).dtype)
    optimiser = torch.optim.SGD(
        module.parameters(), lr=case.learning_rate, momentum=case.momentum, weight_decay=case.weight_decay
    )
    for chosen in torch.from_numpy(np.array(order)).split(case.batch_size):
        optimiser.zero_grad()
        functional.cross_entropy(module(inputs[chosen]), targets[chosen]).backward()
        optimiser.step()
