"""Models of a run as safetensors: named tensors that any tool opens, never pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
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
    about: Mapping[str, str] | None = None,
) -> Path:
    """Write a flat model to `path`, replaced as a whole; returns it.

    The model is float32, or float64 as in the float64 test mode, and has the shape (parameters,). With
    `names` and `shapes` (parallel, in the order of the vector) it becomes one tensor per entry, else one
    tensor "model". `about` goes into the file's metadata. Raises ModelError when they do not fit.
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
    tensors = {
        name: np.ascontiguousarray(piece.reshape(shape))
        for name, shape, piece in zip(names, shapes, pieces, strict=True)
    }
    # safetensors sorts by name inside the file; the order of the vector is kept in the metadata.
    metadata = {**(about or {}), "order": "\n".join(names)}
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, save(tensors, metadata))
    return path


def load_model(path: Path) -> Vector:
    """The flat vector that `save_model` wrote, shape (parameters,); RunError or ModelError otherwise."""
    return np.concatenate([tensor.ravel() for tensor in load_tensors(path).values()])


def load_tensors(path: Path) -> dict[str, Vector]:
    """The tensors that `save_model` wrote, by name, in the model's order; RunError or ModelError if not."""
    if not path.is_file():
        raise RunError(f"{path}: no such model")
    try:
        # By its descriptor: safetensors takes only names in UTF-8.
        with path.open("rb") as source, safe_open(f"/proc/self/fd/{source.fileno()}", "numpy") as file:
            order = (file.metadata() or {}).get("order", "").split("\n")
            if set(order) != set(file.keys()):
                raise ModelError(f"{path}: was not written by a run (its tensors have no order)")
            return {name: file.get_tensor(name) for name in order}
    except SafetensorError as error:
        raise ModelError(f"{path}: {error}") from None
