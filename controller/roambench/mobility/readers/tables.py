"""Tables as text: which mark separates the cells, and which column holds which field."""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import PurePath
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.documents import EXCELS_SEPARATOR, MAX_LINE, decoded
from roambench.mobility.readers.points import spread
from roambench.mobility.readers.rows import BLANKS, Form, Rows, Texts, blocks
from roambench.mobility.trace import FloatColumn

_AHEAD: Final = 8192  # bytes
_COMPARED: Final = 20  # lines
#: Usual names of positions, in lower case, as `layout_of` wants them.
POSITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "lat": ("lat", "latitude", "breite", "breitengrad"),
    "lon": ("lon", "lng", "longitude", "länge", "laenge", "längengrad"),
    "x": ("x", "x_m"),
    "y": ("y", "y_m"),
}
#: Fields that may be sums, and a column of one with its factor.
_AXES: Final = ("lat", "lon", "x", "y")
_SUMS: Final = ("time", *_AXES)
_PRODUCT: Final = re.compile(r"(.+?)\s*\*\s*(-?\d+(?:\.\d+)?(?:[eE]-?\d+)?)")
#: A number of the points in a cell, from 0, and a time of points that follow each other.
_OF_POINT: Final = re.compile(r"(.+)\[([0-3])\]")
_PER_POINT: Final = re.compile(r"(.+?)\s*\+\s*@point\s*\*\s*(\d+(?:\.\d+)?)")
#: In a column map: the device is named by the file.
BY_FILE: Final = "@file"


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """`columns` gives the cell positions of every field found (two or more for a time in parts)."""

    separator: str
    columns: Mapping[str, tuple[int, ...]]
    has_header: bool
    factors: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)  # of sums
    of_point: Mapping[str, int] = dataclasses.field(default_factory=dict)  # a field's number in a point
    point_s: float = 0.0  # between two points of a cell
    header_width: int = 0  # cells of the header

    def require(self, rows: Rows) -> None:
        """Reject the rows with fewer cells than the fields need, or more than the header has."""
        width = 1 + max(max(positions) for positions in self.columns.values())
        rows.require(width, f"expected at least {width}")
        if self.has_header and self.separator != BLANKS:  # a last text may have blanks in it
            rows.reject_wider(self.header_width)

    def texts(self, rows: Rows, field: str) -> Texts | None:
        """The cells of a field, joined by a blank; None where the table has no such column."""
        return rows.texts(*self.columns[field]) if field in self.columns else None

    def numbers(self, rows: Rows, field: str) -> FloatColumn:
        """The cells of a field as numbers, or their sum; a decimal comma is one where it does not separate
        cells."""
        if field not in self.factors:
            return rows.numbers(rows.texts(*self.columns[field]), field)
        parts = zip(self.columns[field], self.factors[field], strict=True)
        sums = [factor * rows.numbers(rows.texts(column), field) for column, factor in parts]
        return np.asarray(np.sum(sums, axis=0), np.float64)

    def positions(self, rows: Rows, *axes: str) -> tuple[FloatColumn, FloatColumn, FloatColumn]:
        """The numbers of two fields, and the seconds of each after its row's time.

        Rows with several points in a cell come once for each: take other cells afterwards.
        """
        if not self.of_point:
            north, east = (self.numbers(rows, axis) for axis in axes)
            return north, east, np.zeros(len(rows))
        texts, later_s = spread(rows, self.columns[axes[0]][0], self.of_point, self.point_s)
        north, east = (rows.numbers(texts[axis], axis) for axis in axes)
        return north, east, later_s

    def times_s(self, rows: Rows, field: str, form: Form) -> npt.NDArray[np.int64]:
        """The cells of a field as seconds: what the form makes of them, or their sum."""
        if field not in self.factors:
            return rows.values(rows.texts(*self.columns[field]), form)
        return np.floor(self.numbers(rows, field)).astype(np.int64)

    def without(self, *fields: str) -> ColumnLayout:
        """The same without these fields."""
        columns = {name: at for name, at in self.columns.items() if name not in fields}
        return replace(self, columns=columns)


def layout_of(
    first: str,
    given: Mapping[str, str],
    known: Mapping[str, Sequence[str]],
    file: str,
    below: Sequence[str] = (),
) -> ColumnLayout:
    """Layout of a table by its first line and the user's column map (`field=name`, `a+b`, positions from 0;
    `d*86400+t*1800`, a sum of numbers; `way[0]`, a number of the points in a cell, and `start+@point*15`, the
    time of each of them). Some lines `below` the first help to find what separates the cells.

    `known` are the usual names of every field, in lower case, `a+b` two columns together. Raises ConfigError
    for fields that do not exist, TraceError for columns that the file does not have.
    """
    unknown = [field for field in given if field not in known]
    if unknown:
        raise ConfigError(
            [f"columns: unknown field {field!r}, expected one of {', '.join(known)}" for field in unknown]
        )
    separator = separator_of(first, below)
    try:
        cells = [cell.strip() for cell in cells_of(first, separator)]
    except ValueError as error:
        raise TraceError(f"{file}:1: {error}") from None
    asked: dict[str, tuple[str, ...]] = {}
    factors: dict[str, tuple[float, ...]] = {}
    of_point: dict[str, int] = {}
    point_s = 0.0
    for field, text in given.items():
        if field == "time" and (found := _PER_POINT.fullmatch(text)):
            text, point_s = found[1], float(found[2])
        elif field in _AXES and text not in cells and (found := _OF_POINT.fullmatch(text)):
            text, of_point[field] = found[1], int(found[2])
        asked[field] = (text,) if text in cells else tuple(text.split("+"))
        if any(_PRODUCT.fullmatch(name) and name not in cells for name in asked[field]):
            if field not in _SUMS:
                raise ConfigError([f"columns: {field}={text}, expected a sum only of {', '.join(_SUMS)}"])
            parts = [_PRODUCT.fullmatch(name) for name in asked[field]]
            asked[field] = tuple(
                part[1] if part else name for part, name in zip(parts, asked[field], strict=True)
            )
            factors[field] = tuple(float(part[2]) if part else 1.0 for part in parts)
    if asked and all(name.isdecimal() and len(name) < 6 for names in asked.values() for name in names):
        positions = {field: tuple(int(name) for name in names) for field, names in asked.items()}
        return _checked(ColumnLayout(separator, positions, False, factors, of_point, point_s), given)
    columns = dict(_recognised(cells, known))
    for field, names in asked.items():
        columns[field] = tuple(_position(cells, name, field, file) for name in names)
    return _checked(ColumnLayout(separator, columns, True, factors, of_point, point_s, len(cells)), given)


def _checked(layout: ColumnLayout, given: Mapping[str, str]) -> ColumnLayout:
    """The layout; ConfigError where not all positions are numbers of the points of one column."""
    named = {layout.columns[axis] for axis in given.keys() & set(_AXES)}
    if layout.of_point and (len(named) > 1 or len(layout.of_point) == 1):
        axes = ", ".join(f"{axis}={given[axis]}" for axis in _AXES if axis in given)
        raise ConfigError(
            [f"columns: {axes}, expected two numbers of one column, such as lat=way[1],lon=way[0]"]
        )
    if layout.point_s and not layout.of_point:
        raise ConfigError([f"columns: time={given['time']}, expected lat=COLUMN[1],lon=COLUMN[0] beside it"])
    return layout


def first_row(file: IO[bytes]) -> tuple[int, bytes]:
    """Number and bytes of the first line with something of the table in it; empty where none has."""
    line, row = 1, file.readline(MAX_LINE)
    while row and (not (text := decoded(row).strip()) or EXCELS_SEPARATOR.fullmatch(text)):
        line, row = line + 1, file.readline(MAX_LINE)
    if len(row) < MAX_LINE or row.endswith(b"\n"):
        return line, row
    while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
        pass
    return line, b"\0\n"  # a line that long is none


def lines_ahead(file: IO[bytes]) -> list[str]:
    """Some of the lines that come next, which the file goes on to give."""
    peek = getattr(file, "peek", None)
    ahead = b"" if peek is None else peek(_AHEAD)[:_AHEAD]
    return [decoded(line).strip("\r") for line in ahead.split(b"\n")[:-1]]


def rows_below(file: IO[bytes], first: tuple[int, bytes], layout: ColumnLayout, path: str) -> Iterator[Rows]:
    """The rows of a table in blocks; `first` is its `first_row`, which may be a header."""
    below = blocks(file, first[0] + 1)
    for line, block in below if layout.has_header else chain([first], below):
        yield Rows(block, layout.separator, path, line)


def named_by(file: str) -> str:
    """The device that a file names: `0040965cc5ce` of `movement/0040965cc5ce.mv.gz`."""
    name = PurePath(file).name
    return name.partition(".")[0] or name


def separator_of(first: str, below: Sequence[str] = ()) -> str:
    """Find what separates the cells of a table with this first line, and these below it: a tab, semicolon,
    comma or bar that divides all of them into as many cells, else the first of these or blanks."""
    lines = [first, *(line for line in below if line.strip())][:_COMPARED]
    if len(lines) > 1:
        cells = {mark: {_width(line, mark) for line in lines} for mark in "\t;,|"}
        alike = {mark: widths.pop() for mark, widths in cells.items() if len(widths) == 1}
        best = max(alike, key=alike.__getitem__, default="")
        if best and alike[best] > 1:
            return best
    marks = "\t,;|" if first.strip().count(BLANKS) == 0 else "\t,;| "
    return next((mark for mark in marks if mark in first), ",")


def _width(line: str, mark: str) -> int:
    try:
        return len(cells_of(line, mark))
    except ValueError:
        return 0


def cells_of(line: str, separator: str) -> Sequence[str]:
    """Cells of one line, parsed alone: an unclosed quote costs one row, not the rest.

    Tabs are not quoted, and of blanks any number separates two cells.
    """
    if separator == BLANKS:
        return line.split()
    if separator == "\t" or '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}") from None


def _recognised(
    cells: Sequence[str], known: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    at = {cell.lower(): position for position, cell in reversed([*enumerate(cells)])}
    for field, names in known.items():
        found = next((parts for name in names if at.keys() >= set(parts := name.split("+"))), None)
        if found is not None:
            yield field, tuple(at[part] for part in found)


def columns_needed(
    first: str, missing: Sequence[str], option: str = "--columns", below: Sequence[str] = ()
) -> str:
    """A message about columns: what a table's first line has, and the option that names the columns of the
    missing fields."""
    separator = separator_of(first, below)
    names = [cell.strip() for cell in (first.split() if separator == BLANKS else first.split(separator))]
    shown = ", ".join(names[:20])[:300] + (", ..." if len(names) > 20 else "")
    given = ",".join(f"{field}=..." for field in missing)
    return (
        f"the first line has {shown}; name them with {option} {given} (a+b joins two columns, numbers are "
        "positions from 0)"
    )


def _position(cells: Sequence[str], name: str, field: str, file: str) -> int:
    try:
        return cells.index(name)
    except ValueError:
        raise TraceError(f"{file}:1: no column {name!r} for {field}; it has {', '.join(cells)}") from None
