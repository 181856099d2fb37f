"""Replay a training step on a GPU as one CUDA graph: a launch per step in place of one per kernel.

Not yet run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import torch
from torch import Tensor

#: Steps of a shape before its capture: what libraries set up at first use, they have set up.
_WARM: Final = 2


@cache
def _aside() -> torch.cuda.Stream:
    """The one stream for captures: libraries keep a workspace for each."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


class GraphedStep:
    """`step` of tensors on the GPU: the first ones of each shape as it is, the later ones replayed.

    `step` changes tensors in place that stay where they are, asks nothing of the CPU, and counts nothing.
    Where it cannot be captured it goes on as it is.
    """

    def __init__(self, step: Callable[..., Tensor]) -> None:
        self._step = step
        self._seen: dict[torch.Size, int] = {}
        self._graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Tensor]] = {}
        self.failure = ""  # why there are no graphs

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Carry out one step; the result is the caller's."""
        shape = inputs[0].shape
        seen = self._seen[shape] = self._seen.get(shape, 0) + 1
        if shape not in self._graphs and seen > _WARM and not self.failure:
            self._capture(shape, inputs)
        if shape not in self._graphs:
            return self._step(*inputs)
        graph, places, result = self._graphs[shape]
        for place, values in zip(places, inputs, strict=True):
            place.copy_(values)
        graph.replay()
        return result.clone()

    def _capture(self, shape: torch.Size, inputs: tuple[Tensor, ...]) -> None:
        """Record the kernels of a step without running them."""
        places = tuple(values.clone() for values in inputs)
        try:
            graph, aside = torch.cuda.CUDAGraph(), _aside()
            aside.wait_stream(torch.cuda.current_stream())
            # `torch.cuda.graph` would collect garbage and empty the cache for every stack.
            with torch.cuda.stream(aside):
                graph.capture_begin()
                try:
                    result = self._step(*places)
                finally:
                    graph.capture_end()
            torch.cuda.current_stream().wait_stream(aside)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, AssertionError) as error:  # the latter where torch has no CUDA
            self.failure = str(error) or type(error).__name__
        else:
            self._graphs[shape] = graph, places, result
