"""A table of access points: `ap` and `lat`, `lon`, or `ap` and `x`, `y`; every row must be sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roambench.contract.errors import TraceError
from roambench.mobility.readers.documents import decoded
from roambench.mobility.readers.fixes import Stations
from roambench.mobility.readers.opening import TraceFile, document, file_source
from roambench.mobility.readers.tables import first_row, layout_of, rows_below

_KNOWN = {
    "ap": ("ap", "ap_id", "ap_name", "name", "id", "station"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "longitude"),
    "x": ("x", "x_m"),
    "y": ("y", "y_m"),
}


def read_stations(path: Path, *, plane: bool) -> tuple[Stations, TraceFile]:
    """The access points of a file, sorted by id. Raises TraceError that names every row that is wrong."""
    axes = ("y", "x") if plane else ("lat", "lon")
    found: dict[str, tuple[float, float]] = {}
    problems = []
    with document(path).opened() as file:
        line, first = first_row(file)
        layout = layout_of(decoded(first).strip("\r\n\ufeff"), {}, _KNOWN, str(path))
        missing = [field for field in ("ap", *axes) if field not in layout.columns]
        if missing:
            raise TraceError(
                f"{path}:1: no column {', '.join(missing)}: expected a header with ap,{','.join(axes)}"
            )
        for rows in rows_below(file, (line, first), layout, str(path)):
            layout.require(rows)
            names = rows.texts(*layout.columns["ap"])
            rows.check_ids(names, "ap")
            north, east = (layout.numbers(rows, axis) for axis in axes)
            rows.check_positions(north, east, plane=plane)
            for row in rows.sound().tolist():
                name = names[row].as_py()
                if name in found:
                    rows.reasons[row] = f"access point {name!r} is there already"
                else:
                    found[name] = float(north[row]), float(east[row])
            problems += [f"{path}:{rows.line[row]}: {reason}" for row, reason in sorted(rows.reasons.items())]
    if problems:
        raise TraceError("\n".join(problems))
    if not found:
        raise TraceError(f"{path}: no access point in it")
    ids = tuple(sorted(found))
    table = np.array([found[name] for name in ids])
    return Stations(ids, table[:, 0], table[:, 1]), file_source(path)
