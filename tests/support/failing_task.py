"""A learning task that one device cannot do for ever: its memory suffices for young models alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from roambench.learning.datasets.dataset import Dataset
from roambench.learning.datasets.digits import load_digits
from roambench.learning.partition import Indices
from roambench.learning.partitions import PartitionRequest

FAILING = 2
#: In the corner of its images, where no digit has ink.
_MARK = 9.0
#: Steps of SGD behind a start model that its training still manages: those of one local update.
_MANAGES = 5.0


class FailingTask:
    """Scikit-learn's digits, 40 a device, and a perceptron that carries how many steps are behind it."""

    def load(self, folder: Path | None, download: bool) -> Dataset:
        digits = load_digits()
        images = digits.train_images.copy()
        images[FAILING::4, :, 0, 0] = _MARK
        return replace(digits, train_images=images)

    def partition(self, request: PartitionRequest) -> Sequence[Indices]:
        return [np.arange(device, 160, 4, dtype=np.int64) for device in range(4)]

    def build(self, in_channels: int, classes: int) -> nn.Module:
        return nn.Sequential(_Ageing(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(64, classes, device="meta"))


class _Ageing(nn.Module):
    """Passes images on. Its buffer is a part of the model, and so is averaged with it: an edge's model is as
    old as its devices' were on average, wherever and in whatever process they were trained."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, images: Tensor) -> Tensor:
        if self.training:
            steps: Tensor = self.get_buffer("steps")
            if float(steps) > 2.0 * _MANAGES - 0.5 and bool((images[:, 0, 0, 0] == _MARK).any()):
                raise RuntimeError("this board is out of memory")
            steps += 1.0
        return images
