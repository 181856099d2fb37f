"""Models of a run as safetensors: named tensors that any tool opens, never pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from roambench.contract.errors import ModelError, RunError
from roambench.contract.orders import Vector
from roambench.contract.whole_file import write_whole
from roambench.runs.database import naming


def save_model(
    path: Path,
    model: Vector,
    *,
    names: Sequence[str] = (),
    shapes: Sequence[tuple[int, ...]] = (),
    companions: Mapping[str, str | npt.NDArray[Any]] | None = None,
    about: Mapping[str, str] | None = None,
) -> Path:
    """Write a flat model to `path`, replaced as a whole; returns it.

    The model is float32, or float64 as in the float64 test mode, and has the shape (parameters,). With
    `names` and `shapes` (parallel, in the order of the vector) it becomes one tensor per entry, else one
    tensor "model". `companions` are tensors that the module has besides: another name of an entry (tied
    weights), or values. `about` goes into the file's metadata. Raises ModelError when they do not fit.
    """
    if len(names) != len(shapes):
        raise ModelError(f"{path.name}: {len(names)} names for {len(shapes)} shapes")
    names, shapes = (names, shapes) if names else (("model",), ((model.size,),))
    sizes = [math.prod(shape) for shape in shapes]
    if model.dtype not in (np.float32, np.float64) or model.shape != (sum(sizes),):
        raise ModelError(
            f"{path.name}: expected {sum(sizes)} float32 or float64 values, "
            f"got {model.dtype} of shape {model.shape}"
        )
    pieces = np.split(model, np.cumsum(sizes)[:-1])
    tensors: dict[str, npt.NDArray[Any]] = {
        name: piece.reshape(shape) for name, shape, piece in zip(names, shapes, pieces, strict=True)
    }
    for name, values in (companions or {}).items():
        tensors[name] = tensors[values] if isinstance(values, str) else values
    # safetensors sorts by name inside the file; the order of the vector is kept in the metadata.
    metadata = {**(about or {}), "order": "\n".join(names)}
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, save(tensors, metadata))
    return path


def load_model(path: Path) -> Vector:
    """The flat vector that `save_model` wrote, shape (parameters,); RunError or ModelError otherwise."""
    order, tensors = _load(path)
    return np.concatenate([tensors[name].ravel() for name in order])


def load_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The tensors that `save_model` wrote, by name, those of the vector first and in its order: what the
    module's `load_state_dict` takes. RunError or ModelError if they cannot be read."""
    return _load(path)[1]


def _load(path: Path) -> tuple[list[str], dict[str, npt.NDArray[Any]]]:
    """The names of the vector's entries in its order, and all tensors."""
    if not path.is_file():
        raise RunError(f"{path}: no such model")
    try:
        # By its descriptor: safetensors takes only names in UTF-8.
        with path.open("rb") as source, safe_open(f"/proc/self/fd/{source.fileno()}", "numpy") as file:
            order = (file.metadata() or {}).get("order", "").split("\n")
            others = sorted(set(file.keys()) - set(order))
            if not set(order) <= set(file.keys()):
                raise ModelError(f"{path}: was not written by a run (its tensors have no order)")
            return order, {name: file.get_tensor(name) for name in (*order, *others)}
    except SafetensorError as error:
        raise ModelError(f"{path}: {error}") from None
