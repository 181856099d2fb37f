"""A learning task with BatchNorm and its own loss, small enough for a busy machine: scikit-learn's digits."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from roambench.learning.datasets.dataset import Dataset
from roambench.learning.datasets.digits import load_digits


class BatchNormTask:
    """Statistics of two kinds (averages and integer counts of batches) beside the weights."""

    def load(self, folder: Path | None, download: bool) -> Dataset:
        return load_digits()

    def build(self, in_channels: int, classes: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(in_channels, 8, 3, padding=1, bias=False, device="meta"),
            nn.BatchNorm2d(8, device="meta"),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(128, classes, device="meta"),
        )

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1)
