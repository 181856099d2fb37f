"""The ONE's ExternalPathMovement: whole paths on one line, and beside it when each node is active.

    10 0 600 0 500 0 500        maxID minTime maxTime minX maxX minY maxY
    3 0,131.9,247.3 290,353.6,171.8 ...     id, then time,x,y of every waypoint; a node may have several lines

    3 0 300                     the activity file: id, start, end; several lines per node add up

Minima are subtracted as the simulator does. A node moves along its lines and waits between them; without an
activity file it is present from the first to the last point of each line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import Final

import numpy as np

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import RowAccount, check_id, check_metres, number, seconds
from roambench.mobility.readers.documents import Document, Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.joining import kinds_of
from roambench.mobility.readers.sampling import Path, sampled

_NUMBER: Final = r"-?\d+(?:\.\d+)?(?:[eE]-?\d+)?"
_PATHS: Final = re.compile(rf"\S+(?:\s+{_NUMBER},{_NUMBER},{_NUMBER})+")
_ACTIVITY: Final = re.compile(rf"\S+\s+{_NUMBER}\s+{_NUMBER}")
_HEADER: Final = re.compile(rf"\d+(?:\s+{_NUMBER}){{6}}")
_MAX_LINE: Final = 64 << 20  # a path of a whole simulation stands on one line

Points = list[tuple[float, float, float]]


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """One fix per node and step. Raises TraceError when no file holds paths or their header is missing."""
    kinds = kinds_of(documents, {"activity": _ACTIVITY, "paths": _PATHS}, _MAX_LINE)
    if not kinds["paths"]:
        raise TraceError(f"{options.file}: no file with paths (id t,x,y t,x,y ...)")
    account = RowAccount(options.file)
    lines_of: dict[str, list[Points]] = {}
    origin_s = 0.0
    for document in kinds["paths"]:
        origin_s = _read_paths(document, lines_of, account)
    active: dict[str, list[tuple[float, float]]] = {}
    for document in kinds["activity"]:
        _read_activity(document, origin_s, active, account)
    paths = {
        name: _path(lines, active.get(name, []) if kinds["activity"] else None)
        for name, lines in lines_of.items()
    }
    return sampled(paths, options.step_s, account, options.origin_s)


def _read_paths(document: Document, lines_of: dict[str, list[Points]], account: RowAccount) -> float:
    """Adds the file's paths, minima subtracted; returns the second at which its time starts."""
    with closing(document.lines(_MAX_LINE)) as lines:
        rows = numbered_rows(lines)
        line, first = next(rows, (1, ""))
        if not _HEADER.fullmatch(first):
            raise TraceError(
                f"{document.path}:{line}: expected the header maxID minTime maxTime minX maxX minY maxY, "
                f"got {first[:60]!r}"
            )
        try:
            _, min_s, _, min_x, _, min_y, _ = (number(cell, "header") for cell in first.split())
        except ValueError as error:
            raise TraceError(f"{document.path}:{line}: {error}") from None
        for line, row in rows:
            name, *cells = row.split()
            try:
                if not cells:
                    raise ValueError("no point: expected id, then t,x,y ...")
                check_id(name, "id")
                points = [_point(cell, min_s, min_x, min_y) for cell in cells]
                if any(later[0] < earlier[0] for earlier, later in pairwise(points)):
                    raise ValueError("its times do not ascend")
                lines_of.setdefault(name, []).append(points)
                account.used += 1
            except ValueError as error:
                account.reject(line, str(error), document.path)
    return min_s


def _point(cell: str, min_s: float, min_x: float, min_y: float) -> tuple[float, float, float]:
    parts = cell.split(",")
    if len(parts) != 3:
        raise ValueError(f"point {cell[:40]!r} is not t,x,y")
    t_s = seconds(parts[0]) - min_s
    x_m, y_m = number(parts[1], "x") - min_x, number(parts[2], "y") - min_y
    check_metres(x_m, y_m)
    return t_s, x_m, y_m


def _read_activity(
    document: Document, origin_s: float, active: dict[str, list[tuple[float, float]]], account: RowAccount
) -> None:
    with closing(document.lines()) as lines:
        for line, row in numbered_rows(lines):
            try:
                cells = row.split()
                if len(cells) != 3:
                    raise ValueError(f"{len(cells)} columns, expected id, start, end")
                start_s, end_s = seconds(cells[1]) - origin_s, seconds(cells[2]) - origin_s
                if end_s < start_s:
                    raise ValueError("it ends before it starts")
                active.setdefault(cells[0], []).append((start_s, end_s))
                account.used += 1
            except ValueError as error:
                account.reject(line, str(error), document.path)


def _path(lines: list[Points], spans: list[tuple[float, float]] | None) -> Path:
    """One node's lines in the order of time, waiting at the end of each until the next begins."""
    ordered = sorted(lines)
    points: Points = []
    for line in ordered:
        if points and line[0][0] > points[-1][0]:
            points.append((line[0][0], *points[-1][1:]))
        points.extend(line)
    points.sort(key=lambda point: point[0])  # lines of one node may overlap
    table = np.array(points)
    own = [(line[0][0], line[-1][0]) for line in ordered]
    return Path(table[:, 0], table[:, 1], table[:, 2], own if spans is None else spans)


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    rows = head.rows
    if len(rows) > 1 and _HEADER.fullmatch(rows[0].strip()) and "," in rows[1]:
        return "a header of seven numbers, then lines of id and t,x,y points"
    return None


ONE_PATH: Final = Reader(
    "one-path",
    "The ONE's ExternalPathMovement: the path file and, if there is one, its activity file",
    read_together=read,
    recognises=recognises,
)
