"""One module applied to many models at once: forward passes by torch.func.vmap over stacked entries."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.learning.layout import Layout, dtype_of, flatten, head_of, layout_of
from roambench.learning.seeding import generators

#: Row m is a flat model; float32, or float64 in the test mode.
Matrix = npt.NDArray[Any]

#: How much a sample's logits may move when other samples join its batch, relative to the largest one.
_ROUNDING: Final = 1e-4


class StackedModel:
    """A module in training mode on `device`. Entries are those of the flat model: parameters, then floating
    buffers; other buffers (integers count steps) are no part of a model."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self._module = module.to(device).train()
        self.device, self.dtype = device, dtype_of(module)
        self.layout: Layout = layout_of(module)
        self.parameters = len(list(module.parameters()))
        self._counters = [
            (name, buffer) for name, buffer in module.named_buffers() if name not in self.layout.names
        ]
        head = head_of(module)
        sizes = [math.prod(shape) for shape in self.layout.shapes]
        self._offsets = [sum(sizes[:index]) for index in range(len(sizes))]
        self.head = head
        self.in_head = [head.start <= offset < head.stop for offset in self._offsets[: self.parameters]]

    def entries(self, models: Matrix) -> list[Tensor]:
        """The stacked entries, each (models, *shape), of flat models (models, layout.size); copies."""
        found = []
        for offset, shape in zip(self._offsets, self.layout.shapes, strict=True):
            piece = np.ascontiguousarray(models[:, offset : offset + math.prod(shape)])
            found.append(torch.tensor(piece, dtype=self.dtype, device=self.device).view(len(models), *shape))
        return found

    def flat(self, entries: list[Tensor], rows: list[int]) -> Matrix:
        """The flat models of those rows, shape (rows, layout.size)."""
        matrix: Matrix = torch.cat([entry[rows].flatten(1) for entry in entries], dim=1).cpu().numpy()
        return matrix

    def counters(self, models: int) -> list[Tensor]:
        """A fresh copy of the buffers that are no entries, for every model."""
        return [buffer.expand(models, *buffer.shape).clone() for _, buffer in self._counters]

    def logits(self, entries: list[Tensor], counters: list[Tensor], pixels: Tensor) -> Tensor:
        """(models, n, classes) of pixels (models, n, channels, height, width); buffers change in place."""
        names = [*self.layout.names, *(name for name, _ in self._counters)]

        def one(state: list[Tensor], images: Tensor) -> Tensor:
            given = dict(zip(names, state, strict=True))
            found: Tensor = functional_call(self._module, given, (images,))
            for name, entry in zip(names, state, strict=True):
                if (now := given[name]) is entry:
                    continue
                if (now.shape, now.dtype) != (entry.shape, entry.dtype):
                    raise RuntimeError(f"{name} changes its shape or type in a forward pass")
                entry.copy_(now.detach())
            return found

        found: Tensor = vmap(one)([*entries, *counters], pixels).to(self.dtype)
        return found

    def check(self, image: tuple[int, ...]) -> bool:
        """Try a step of two models; True if a sample's logits do not depend on the rest of its batch.

        Where they do (batch normalisation), batches must not be filled up. ConfigError if the module cannot
        be stacked, with the reason.
        """
        models = np.stack([flatten(self._module)] * 2)
        other = [name for name, entry in self._module.named_parameters() if entry.dtype != self.dtype]
        before = generators()
        draws = generator(0, "stack check").standard_normal((2, 4, *image))
        pixels = torch.tensor(draws, dtype=self.dtype, device=self.device)
        try:
            if other:
                raise RuntimeError(f"{other[0]} is no {self.dtype}")
            found = []
            for images in (pixels, pixels[:, :3]):
                entries = self.entries(models)
                trained = [entry.requires_grad_() for entry in entries[: self.parameters]]
                logits = self.logits([*trained, *entries[self.parameters :]], self.counters(2), images)
                torch.autograd.grad(logits.sum(), trained)
                found.append(logits.detach())
            if generators() != before:
                raise RuntimeError("it draws from Python's or NumPy's generator")
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError) as error:
            reason = str(error).strip().splitlines()[0][:300]
            raise ConfigError(
                [f'the model cannot be stacked ({reason}): expected simulated.backend = "workers"']
            ) from None
        whole, part = found[0][:, :3], found[1]
        return bool((whole - part).abs().max() <= _ROUNDING * whole.abs().max())
