"""The optimisers of local training, by the name an experiment gives them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from roambench.contract.errors import ConfigError
from roambench.contract.learning_spec import OPTIMISERS
from roambench.learning.adam import Adam
from roambench.learning.sgd import Sgd


class Optimiser(Protocol):
    """The rule by which gradients move parameters."""

    def step(self, gradients: list[Tensor]) -> None:
        """Move the parameters in place. Call without gradient recording; may write to `gradients`."""


def optimiser_of(
    name: str, parameters: list[Tensor], learning_rate: float, momentum: float, weight_decay: float
) -> Optimiser:
    """A new optimiser over `parameters`. ConfigError for an unknown name."""
    if name == "adam":
        return Adam(parameters, learning_rate, weight_decay)
    if name != "sgd":
        raise ConfigError([f"optimiser {name!r}: expected one of {', '.join(OPTIMISERS)}"])
    return Sgd(parameters, learning_rate, momentum, weight_decay)
