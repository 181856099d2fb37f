"""Checks of what a system's rules return, which may be another package's; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roambench.contract.errors import PluginError
from roambench.contract.orders import Vector
from roambench.rounds.state import MEMORY_DTYPES
from roambench.systems.system import Memory
from roambench.vectors import Weights


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A new model of one AP, or of the cloud (`members` are then APs, else devices).

    `memory`: what the rule keeps from now on; None: what it kept before.
    """

    members: tuple[int, ...]
    model: Vector
    weights: Weights
    memory: Memory | None = None


def checked_aggregate(members: tuple[int, ...], answer: object, reference: Vector, where: str) -> Aggregate:
    """The new model that a system's rule returned for `members`.

    PluginError, beginning with `where`, for what is no pair of a finite model like `reference` and of a
    finite weight per member that add up to 1: it would poison every model of the run. So would a memory of
    anything but named, flat, finite vectors.
    """
    if not isinstance(answer, tuple) or len(answer) not in (2, 3):
        raise PluginError(
            f"{where}: expected a model, its weights and perhaps a memory, got {type(answer).__name__}"
        )
    model, weights = answer[0], np.asarray(answer[1])
    if not isinstance(model, np.ndarray) or model.shape != reference.shape or model.dtype != reference.dtype:
        got = f"{model.dtype} of {model.shape}" if isinstance(model, np.ndarray) else type(model).__name__
        raise PluginError(f"{where}: expected a model of {reference.dtype} of {reference.shape}, got {got}")
    if weights.shape != (len(members),) or weights.dtype.kind not in "fiu":
        raise PluginError(f"{where}: expected {len(members)} weights, got {weights.dtype} of {weights.shape}")
    if not np.isfinite(weights).all():  # before the model: they would be the cause
        raise PluginError(f"{where}: expected finite weights, got {weights.tolist()}")
    if not np.isfinite(model).all():
        raise PluginError(f"{where}: expected a finite model, got NaN or infinity in it")
    if not abs(float(weights.sum()) - 1.0) < 1e-4:
        raise PluginError(f"{where}: expected weights that add up to 1, got {weights.tolist()}")
    memory = checked_memory(answer[2], where) if len(answer) == 3 else None
    return Aggregate(members, model, np.asarray(weights, np.float64), memory)


def checked_memory(memory: object, where: str) -> Memory:
    """The memory of a rule, as checked; PluginError, beginning with `where`, for anything but named, flat,
    finite vectors."""
    if not isinstance(memory, Mapping):
        raise PluginError(f"{where}: expected a memory of named vectors, got {type(memory).__name__}")
    for name, vector in memory.items():
        if not isinstance(name, str):
            raise PluginError(f"{where}: memory: expected texts as names, got {name!r}")
        if not isinstance(vector, np.ndarray) or vector.dtype not in MEMORY_DTYPES or vector.ndim != 1:
            got = f"{vector.dtype} of {vector.shape}" if isinstance(vector, np.ndarray) else repr(vector)
            raise PluginError(
                f"{where}: memory[{name!r}]: expected a flat float32 or float64 vector, got {got}"
            )
        if not np.isfinite(vector).all():
            raise PluginError(
                f"{where}: memory[{name!r}]: expected finite numbers, got NaN or infinity in it"
            )
    return dict(memory)
