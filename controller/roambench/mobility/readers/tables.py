"""Tables as text: which mark separates the cells, and which column holds which field."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.account import number

#: In a column map: the device is named by the file.
BY_FILE: Final = "@file"
BLANKS: Final = " "  # the separator that stands for any run of blanks


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """`columns` gives the cell positions of every field found (two or more for a time in parts)."""

    separator: str
    columns: Mapping[str, tuple[int, ...]]
    has_header: bool

    def cells(self, line: str) -> Sequence[str]:
        """The cells of a line. Raises ValueError for one with fewer than the fields need."""
        found = cells_of(line, self.separator)
        last = max(max(positions) for positions in self.columns.values())
        if len(found) <= last:
            raise ValueError(f"{len(found)} columns, expected at least {last + 1}")
        return found

    def text(self, cells: Sequence[str], field: str) -> str:
        """The field's cells, joined by a blank; empty where the table has no such column."""
        return " ".join(cells[position].strip() for position in self.columns.get(field, ()))

    def number(self, cells: Sequence[str], field: str) -> float:
        """The field as a number; a decimal comma is one where it does not separate cells."""
        return number(self.text(cells, field), field)


def layout_of(
    first: str, given: Mapping[str, str], known: Mapping[str, Sequence[str]], file: str
) -> ColumnLayout:
    """Layout of a table by its first line and the user's column map (`field=name`, `a+b`, positions from 0).

    `known` are the usual names of every field, in lower case, `a+b` two columns together. Raises ConfigError
    for fields that do not exist, TraceError for columns that the file does not have.
    """
    unknown = [field for field in given if field not in known]
    if unknown:
        raise ConfigError(
            [f"columns: unknown field {field!r}, expected one of {', '.join(known)}" for field in unknown]
        )
    separator = separator_of(first)
    try:
        cells = [cell.strip() for cell in cells_of(first, separator)]
    except ValueError as error:
        raise TraceError(f"{file}:1: {error}") from None
    asked = {field: tuple(name.split("+")) for field, name in given.items()}
    if asked and all(name.isdecimal() and len(name) < 6 for names in asked.values() for name in names):
        positions = {field: tuple(int(name) for name in names) for field, names in asked.items()}
        return ColumnLayout(separator, positions, has_header=False)
    columns = dict(_recognised(cells, known))
    for field, names in asked.items():
        columns[field] = tuple(_position(cells, name, field, file) for name in names)
    return ColumnLayout(separator, columns, has_header=True)


def named_by(file: str) -> str:
    """The device that a file names: `0040965cc5ce` of `movement/0040965cc5ce.mv.gz`."""
    name = PurePath(file).name
    return name.partition(".")[0] or name


def separator_of(first: str) -> str:
    """What separates the cells of a table with this first line: a tab, comma, semicolon, or blanks."""
    marks = "\t,;" if first.strip().count(BLANKS) == 0 else "\t,; "
    return next((mark for mark in marks if mark in first), ",")


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


def columns_needed(first: str, missing: Sequence[str]) -> str:
    """A message about columns: what a table's first line has, and the option that names the columns of the
    missing fields."""
    separator = separator_of(first)
    names = [cell.strip() for cell in (first.split() if separator == BLANKS else first.split(separator))]
    shown = ", ".join(names[:20])[:300] + (", ..." if len(names) > 20 else "")
    given = ",".join(f"{field}=..." for field in missing)
    return (
        f"the first line has {shown}; name them with --columns {given} (a+b joins two columns, numbers are "
        "positions from 0)"
    )


def _position(cells: Sequence[str], name: str, field: str, file: str) -> int:
    try:
        return cells.index(name)
    except ValueError:
        raise TraceError(f"{file}:1: no column {name!r} for {field}; it has {', '.join(cells)}") from None
