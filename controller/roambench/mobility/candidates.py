"""Candidates for access points: the places of a source in the box, by id, and those that it names itself.

The order of the places is part of the draw: a seed draws positions in their list. Ids that are all numbers
go by value (2 before 10), others as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.projection import Box, PlaneBox
from roambench.mobility.readers.condensing import CELL_M, Indices
from roambench.mobility.readers.fixes import Fixes, Stations
from roambench.mobility.selection import ApDraw
from roambench.mobility.trace import FloatColumn

#: Latitudes and longitudes to metres on a plane.
Plane = Callable[[FloatColumn, FloatColumn], tuple[FloatColumn, FloatColumn]]

_IN_DIGITS: Final = frozenset("0123456789")


class Places(NamedTuple):
    """Distinct places in the order in which they are drawn; `ids` is empty where they are visited cells."""

    x_m: FloatColumn
    y_m: FloatColumn
    ids: tuple[str, ...]


class AccessPoints(NamedTuple):
    """Access points by index; `of_place` is the one of every place code of the fixes, -1 for none."""

    names: tuple[str, ...]
    x_m: FloatColumn
    y_m: FloatColumn
    of_place: Indices | None = None  # where fixes tell their own access point


def id_order(ids: Sequence[str], draw: ApDraw = "pcg64") -> npt.NDArray[np.int64]:
    """The order of `ids`: by value where all are numbers in digits, else (and for `pcg64_text`) as text.

    Numbers of the same value, 7 and 007, go as text.
    """
    if draw == "pcg64_text" or not all(text and _IN_DIGITS.issuperset(text) for text in ids):
        return np.argsort(np.array(ids, dtype=np.str_), kind="stable").astype(np.int64)
    values = [text.lstrip("0") for text in ids]  # as text of equal length: a value may have any length
    keys = [(len(value), value, text) for value, text in zip(values, ids, strict=True)]
    return np.array(sorted(range(len(ids)), key=keys.__getitem__), np.int64)


def listed_places(listed: Stations, box: Box | PlaneBox, plane: Plane, draw: ApDraw) -> Places:
    """The places in the box that the source lists, visited or not: by id, for MOHAWK's draw as listed."""
    inside = np.flatnonzero(box.inside(*box.project(listed.latitude, listed.longitude)))
    if draw != "mohawk":
        inside = inside[id_order([listed.ids[at] for at in inside], draw)]
    x_m, y_m = plane(listed.latitude[inside], listed.longitude[inside])
    return Places(x_m, y_m, tuple(listed.ids[at] for at in inside))


def visited_places(fixes: Fixes, rows: Indices, x_m: FloatColumn, y_m: FloatColumn, draw: ApDraw) -> Places:
    """Distinct places of the rows (in canonical order), by id; without ids, the visited cells."""
    named = rows[fixes.place[rows] >= 0]
    if len(named):
        codes, first = np.unique(fixes.place[named], return_index=True)
        names = [fixes.place_ids[code] for code in codes]
        order = id_order(names, draw)
        where = named[first[order]]
        return Places(x_m[where], y_m[where], tuple(names[at] for at in order))
    cells = np.unique(np.floor(np.stack((x_m[rows], y_m[rows])) / CELL_M), axis=1)
    return Places((cells[0] + 0.5) * CELL_M, (cells[1] + 0.5) * CELL_M, ())


def named_access_points(fixes: Fixes, stations: Stations, box: Box | PlaneBox, plane: Plane) -> AccessPoints:
    """The stations in the box, sorted by id as text. Raises TraceError where none lies in it."""
    inside = np.flatnonzero(box.inside(*box.project(stations.latitude, stations.longitude)))
    if not len(inside):
        raise TraceError(_all_outside(stations, box))
    order = inside[np.argsort(np.array(stations.ids)[inside], kind="stable")]
    x_m, y_m = plane(stations.latitude, stations.longitude)
    own = None
    if fixes.place_ids == stations.ids:
        own = np.full(len(stations.ids), -1, np.int64)
        own[order] = np.arange(len(order))
    return AccessPoints(tuple(stations.ids[at] for at in order), x_m[order], y_m[order], own)


def _all_outside(stations: Stations, box: Box | PlaneBox) -> str:
    """Say that no access point lies in the box, how far the nearest is, and if degrees are exchanged."""
    x_m, y_m = box.project(stations.latitude, stations.longitude)
    away_m = np.hypot(x_m - box.width_m / 2, y_m - box.height_m / 2)
    nearest = int(np.argmin(away_m))
    of = f"{stations.file}: none of its" if stations.file else "none of the"
    exchanged = int(box.inside(*box.project(stations.longitude, stations.latitude)).sum())
    return (
        f"{of} {len(stations.ids)} access points lies in the box {centre_of(box)}; the nearest, "
        f"{stations.ids[nearest]}, is {away_m[nearest] / 1e3:,.1f} km from its centre: "
        + (
            f"with their two columns exchanged {exchanged} do (--ap-columns)"
            if exchanged
            else "expected access points of this region, or give another --box"
        )
    )


def centre_of(box: Box | PlaneBox) -> str:
    """Say where the box lies."""
    if isinstance(box, PlaneBox):
        return f"at {box.x_m:.0f}, {box.y_m:.0f} m"
    return f"around {box.latitude:.4f}, {box.longitude:.4f}"
