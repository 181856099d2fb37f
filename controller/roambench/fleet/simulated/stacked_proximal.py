"""The proximal terms of an objective on many models at once: `learning.proximal` with a leading dimension."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from roambench.learning.objectives import Objective


class StackedProximalTerms:
    """Adds 2 strength (w - anchor) to stacked gradients, each of shape (models, ...).

    `starts` and `globals_` are the anchors, entry by entry as `parameters`; `globals_` may be empty where no
    term asks for it. `in_head` tells which parameters base-only terms spare.
    """

    def __init__(
        self,
        objective: Objective,
        starts: Sequence[Tensor],
        globals_: Sequence[Tensor],
        in_head: Sequence[bool],
    ) -> None:
        self._pulls: list[tuple[float, list[Tensor], list[int]]] = []
        for term in objective.proximal_terms:
            if term.strength == 0.0:
                continue
            anchors = starts if term.anchor == "start" else globals_
            chosen = [index for index in range(len(starts)) if not (term.base_only and in_head[index])]
            pieces = [anchors[index].clone() for index in chosen]
            self._pulls.append((2.0 * term.strength, pieces, chosen))

    def add_to(self, gradients: list[Tensor], parameters: Sequence[Tensor]) -> None:
        """Call without gradient recording; writes to `gradients`."""
        for scale, anchors, chosen in self._pulls:
            stretched = torch._foreach_sub([parameters[index] for index in chosen], anchors)
            torch._foreach_add_([gradients[index] for index in chosen], stretched, alpha=scale)
