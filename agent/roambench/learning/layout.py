"""The layout of a module's state in a flat vector: names and shapes in order, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from roambench.contract.errors import ModelError
from roambench.contract.orders import Vector

#: Buffers whose first values are known where a module was built without values.
_OF_NORMS: Final = ("running_mean", "running_var", "num_batches_tracked", "_u", "_v")


@dataclass(frozen=True, slots=True)
class Layout:
    """The entries of a flat model: parameters first, then floating-point buffers, each in row-major order.

    Tied weights are one entry. Buffers of integers (step counters), and those that `state_dict` leaves out,
    are no entries: they do not travel, and every training begins with them as the model was built.
    """

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
    """The layout of `module`."""
    entries = list(_entries(module))
    return Layout(
        tuple(name for name, _ in entries),
        tuple(tuple(entry.shape) for _, entry in entries),
        sum(parameter.numel() for parameter in module.parameters()),
    )


def head_of(module: nn.Module) -> slice:
    """Return where the last fully connected layer lies in the flat vector (MIDDLE+'s local head); empty if
    none."""
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


class State:
    """The tensors of a module's state, found in one walk: for a small model that lasts as long as an SGD
    step."""

    def __init__(self, module: nn.Module) -> None:
        parameters, buffers = _members(module)
        self.parameters = [parameter for _, parameter in parameters]
        self._entries = [tensor.detach() for _, tensor in _chosen(module, parameters, buffers)]
        self._sizes = [entry.numel() for entry in self._entries]
        self.dtype = dtype_of(module)

    def flat(self) -> Vector:
        """The module's state as `flatten` returns it."""
        kind = np.float64 if self.dtype == torch.float64 else np.float32
        vector: Vector = np.empty(sum(self._sizes), dtype=kind)
        for piece, entry in zip(_pieces(vector, self._sizes), self._entries, strict=True):
            piece.view(entry.shape).copy_(entry)
        return vector

    def load(self, vector: Vector) -> None:
        """Do what `load` does to the module."""
        if vector.shape != (sum(self._sizes),):
            raise ModelError(f"the model has {sum(self._sizes)} parameters, the vector shape {vector.shape}")
        # A decoded blob is a read-only view, which torch will not wrap.
        source = np.require(vector, requirements=("C", "W", "ALIGNED"))
        for piece, entry in zip(_pieces(source, self._sizes), self._entries, strict=True):
            entry.copy_(piece.view(entry.shape))

    def in_slice(self, head: slice) -> list[bool]:
        """Return which entries begin in this part of the flat model."""
        offsets = accumulate([0, *self._sizes])
        return [head.start <= offset < head.stop for offset, _ in zip(offsets, self._sizes, strict=False)]


def _pieces(vector: Vector, sizes: list[int]) -> tuple[torch.Tensor, ...]:
    return torch.split_with_sizes(torch.from_numpy(vector), sizes)


def dtype_of(module: nn.Module) -> torch.dtype:
    """float64 for a module of the test mode, whose first parameter is; float32 for any other."""
    first = next(module.parameters(), None)
    return torch.float64 if first is not None and first.dtype == torch.float64 else torch.float32


def flatten(module: nn.Module) -> Vector:
    """A copy of the module's state in its `dtype_of`, shape (layout.size,), from any memory format."""
    return State(module).flat()


def load(module: nn.Module, vector: Vector) -> None:
    """Copy `vector` into the module in place, rounded if need be. ModelError if its length is another."""
    State(module).load(vector)


def in_memory_format(module: nn.Module, memory_format: torch.memory_format) -> None:
    """Give the module's kernels this memory format. A buffer with several names stays one, which `Module.to`
    alone would not see to."""
    owners: dict[int, list[tuple[nn.Module, str]]] = {}
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None:
                owners.setdefault(id(buffer), []).append((part, name))
    module.to(memory_format=memory_format)  # type: ignore[call-overload]  # the stub wants a tensor with it
    for (part, name), *others in owners.values():
        for other, other_name in others:
            other._buffers[other_name] = part._buffers[name]


@contextmanager
def others_restored(module: nn.Module) -> Iterator[None]:
    """Behind the body, the buffers that are no entries of the layout are as they were before it; those that a
    forward pass filled or registered are gone. Entries that it put others in the place of have their values.
    ModelError where an entry has another shape or no floating-point values any more."""
    parts = [(prefix, part, dict(part._buffers)) for prefix, part in module.named_modules()]
    shapes: dict[int, torch.Size] = {}
    values: dict[int, torch.Tensor] = {}
    if any(buffers for *_, buffers in parts):
        shapes = {id(tensor): tensor.shape for _, tensor in _tensors(module)}
        found = (buffer for *_, buffers in parts for buffer in buffers.values() if buffer is not None)
        values = {id(buffer): buffer.clone() for buffer in found if id(buffer) not in shapes}
    problems: list[str] = []
    try:
        yield
    finally:
        for prefix, part, buffers in parts:
            for name in part._buffers.keys() - buffers.keys():
                delattr(part, name)
            for name, buffer in buffers.items():
                now = part._buffers.get(name)
                if buffer is None:
                    pass
                elif (before := values.get(id(buffer))) is not None:
                    buffer.resize_(before.shape).copy_(before)
                elif now is None or not now.is_floating_point() or now.shape != shapes[id(buffer)]:
                    got = "none" if now is None else f"{now.dtype} of shape {tuple(now.shape)}"
                    wanted = f"floating-point values of shape {tuple(shapes[id(buffer)])}, as built"
                    problems.append(f"{prefix}{'.' * bool(prefix)}{name}: expected {wanted}, got {got}")
                    buffer.resize_(shapes[id(buffer)])
                elif now is not buffer:
                    buffer.copy_(now.detach())
                if now is not buffer:
                    setattr(part, name, buffer)
    if problems:
        raise ModelError("; ".join(problems))


def companions_of(module: nn.Module) -> dict[str, str | npt.NDArray[Any]]:
    """Return what `state_dict` has besides the entries of the layout: for another name of one (tied weights)
    that entry's name, for a buffer of integers its values."""
    # Of tied weights every name has the same tensor.
    entries = {tensor.data_ptr(): name for name, tensor in _entries(module) if tensor.numel()}
    names = {name for name, _ in _entries(module)}
    found: dict[str, str | npt.NDArray[Any]] = {}
    for name, tensor in module.state_dict().items():
        if name not in names and isinstance(tensor, torch.Tensor):
            found[name] = entries.get(tensor.data_ptr()) or tensor.numpy().copy()
    return found


def misfits_of(module: nn.Module) -> list[str]:
    """State that no flat model could hold, each part of it with what was expected."""
    problems = [
        f"{name or 'the model'}: expected parameters and buffers alone as state, got get_extra_state"
        for name, part in module.named_modules()
        if type(part).get_extra_state is not nn.Module.get_extra_state
    ]
    problems += [
        f"{name}: expected dense gradients, got sparse=True"
        for name, part in module.named_modules()
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse
    ]
    for name, entry in _tensors(module):
        if is_lazy(entry):
            problems.append(f"{name} has no shape: expected the sizes of its layer, got a lazy module")
            continue
        kept = "" if isinstance(entry, nn.Parameter) else ", or a buffer with persistent=False"
        if entry.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            problems.append(f"{name}: expected float32, in which models travel{kept}, got {entry.dtype}")
        elif not entry.is_meta and entry.layout is torch.strided and not entry.isfinite().all():
            problems.append(f"{name}: expected finite values{kept}, got NaN or infinity")
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.layout is not torch.strided:
            problems.append(f"{name}: expected a dense tensor, got {tensor.layout}")
        elif isinstance(tensor, nn.Parameter):
            if not tensor.requires_grad:
                problems.append(f"{name}: expected a trained parameter or a buffer, got a frozen parameter")
        elif tensor.is_meta and not name.endswith(_OF_NORMS):
            problems.append(f"{name}: expected a buffer with values, got one on the meta device")
    return [*problems, *_views_of(module)]


def _views_of(module: nn.Module) -> Iterator[str]:
    """Parameters and buffers whose values share memory with another tensor's."""
    spans: dict[str, tuple[int, int, int]] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if is_lazy(tensor) or tensor.is_meta or tensor.layout is not torch.strided:
            continue
        kind, remedy = "buffer", "clone() it"
        if isinstance(tensor, nn.Parameter):
            kind, remedy = "parameter", "give both layers one Parameter, or clone() it"
        elif 0 in (step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1):
            yield f"{name}: expected a buffer with a place for each value, got an expanded one: {remedy}"
        storage, first, stop = spans[name] = _span(tensor)
        found = (
            other
            for other, (at, begin, end) in spans.items()
            if at == storage and begin < stop and first < end
        )
        if (other := next(found, name)) != name:
            yield f"{name}: expected a {kind} that shares no memory, got a view of {other}: {remedy}"


def _span(tensor: torch.Tensor) -> tuple[int, int, int]:
    """The memory of a tensor: its storage, the first byte and the one behind the last."""
    first = int(tensor.storage_offset())
    steps = (int(step) * (size - 1) for step, size in zip(tensor.stride(), tensor.shape, strict=True))
    stop = first + 1 + sum(steps) if tensor.numel() else first
    return tensor.untyped_storage().data_ptr(), first * tensor.itemsize, stop * tensor.itemsize


def _entries(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return ((name, tensor.detach()) for name, tensor in _tensors(module))


def _tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return _chosen(module, *_members(module))


def _chosen(
    module: nn.Module, parameters: list[tuple[str, torch.Tensor]], buffers: list[tuple[str, torch.Tensor]]
) -> list[tuple[str, torch.Tensor]]:
    floating = [(name, buffer) for name, buffer in buffers if _is_no_integer(buffer)]
    kept = module.state_dict().keys() if floating else ()
    return [*parameters, *((name, buffer) for name, buffer in floating if name in kept)]


def _members(
    module: nn.Module,
) -> tuple[list[tuple[str, torch.Tensor]], list[tuple[str, torch.Tensor]]]:
    """`named_parameters` and `named_buffers` in one walk: with them, finding the tensors of a small model
    took as long as an SGD step."""
    parameters: dict[int, tuple[str, torch.Tensor]] = {}
    buffers: dict[int, tuple[str, torch.Tensor]] = {}
    for prefix, part in module.named_modules():
        for members, found in ((part._parameters, parameters), (part._buffers, buffers)):
            for name, tensor in members.items():
                if tensor is not None:
                    found.setdefault(id(tensor), (f"{prefix}.{name}" if prefix else name, tensor))
    return list(parameters.values()), list(buffers.values())


def _is_no_integer(buffer: torch.Tensor) -> bool:
    return buffer.is_floating_point() or buffer.is_complex()
