"""What local training minimises: name -> loss of every sample of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torch import Tensor
from torch.nn import functional

from roambench.learning import catalogue

#: (logits (n, classes), labels (n,)) -> losses (n,); training descends their mean.
Objective = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log softmax(logits)[label] of every sample, in nats."""
    return functional.cross_entropy(logits, labels, reduction="none")


OBJECTIVES: Final[dict[str, Objective]] = {"ce": cross_entropy}


def objective(name: str) -> Objective:
    """The objective called `name`; ConfigError lists the names there are."""
    return catalogue.find(OBJECTIVES, name, what="objective")
