"""A table of access points: `ap` and `lat`, `lon`, or `ap` and `x`, `y`; every row must be sound."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import check_degrees, check_id, check_metres
from roambench.mobility.readers.fixes import Stations
from roambench.mobility.readers.opening import TraceFile, file_source, lines
from roambench.mobility.readers.tables import layout_of

_KNOWN = {
    "ap": ("ap", "ap_id", "ap_name", "name", "id", "station"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "longitude"),
    "x": ("x", "x_m"),
    "y": ("y", "y_m"),
}


def read_stations(path: Path, *, plane: bool) -> tuple[Stations, TraceFile]:
    """The access points of a file, sorted by id. Raises TraceError that names every row that is wrong."""
    north, east = ("y", "x") if plane else ("lat", "lon")
    found: dict[str, tuple[float, float]] = {}
    problems = []
    with closing(lines(path)) as text:
        rows = [(number, line.rstrip("\r\n")) for number, line in enumerate(text, start=1) if line.strip()]
    layout = layout_of(rows[0][1].removeprefix("\ufeff") if rows else "", {}, _KNOWN, str(path))
    missing = [field for field in ("ap", north, east) if field not in layout.columns]
    if missing:
        raise TraceError(
            f"{path}:1: no column {', '.join(missing)}: expected a header with ap,{north},{east}"
        )
    for number, row in rows[1:]:
        try:
            cells = layout.cells(row)
            name = check_id(layout.text(cells, "ap"), "ap")
            at = layout.number(cells, north), layout.number(cells, east)
            if name in found:
                raise ValueError(f"access point {name!r} is there already")
            if plane:
                check_metres(at[1], at[0])
            else:
                check_degrees(*at)
            found[name] = at
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise TraceError("\n".join(problems))
    if not found:
        raise TraceError(f"{path}: no access point in it")
    ids = tuple(sorted(found))
    table = np.array([found[name] for name in ids])
    return Stations(ids, table[:, 0], table[:, 1]), file_source(path)
