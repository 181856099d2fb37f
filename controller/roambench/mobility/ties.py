"""MOHAWK's nearest AP as its authors' simulator takes it: one of several equally near APs is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.mobility.association import Association, NearestAp
from roambench.mobility.trace import IntColumn, Trace

#: Relative, on squared distances: far above float64 rounding, far below a millimetre.
_TIE: Final = 2e-12
_CELLS: Final = 1 << 22  # of a fixes x APs matrix at a time: 32 MB


@dataclass(frozen=True, eq=False)
class NearestApDrawn(Association):
    """`NearestAp`, but a device that several APs are equally near to gets one of them by a draw.

    It is drawn again at every step, keyed by (seed, device, step). APs at one place are equally near to all.
    Where the trace recorded which of them it was, nothing is drawn.
    """

    seed: int

    @cached_property
    def aps(self) -> IntColumn:
        """The nearest access point of every fix, ties drawn by the seed, shape (fixes,)."""
        aps = NearestAp(self.trace).aps.copy()
        recorded = self.trace.ap
        for row, nearest in _tied(self.trace):
            if recorded is not None and recorded[row] in nearest:
                continue  # it is known which of them it was, and `NearestAp` has it
            draw = generator(self.seed, "nearest tie", int(self.trace.device[row]), int(self.trace.step[row]))
            aps[row] = nearest[draw.integers(len(nearest))]
        return aps


def _tied(trace: Trace) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """(row of the fix, indices of the APs nearest to it) wherever there are several."""
    rows = max(1, _CELLS // max(1, len(trace.ap_names)))
    for first in range(0, len(trace.step), rows):
        part = slice(first, first + rows)
        squared = (trace.x_m[part, None] - trace.ap_x_m) ** 2 + (trace.y_m[part, None] - trace.ap_y_m) ** 2
        nearest = squared <= squared.min(axis=1, keepdims=True) * (1.0 + _TIE)
        for row in np.flatnonzero(np.count_nonzero(nearest, axis=1) > 1).tolist():
            yield first + row, np.flatnonzero(nearest[row])
