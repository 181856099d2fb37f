"""`learning.training.train` by the numbers that matter to a test; the others are these."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from torch import nn

from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Vector
from roambench.learning.shards import Shard
from roambench.learning.training import TrainingResult, train

SPEC = {"model": "", "in_channels": 1, "classes": 10, "momentum": 0.0, "weight_decay": 0.0, "shard": ""}


def trained_with(
    module: nn.Module,
    images: np.ndarray,
    labels: np.ndarray,
    start: Vector,
    *,
    global_model: Vector | None = None,
    head: slice = slice(0, 0),
    **numbers: Any,
) -> TrainingResult:
    """`numbers` are fields of `LocalTraining` and of `LearningSpec`."""
    own = {field.name for field in fields(LocalTraining)}
    training = LocalTraining(**{name: value for name, value in numbers.items() if name in own})
    shared = {name: value for name, value in numbers.items() if name not in own}
    spec = LearningSpec(**{**SPEC, **shared})
    return train(module, Shard(images, labels), start, training, spec, global_model=global_model, head=head)
