"""Scores of a flat model on a test set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor, nn

from roambench.contract.errors import error_text
from roambench.contract.orders import Vector
from roambench.learning.layout import flatten, in_memory_format, load, others_restored
from roambench.learning.local_algorithms import cross_entropy
from roambench.learning.shards import Classes, Images

if TYPE_CHECKING:
    from roambench.learning.local_algorithms import SampleLoss

_BATCH: Final = 64  # images that a model is asked about at once


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accuracy and loss of a model on a test set, and what a task has in its `metrics`, by name."""

    accuracy: float | None  # 0..1; None where labels are no classes
    loss: float  # mean cross-entropy, nats, or the mean of a task's own
    metrics: Mapping[str, float] = field(default_factory=dict)


def evaluate(
    module: nn.Module,
    vector: Vector,
    images: Images,
    labels: Classes,
    *,
    batch_size: int = _BATCH,
    loss: SampleLoss = cross_entropy,
    by_class: bool = False,
    bfloat16: bool = False,
) -> Evaluation:
    """Score `vector` on (n, channels, height, width) images; the module's own state is overwritten.

    Ties between classes go to the lower one. The `loss` of samples is summed in float64 in the order of the
    images, so the score does not depend on the machine's load; it is NaN or infinite if the model's outputs
    are. `by_class`: metrics "class 0", ... are the shares of each class's images that are recognised.
    `bfloat16`: convolutions and products in bfloat16, the rest in float32.
    """
    if len(labels) == 0 or len(images) != len(labels):
        raise ValueError(f"cannot score on {len(images)} images with {len(labels)} labels")
    chosen, whole = np.empty(len(labels), dtype=np.int64), 0.0
    for start, logits in _answers(module, vector, images, batch_size, bfloat16):
        targets = torch.from_numpy(np.require(labels[start : start + batch_size], np.int64, ("C", "W")))
        losses = loss(logits, targets)
        whole += float(np.sum(losses.numpy(), dtype=np.float64))
        chosen[start : start + batch_size] = logits.argmax(dim=1).numpy()
    right = chosen == labels
    classes = np.unique(labels).tolist() if by_class else []
    metrics = {f"class {label}": float(right[labels == label].mean()) for label in classes}
    return Evaluation(int(right.sum()) / len(labels), whole / len(labels), metrics)


def wrong_outputs(module: nn.Module, images: Images, classes: int) -> str:
    """Return what is wrong with the model's outputs for some images if they are scores of that many classes;
    "" if nothing is. More outputs than classes are allowed: no label names them."""
    try:
        ((_, answer),) = _answers(module, flatten(module), images, len(images))
    except (Exception, SystemExit) as error:  # of the user's model
        return f"its forward fails: {error_text(error)}"
    return wrong_scores(answer, len(images), classes)


def wrong_scores(found: object, count: int, classes: int) -> str:
    """The same of outputs that a model has given for `count` images."""
    wanted = f"expected outputs of shape ({count}, {classes}), one per class, for {count} images"
    if not isinstance(found, Tensor):
        return f"{wanted}, got {type(found).__name__}"
    if not found.is_floating_point() or found.ndim != 2 or len(found) != count:
        return f"{wanted}, got {found.dtype} of shape {tuple(found.shape)}"
    return "" if found.shape[1] >= classes else f"{wanted}, got shape {tuple(found.shape)}"


def outputs(module: nn.Module, vector: Vector, images: Images) -> Tensor:
    """Return what the flat model `vector` gives for (n, channels, height, width) images, (n, ...): a task's
    `evaluate` begins with it. The module's own state is overwritten, and it is asked in batches.
    """
    return torch.cat([found for _, found in _answers(module, vector, images, _BATCH)])


def _answers(
    module: nn.Module, vector: Vector, images: Images, batch_size: int, bfloat16: bool = False
) -> Iterator[tuple[int, Tensor]]:
    """Batch by batch the first image's index, and the model's outputs."""
    load(module, vector)
    memory_format = torch.channels_last  # half the time of a CNN, but not all models take it
    was_training = module.training
    module.eval()
    with others_restored(module), torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        for start in range(0, len(images), batch_size):
            pixels = torch.from_numpy(np.require(images[start : start + batch_size], np.float32, ("C", "W")))
            try:
                found = _asked(module, pixels, memory_format)
            except RuntimeError:
                if memory_format is torch.contiguous_format:
                    raise
                memory_format = torch.contiguous_format
                found = _asked(module, pixels, memory_format)
            yield start, found.float() if bfloat16 else found
    module.train(was_training)


def _asked(module: nn.Module, pixels: Tensor, memory_format: torch.memory_format) -> Tensor:
    """The outputs of the module, its weights and the images both in this memory format."""
    in_memory_format(module, memory_format)
    with torch.inference_mode():
        outputs: Tensor = module(pixels.contiguous(memory_format=memory_format))
    return outputs
