"""The gradient of an objective's proximal terms, parameter by parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from roambench.contract.errors import ModelError
from roambench.contract.orders import Vector
from roambench.learning.objectives import Objective


class ProximalGradient:
    """Adds 2 strength (w - anchor) to gradients. `head`: entries of the flat model base-only terms spare."""

    def __init__(
        self,
        objective: Objective,
        parameters: Sequence[Tensor],
        start: Vector,
        global_model: Vector | None,
        head: slice,
    ) -> None:
        self._pulls: list[tuple[float, list[Tensor], list[int]]] = []
        for term in objective.proximal_terms:
            if term.strength == 0.0:
                continue
            anchor = start if term.anchor == "start" else global_model
            if anchor is None:
                raise ModelError("the objective needs the last global model, and this device holds none")
            pieces, chosen = [], []
            for index, (offset, parameter) in enumerate(_offsets(parameters)):
                if term.base_only and head.start <= offset < head.stop:
                    continue
                piece = np.require(anchor[offset : offset + parameter.numel()], requirements=("C", "W"))
                pieces.append(torch.from_numpy(piece).view(parameter.shape).to(parameter.dtype))
                chosen.append(index)
            self._pulls.append((2.0 * term.strength, pieces, chosen))

    def add_to(self, gradients: list[Tensor], parameters: Sequence[Tensor]) -> None:
        """Call without gradient recording; writes to `gradients`."""
        for scale, anchors, chosen in self._pulls:
            stretched = torch._foreach_sub([parameters[index] for index in chosen], anchors)
            torch._foreach_add_([gradients[index] for index in chosen], stretched, alpha=scale)


def _offsets(parameters: Sequence[Tensor]) -> list[tuple[int, Tensor]]:
    """Where each parameter begins in the flat model: parameters come first, in order."""
    found, offset = [], 0
    for parameter in parameters:
        found.append((offset, parameter))
        offset += math.prod(parameter.shape)
    return found
