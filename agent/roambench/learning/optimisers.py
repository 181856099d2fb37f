"""The optimisers of local training, by the name an experiment gives them: the arithmetic of torch's own
without importing it.

The first `torch.optim` step imports torch._dynamo: 1.55 CPU-seconds and 70 MB per process on a server core,
15-20 s on a Pi (estimate). These lines take 0.05 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.learning_spec import OPTIMISERS
from roambench.contract.orders import Vector

FIRST_DECAY: Final = 0.9
SECOND_DECAY: Final = 0.999
EPSILON: Final = 1e-8


@dataclass(slots=True)
class Sgd:
    """SGD with momentum and weight decay.

    v <- momentum v + (g + weight_decay w); w <- w - learning_rate v. One object per local training.

    `velocities` are the v that a training begins with, changed in place; None: as if all were 0.
    """

    parameters: list[Tensor]
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    velocities: list[Tensor] | None = None

    def step(self, gradients: list[Tensor]) -> None:
        """Move the parameters in place. Call without gradient recording; may write to `gradients`."""
        if self.weight_decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self.weight_decay)
        if self.momentum:
            if self.velocities is None:
                self.velocities = [gradient.clone() for gradient in gradients]
            else:
                torch._foreach_mul_(self.velocities, self.momentum)
                torch._foreach_add_(self.velocities, gradients)
            gradients = self.velocities
        torch._foreach_add_(self.parameters, gradients, alpha=-self.learning_rate)


@dataclass(slots=True)
class Adam:
    """Adam (Kingma and Ba, ICLR 2015).

    m <- .9 m + .1 g; v <- .999 v + .001 g^2; w <- w - learning_rate m' / (sqrt(v') + 1e-8).

    m' = m / (1 - .9^t) and v' = v / (1 - .999^t) are the means corrected for their start at 0;
    g includes weight_decay w. One object per local training.
    """

    parameters: list[Tensor]
    learning_rate: float
    weight_decay: float = 0.0
    _means: list[Tensor] = field(default_factory=list, init=False)
    _squares: list[Tensor] = field(default_factory=list, init=False)
    _steps: int = field(default=0, init=False)

    def step(self, gradients: list[Tensor]) -> None:
        """Move the parameters in place. Call without gradient recording; may write to `gradients`."""
        if self.weight_decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self.weight_decay)
        if not self._means:
            self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
            self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._steps += 1
        torch._foreach_mul_(self._means, FIRST_DECAY)
        torch._foreach_add_(self._means, gradients, alpha=1.0 - FIRST_DECAY)
        torch._foreach_mul_(self._squares, SECOND_DECAY)
        torch._foreach_addcmul_(self._squares, gradients, gradients, value=1.0 - SECOND_DECAY)
        roots = torch._foreach_sqrt(self._squares)
        torch._foreach_div_(roots, math.sqrt(1.0 - SECOND_DECAY**self._steps))
        torch._foreach_add_(roots, EPSILON)
        rate = self.learning_rate / (1.0 - FIRST_DECAY**self._steps)
        torch._foreach_addcdiv_(self.parameters, self._means, roots, value=-rate)


class Optimiser(Protocol):
    """The rule by which gradients move parameters."""

    learning_rate: float

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


def velocities_of(parameters: Sequence[Tensor], velocity: Vector) -> list[Tensor]:
    """The velocity that a training ended with (`velocity_of`), for the next: a tensor like each parameter.

    They are filled from the front of `velocity`; ModelError if that is too short.
    """
    if velocity.ndim != 1 or velocity.size < sum(parameter.numel() for parameter in parameters):
        raise ModelError(f"a velocity of shape {velocity.shape} does not fit the model")
    source = torch.from_numpy(np.require(velocity, requirements=("C", "W", "ALIGNED")))
    velocities, start = [], 0
    for parameter in parameters:
        piece = source[start : start + parameter.numel()].view(parameter.shape)
        velocities.append(torch.empty_like(parameter, requires_grad=False).copy_(piece))
        start += parameter.numel()
    return velocities


def velocity_of(velocities: Sequence[Tensor] | None, model: Vector) -> Vector | None:
    """The velocities as one flat vector, which can be kept; None if there are none.

    Shape and dtype are those of the flat `model`, with 0 where it holds buffers.
    """
    if velocities is None:
        return None
    vector: Vector = np.zeros_like(model)
    start = 0
    for velocity in velocities:
        piece = torch.from_numpy(vector[start : start + velocity.numel()])
        piece.view(velocity.shape).copy_(velocity)
        start += velocity.numel()
    return vector
