"""Calls of a local algorithm's functions, and the vectors that they see, as tensors and flat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from roambench.contract.errors import ModelError, RoambenchError, error_text
from roambench.contract.orders import Vector
from roambench.learning.local_algorithms import LocalAlgorithm, cross_entropy
from roambench.learning.task_parts import own_loss, wrong_losses

if TYPE_CHECKING:
    from roambench.learning.local_algorithms import SampleLoss


def hooked(algorithm: str, hook: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the local algorithm returns; ModelError, in one sentence, where it fails."""
    try:
        return hook(*arguments)
    except RoambenchError:
        raise
    except (Exception, SystemExit) as error:
        name = getattr(hook, "__name__", type(hook).__name__)
        raise ModelError(f"local algorithm {algorithm!r}: {name} fails with {error_text(error)}") from error


def sample_loss(text: str, algorithm: LocalAlgorithm, task: str) -> SampleLoss:
    """The loss that training by the `algorithm` that `text` spells descends: its own, and where that is
    cross-entropy the task's, if it has one. It raises ModelError or ConfigError where it fails."""
    if algorithm.loss is cross_entropy and (own := own_loss(task)) is not None:
        return own

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = hooked(text, algorithm.loss, logits, labels)
        if wrong := wrong_losses(found, labels):
            raise ModelError(f"loss of {text!r}: {wrong}")
        return found

    return loss


def cut_up(
    names: Iterable[str], flat: Vector | None, parameters: Sequence[Tensor]
) -> dict[str, list[Tensor]]:
    """The vectors that lie in `flat` one behind the other, each as tensors like `parameters`; all zeros for
    None. ModelError where it is too short."""
    found: dict[str, list[Tensor]] = {}
    place = 0
    wanted = tuple(names)
    needed = len(wanted) * sum(parameter.numel() for parameter in parameters)
    if flat is not None and flat.size < needed:
        raise ModelError(f"{', '.join(wanted)}: expected {needed} entries in all, got {flat.size}")
    for name in wanted:
        tensors = []
        for parameter in parameters:
            tensor = torch.zeros_like(parameter, requires_grad=False)
            if flat is not None:
                piece = np.require(
                    flat[place : place + parameter.numel()], requirements=("C", "W", "ALIGNED")
                )
                tensor.copy_(torch.from_numpy(piece).view(parameter.shape))
            tensors.append(tensor)
            place += parameter.numel()
        found[name] = tensors
    return found


def joined(
    algorithm: str,
    where: str,
    names: Iterable[str],
    vectors: Mapping[str, Sequence[Tensor]],
    parameters: Sequence[Tensor],
    dtype: np.dtype[Any],
) -> Vector:
    """The inverse of `cut_up`. ModelError for other names, other shapes, and what is not finite."""
    pieces: list[Vector] = [np.empty(0, dtype)]
    wanted = tuple(names)
    if not isinstance(vectors, Mapping) or set(vectors) != set(wanted):
        got = sorted(map(str, vectors)) if isinstance(vectors, Mapping) else type(vectors).__name__
        raise ModelError(f"local algorithm {algorithm!r}: {where}: expected {sorted(wanted)}, got {got}")
    shapes = [tuple(parameter.shape) for parameter in parameters]
    for name in wanted:
        try:
            got_shapes = [tuple(tensor.shape) for tensor in vectors[name]]
        except (TypeError, AttributeError):
            got_shapes = []
        if got_shapes != shapes:
            raise ModelError(
                f"local algorithm {algorithm!r}: {where}: {name}: expected tensors like the {len(shapes)} "
                "parameters of the model"
            )
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in vectors[name]]).numpy().astype(dtype)
        if not np.isfinite(flat).all():
            raise ModelError(f"local algorithm {algorithm!r}: {where}: {name} holds NaN or infinity")
        pieces.append(flat)
    return np.concatenate(pieces)
