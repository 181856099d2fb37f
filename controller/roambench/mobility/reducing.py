"""Of all fixes of a device in a step, the one that counts; whatever order the rows came in. Pure."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from roambench.mobility.readers.condensing import CELL_M
from roambench.mobility.readers.fixes import Fixes
from roambench.mobility.trace import FloatColumn

Indices = npt.NDArray[np.int64]
Reduce = Literal["first", "last", "mode"]


def one_per_step(
    fixes: Fixes, step: Indices, rows: Indices, reduce: Reduce, x_m: FloatColumn, y_m: FloatColumn
) -> Indices:
    """Of the rows (in canonical order) one of every (step, device).

    `first`, `last`, or `mode`: the first at the place (without places: in the 250 m cell) with most fixes;
    of equals the place where the device was first.
    """
    ordered = rows[::-1] if reduce == "last" else rows
    pairs = step[ordered] * (int(fixes.device.max()) + 1) + fixes.device[ordered]
    _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
    if reduce != "mode":
        return ordered[first]
    named = fixes.place[ordered] >= 0
    cells = np.floor(np.stack((x_m[ordered], y_m[ordered])) / CELL_M)
    cells[:, named] = -1.0  # no cell of a box is negative
    spots = np.stack((pair.astype(np.float64), fixes.place[ordered].astype(np.float64), *cells))
    groups, first, counts = np.unique(spots, axis=1, return_index=True, return_counts=True)
    best = np.lexsort((first, -counts, groups[0]))
    leading = np.concatenate(([True], np.diff(groups[0][best]) != 0))
    return ordered[first[best[leading]]]
