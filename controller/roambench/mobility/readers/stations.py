"""A table of access points: `ap` and `lat`, `lon`, or `ap` and `x`, `y`; every row must be sound.

Exports of WiGLE and of OpenCelliD are such tables. Where they see an access point several times it stands at
the mean of these positions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Final

import numpy as np

from roambench.contract.errors import TraceError
from roambench.contract.printable import printable
from roambench.mobility.readers.account import KEPT_MALFORMED
from roambench.mobility.readers.documents import Head, decoded
from roambench.mobility.readers.fixes import Stations
from roambench.mobility.readers.opening import TraceFile, document, file_source
from roambench.mobility.readers.proposing import has_times
from roambench.mobility.readers.spellings import one_spelling
from roambench.mobility.readers.tables import (
    POSITIONS,
    columns_needed,
    first_row,
    layout_of,
    lines_ahead,
    rows_below,
)

_CELL: Final = "radio+mcc+net+area+cell"  # OpenCelliD
#: Columns of a survey: of each access point it has several rows.
_SURVEYED: Final = (_CELL, "mac", "bssid", "netid")
_KNOWN: Final = {
    "ap": ("ap", "ap_id", "ap_name", "name", "station", "zugangspunkt", "access_point", *_SURVEYED, "id"),
    **POSITIONS,
    "lat": (*POSITIONS["lat"], "currentlatitude", "trilat"),
    "lon": (*POSITIONS["lon"], "currentlongitude", "trilong"),
}
#: A row of OpenCelliD's files of one country, which have no header, and the columns of all its files.
_CELL_ROW: Final = re.compile(r"(GSM|CDMA|UMTS|LTE|NR)(,\d+){4},-?\d*(,-?\d+(\.\d+)?){2}(,-?\d*){6}")
_CELL_COLUMNS: Final = {"ap": "0+1+2+3+4", "lat": "7", "lon": "6"}
#: The line above the header of WiGLE's export.
_WIGLE: Final = "wiglewifi-"


def lists_access_points(head: Head) -> bool:
    """Tell if a table is a list of access points, no movement: such an export, or names and positions of
    access points without any time."""
    if not head.rows:
        return False
    first = head.rows[0].strip("\ufeff")
    cells = {cell.strip().lower() for cell in first.split(",")}
    if (
        _CELL_ROW.fullmatch(first.strip())
        or first.lower().startswith(_WIGLE)
        or cells >= set(_CELL.split("+"))
    ):
        return True
    try:
        fields = layout_of(first, {}, _KNOWN, head.name, head.rows[1:]).columns.keys()
    except TraceError:
        return False
    return "ap" in fields and bool(fields & {"lat", "x"}) and not has_times(head)


def read_stations(
    path: Path, *, plane: bool, columns: Mapping[str, str] | None = None
) -> tuple[Stations, TraceFile]:
    """The access points of a file, sorted by id; `columns` names its columns where they are unusual. Raises
    TraceError that names the first rows that are wrong."""
    axes = ("y", "x") if plane else ("lat", "lon")
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    problems: list[str] = []
    wrong = 0
    with document(path).opened() as file:
        line, first = _header(file)
        text = decoded(first).strip("\r\n\ufeff")
        if not text or re.match(r"\s*[{<]|[^\t]*[\0-\x08\x0e-\x1f\x7f-\x9f]", text):
            text = f"it begins with {printable(text[:20])}" if text else "it is empty"
            raise TraceError(
                f"{path}:{line}: expected a CSV of access points ({', '.join(('ap', *axes))}); {text}"
            )
        bare = not columns and _CELL_ROW.fullmatch(text.strip()) is not None
        columns = _CELL_COLUMNS if bare else columns or {}
        layout = layout_of(text, columns, _KNOWN, str(path), lines_ahead(file))
        missing = [field for field in ("ap", *axes) if field not in layout.columns]
        if missing:
            needed = columns_needed(text, missing, "--ap-columns")
            raise TraceError(f"{path}:{line}: no column {', '.join(missing)}: {needed}")
        header = [cell.strip().lower() for cell in text.split(layout.separator)]
        named = {header[at] for at in layout.columns["ap"]} if layout.has_header else set()
        many = bare or any(named == set(names.split("+")) for names in _SURVEYED)
        for rows in rows_below(file, (line, first), layout, str(path)):
            layout.require(rows)
            north, east, _ = layout.positions(rows, *axes)
            names = one_spelling(rows.texts(*layout.columns["ap"]))
            rows.check_ids(names, "ap")
            rows.check_positions(north, east, plane=plane)
            for row in rows.sound().tolist():
                name = names[row].as_py()
                if name in found and not many:
                    rows.reasons[row] = f"access point {name!r} is there already: expected each once"
                else:
                    found[name].append((float(north[row]), float(east[row])))
            wrong += len(rows.reasons)
            first_wrong = islice(sorted(rows.reasons.items()), KEPT_MALFORMED - len(problems))
            problems += [f"{path}:{rows.line[row]}: {reason}" for row, reason in first_wrong]
    if problems:
        more = [f"{path}: and {wrong - len(problems)} more rows"] if wrong > len(problems) else []
        raise TraceError("\n".join([*problems, *more]))
    if not found:
        raise TraceError(f"{path}: no access point in it")
    ids = tuple(sorted(found))
    table = np.array(
        [np.mean(found[name], axis=0) if len(found[name]) > 1 else found[name][0] for name in ids]
    )
    return Stations(ids, table[:, 0], table[:, 1], str(path)), file_source(path)


def _header(file: IO[bytes]) -> tuple[int, bytes]:
    line, first = first_row(file)
    if decoded(first).strip("\ufeff").lower().startswith(_WIGLE):
        return line + 1, file.readline()
    return line, first
