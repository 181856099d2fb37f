"""How a module's state lies in a flat vector: names and shapes in order, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from roambench.contract.errors import ModelError
from roambench.contract.orders import Vector


@dataclass(frozen=True, slots=True)
class Layout:
    """The entries of a flat model: parameters first, then floating-point buffers, each in row-major order."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    trained: int = 0  # entries of the parameters, which come first

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def fingerprint(self) -> str:
        """BLAKE2b-128 over names and shapes, 32 hex digits: what a model blob's header carries."""
        text = json.dumps([self.names, self.shapes], separators=(",", ":")).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()


def layout_of(module: nn.Module) -> Layout:
    """The layout of `module`; integer buffers (step counters) are not part of a model."""
    entries = list(_entries(module))
    return Layout(
        tuple(name for name, _ in entries),
        tuple(tuple(entry.shape) for _, entry in entries),
        sum(parameter.numel() for parameter in module.parameters()),
    )


def head_of(module: nn.Module) -> slice:
    """Where the last fully connected layer lies in the flat vector (MIDDLE+'s local head); empty if none."""
    head, start = slice(0, 0), 0
    owners = {name for name, part in module.named_modules() if isinstance(part, nn.Linear)}
    last = ""
    for name, parameter in module.named_parameters():
        owner = name.rpartition(".")[0]
        stop = start + parameter.numel()
        if owner in owners:
            head = slice(head.start if owner == last else start, stop)
            last = owner
        start = stop
    return head


def dtype_of(module: nn.Module) -> torch.dtype:
    """float64 for a module of the test mode, whose first parameter is; float32 for any other."""
    first = next(module.parameters(), None)
    return torch.float64 if first is not None and first.dtype == torch.float64 else torch.float32


def flatten(module: nn.Module) -> Vector:
    """A copy of the module's state in its `dtype_of`, shape (layout.size,), whatever its memory format."""
    entries = [entry for _, entry in _entries(module)]
    kind = np.float64 if dtype_of(module) == torch.float64 else np.float32
    vector: Vector = np.empty(sum(entry.numel() for entry in entries), dtype=kind)
    start = 0
    for entry in entries:
        piece = torch.from_numpy(vector[start : start + entry.numel()])
        piece.view(entry.shape).copy_(entry)
        start += entry.numel()
    return vector


def load(module: nn.Module, vector: Vector) -> None:
    """Copy `vector` into the module in place, rounded if need be. ModelError if its length is another."""
    entries = [entry for _, entry in _entries(module)]
    size = sum(entry.numel() for entry in entries)
    if vector.shape != (size,):
        raise ModelError(f"the model has {size} parameters, the vector shape {vector.shape}")
    # A decoded blob is a read-only view, which torch will not wrap.
    source = torch.from_numpy(np.require(vector, requirements=("C", "W", "ALIGNED")))
    start = 0
    for entry in entries:
        entry.copy_(source[start : start + entry.numel()].view(entry.shape))
        start += entry.numel()


def _entries(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in module.named_parameters():
        yield name, parameter.detach()
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point():
            yield name, buffer.detach()
