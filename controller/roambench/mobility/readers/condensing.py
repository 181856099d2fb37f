"""Dropping the fixes that cannot change the trace, while files that do not fit the memory are read.

A taxi reports every minute, a step lasts an hour: of 60 fixes one counts. What is kept gives the very trace
that all fixes would: in the box, of every (device, step) the first or last, the first of every place (or of
every visited cell: the candidates for access points) and the earliest and latest of all (they bound the
window).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from roambench.mobility.readers.fixes import Fixes, rows_of, with_used_ids, without_duplicates
from roambench.mobility.trace import FloatColumn

CELL_M: Final = 250.0  # candidate places of fixes without a place: visited cells of this size
OUTSIDE: Final = "outside the box"
MORE_OF_A_STEP: Final = "more fixes of a step"
_ROW_OF_CELLS: Final = 1 << 31  # a plane has at most 8e6 cells either way

Indices = npt.NDArray[np.int64]
Reduce = Literal["first", "last", "mode"]


class Area(Protocol):
    """A rectangle with its own metres: origin in the south-west corner."""

    def project(self, latitude: FloatColumn, longitude: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
        """Latitude and longitude in degrees -> metres east and north, shapes (n,)."""
        ...

    def inside(self, x_m: FloatColumn, y_m: FloatColumn) -> npt.NDArray[np.bool_]:
        """Tell which positions lie in the area, shape (n,)."""
        ...


def condensed(fixes: Fixes, area: Area, step_s: int, reduce: Reduce = "first", origin_s: int = 0) -> Fixes:
    """The fixes that can still matter, with the ids that they need; the others are counted as left out.

    Order within a step is that of the recipe. For `mode` every fix in the box counts.
    """
    if not len(fixes.device):
        return fixes
    fixes = without_duplicates(fixes)
    x_m, y_m = area.project(fixes.latitude, fixes.longitude)
    boxed = np.flatnonzero(area.inside(x_m, y_m))
    kept = boxed
    if reduce != "mode" and len(boxed):
        kept = _counting(fixes, boxed, x_m, y_m, step_s, reduce, origin_s)
    left_out = dict(fixes.left_out)
    outside, more = len(fixes.device) - len(boxed), len(boxed) - len(kept)
    for reason, count in ((OUTSIDE, outside), (MORE_OF_A_STEP, more)):
        if count:
            left_out[reason] = left_out.get(reason, 0) + count
    found = with_used_ids(rows_of(fixes, kept))
    return replace(found, used=fixes.used - len(fixes.device) + len(kept), left_out=left_out)


def _counting(
    fixes: Fixes,
    boxed: Indices,
    x_m: FloatColumn,
    y_m: FloatColumn,
    step_s: int,
    reduce: Literal["first", "last"],
    origin_s: int,
) -> Indices:
    """Find the rows in the box that can matter, ascending."""
    rows = boxed[canonical_order(fixes, boxed)]
    step = (fixes.t_utc_s[rows] - origin_s) // step_s
    pairs = (step - step[0]) * len(fixes.device_ids) + fixes.device[rows]
    if reduce == "last":
        counted = rows[::-1][np.unique(pairs[::-1], return_index=True)[1]]
    else:
        counted = rows[np.unique(pairs, return_index=True)[1]]
    named = rows[fixes.place[rows] >= 0]
    first_of_place = named[np.unique(fixes.place[named], return_index=True)[1]]
    spread = rows if fixes.plane else rows[fixes.place[rows] < 0]  # a plane's extent is that of its cells
    east, north = (np.floor(axis[spread] / CELL_M).astype(np.int64) for axis in (x_m, y_m))
    visited = spread[np.unique(east * _ROW_OF_CELLS + north, return_index=True)[1]]
    return np.unique(np.concatenate((counted, first_of_place, visited, rows[:1], rows[-1:])))


def canonical_order(fixes: Fixes, rows: Indices) -> Indices:
    """An order of `rows` that only their values decide: time, place, position."""
    names = np.array(["", *fixes.place_ids])
    by_name = np.empty(len(names), np.int64)
    by_name[np.argsort(names, kind="stable")] = np.arange(len(names))
    place_rank = by_name[fixes.place[rows] + 1]  # rank of the id's text: codes follow the file's order
    keys = (fixes.longitude[rows], fixes.latitude[rows], place_rank, fixes.t_utc_s[rows])
    return np.lexsort(keys).astype(np.int64)


def counts(fixes: Fixes) -> Mapping[str, object]:
    """The account of the rows, for a trace's provenance."""
    return {
        "rows": fixes.rows,
        "used": fixes.used,
        "malformed": fixes.malformed,
        "duplicates": fixes.duplicates,
        "left_out": dict(sorted(fixes.left_out.items())),
    }


def one_per_step(
    fixes: Fixes, step: Indices, rows: Indices, reduce: Reduce, x_m: FloatColumn, y_m: FloatColumn
) -> Indices:
    """Choose of the rows (in canonical order) one of every (step, device), in any order of the file.

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
    groups, first, often = np.unique(spots, axis=1, return_index=True, return_counts=True)
    best = np.lexsort((first, -often, groups[0]))
    leading = np.concatenate(([True], np.diff(groups[0][best]) != 0))
    return ordered[first[best[leading]]]
