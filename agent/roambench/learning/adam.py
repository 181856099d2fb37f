"""Adam (Kingma and Ba, ICLR 2015), the arithmetic of torch.optim.Adam without importing it (see `sgd`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

FIRST_DECAY: Final = 0.9
SECOND_DECAY: Final = 0.999
EPSILON: Final = 1e-8


@dataclass(slots=True)
class Adam:
    """m <- .9 m + .1 g; v <- .999 v + .001 g^2; w <- w - learning_rate m' / (sqrt(v') + 1e-8).

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
