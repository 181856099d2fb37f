"""The velocity of SGD's momentum as a flat vector, so that it can be kept between two trainings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from roambench.contract.errors import ModelError
from roambench.contract.orders import Vector


def velocities_of(parameters: Sequence[Tensor], velocity: Vector) -> list[Tensor]:
    """A tensor like each parameter, filled from the front of `velocity`; ModelError if that is too short."""
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
    """Shape and dtype of the flat `model`, 0 where it holds buffers; None if there are no velocities."""
    if velocities is None:
        return None
    vector: Vector = np.zeros_like(model)
    start = 0
    for velocity in velocities:
        piece = torch.from_numpy(vector[start : start + velocity.numel()])
        piece.view(velocity.shape).copy_(velocity)
        start += velocity.numel()
    return vector
