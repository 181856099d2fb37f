"""The figures of studies' pages as CSV files of one folder, which are kept, renewed and checked."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.counts import count
from roambench.contract.errors import RunError
from roambench.extras.papers.results_page import ResultsPage
from roambench.extras.reproduce.claims import ClaimVerdict
from roambench.extras.reproduce.scale import Scale
from roambench.report.numbers import NONE
from roambench.report.report import write_text
from roambench.report.table import ReportTable

CLAIMS: Final = "claims.csv"
TABLES: Final = "tables.csv"
#: When the runs behind the figures ended; no figure itself.
RAN: Final = "ran.csv"
_CLAIMS_HEAD: Final = (
    "study", "scale", "claim", "outcome", "ours bound", "ours", "ours unit", "beside bound", "beside",
    "beside unit", "beside whom", "lead bound", "lead", "lead ±", "lead unit", "seeds",
)  # fmt: skip
_TABLES_HEAD: Final = (
    "study", "scale", "table", "row", "column", "bound", "value", "±", "± of meters", "unit", "note",
)  # fmt: skip
_RAN_HEAD: Final = ("study", "scale", "day (UTC)", "runs", "of")
_HEADS: Final = {CLAIMS: _CLAIMS_HEAD, TABLES: _TABLES_HEAD, RAN: _RAN_HEAD}
_FIGURE: Final = re.compile(
    r"(?:(?P<bound>≥|≤|≷|>|not in) )?(?P<value>[+-]?[\d,]+(?:\.\d+)?(?:e[+-]?\d+)?|∞)"
    r"(?: ± (?P<half>[\d,.]+))?(?: \[± (?P<meters>[\d,.]+)\])?"
    r"(?: (?P<unit>%|J|kJ|MJ|km|s|points|×))?(?: \((?P<note>.+)\))?"
)
#: Differs from run to run of the same figures.
_TIME: Final = "wall time"
Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class CellParts:
    """A cell of a table in its parts; a cell that is no figure is all `note`. `meters`: their uncertainty."""

    bound: str = ""
    value: str = ""
    half: str = ""
    meters: str = ""
    unit: str = ""
    note: str = ""

    @classmethod
    def parse(cls, text: str) -> CellParts:
        """The parts of a cell as a page prints it."""
        if text in ("", NONE):
            return cls()
        match = _FIGURE.fullmatch(text)
        if match is None:
            return cls(note=text)
        parts = {name: part or "" for name, part in match.groupdict().items()}
        digits = {name: parts[name].replace(",", "") for name in ("value", "half", "meters")}
        return cls(**{**parts, **digits})


def figures_of(page: ResultsPage, study: str, scale: str, day: str, in_all: int) -> dict[str, Rows]:
    """Every table of the page by the file that keeps it; the first row is the head. `day`: the last run's;
    `in_all`: the runs of the sweep, finished or not."""
    claims, tables = [list(_CLAIMS_HEAD)], [list(_TABLES_HEAD)]
    *some, last = page.tables
    for table in (page.scale, *some):
        if table.key == "claims":
            claims += [[study, scale, *_claim(row)] for row in table.rows]
        else:
            tables += [[study, scale, *cells] for cells in _long(table)]
    ran = [list(_RAN_HEAD), [study, scale, day, str(len(page.figures)), str(in_all)]]
    return {CLAIMS: claims, TABLES: tables, RAN: ran, f"{study}-{scale}.csv": _wide(last)}


def renew(folder: Path, study: str, scale: str, figures: dict[str, Rows]) -> None:
    """Write these figures to the files of `folder`, in the place of those of the same study and scale."""
    for name, rows in figures.items():
        path = folder / name
        if name in _HEADS:
            kept = kept_rows(folder, name)
            before = next((i for i, row in enumerate(kept) if row[:2] == [study, scale]), len(kept))
            others = [row for row in kept if row[:2] != [study, scale]]
            rows = [rows[0], *others[:before], *rows[1:], *others[before:]]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_text(path, text.getvalue())


def differences(folder: Path, study: str, scale: str, figures: dict[str, Rows]) -> list[str]:
    """A line for each file of `folder` that has other figures of this study and scale, wall times apart."""
    found = []
    for name, rows in figures.items():
        if name == RAN:
            continue
        path = folder / name
        if name in _HEADS:
            kept = [rows[0], *(row for row in kept_rows(folder, name) if row[:2] == [study, scale])]
        else:
            kept = read_rows(path) if path.is_file() else []
        mine, theirs = _timeless(rows), _timeless(kept)
        if mine != theirs:
            row = next(
                (a for a, b in zip(theirs, mine, strict=False) if a != b),
                f"{count(len(theirs), 'row')}, now {len(mine)}",
            )
            found.append(f"{path}: {study} at {scale}: not what came out: {row}")
    return found


def read_rows(path: Path) -> Rows:
    """The rows of a file, its head first; RunError for one that is no CSV in UTF-8, or whose rows have not as
    many cells as its head."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunError(f"{path}: expected a CSV file in UTF-8: {error}") from None
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise RunError(f"{path}: row {number}: expected {count(len(rows[0]), 'cell')}, got {len(row)}")
    return rows


def kept_rows(folder: Path, name: str) -> Rows:
    """The rows of CLAIMS, TABLES or RAN in `folder` under their head, which is left out; none of a file that
    is not there. RunError, with the row, for other columns, for an outcome that is none and for a number of
    runs that is none."""
    path = folder / name
    if not path.is_file():
        return []
    head, *found = read_rows(path) or [[]]
    expected = _HEADS[name]
    if head != list(expected):
        raise RunError(f"{path}: row 1: expected {', '.join(expected)}; got {', '.join(head) or 'nothing'}")
    for number, row in enumerate(found if name == CLAIMS else [], start=2):
        if row[3] not in list(ClaimVerdict):
            known = ", ".join(ClaimVerdict)
            raise RunError(f"{path}: row {number}: outcome: expected one of {known}, got {row[3]}")
    for number, row in enumerate(found if name != TABLES else [], start=2):
        if row[1] not in list(Scale):
            raise RunError(f"{path}: row {number}: scale: expected one of {', '.join(Scale)}, got {row[1]}")
    for number, row in enumerate(found if name == RAN else [], start=2):
        for column, cell in list(zip(expected, row, strict=True))[3:]:
            if not cell.isdecimal():
                raise RunError(
                    f"{path}: row {number}: {column}: expected how many runs, got {cell or 'nothing'}"
                )
    return found


def _timeless(rows: Rows) -> Rows:
    timed = {place for place, name in enumerate(rows[0] if rows else ()) if name.startswith(_TIME)}
    return [[cell for place, cell in enumerate(row) if place not in timed] for row in rows]


def _claim(row: Sequence[str]) -> list[str]:
    says, outcome, *cells, seeds = row
    ours, beside, lead = (CellParts.parse(cell) for cell in cells)
    return [
        says, outcome, ours.bound, ours.value, ours.unit,
        beside.bound, beside.value, beside.unit, beside.note,
        lead.bound, lead.value, lead.half, lead.unit, "" if seeds == NONE else seeds,
    ]  # fmt: skip


def _long(table: ReportTable) -> Iterable[list[str]]:
    """A row for each cell: table, row, column, and the parts of the figure."""
    keys = min(table.numeric_from, len(table.head))
    keys = 1 if keys == len(table.head) else keys
    columns = [
        f"{name} ({table.head[place - 1]})" if table.head.count(name) > 1 and name == "paper" else name
        for place, name in enumerate(table.head)
    ]
    for row in table.rows:
        for column, cell in list(zip(columns, row, strict=True))[keys:]:
            if cell not in ("", NONE):
                one = CellParts.parse(cell)
                name = "; ".join(part for part in row[:keys] if part)
                bounds = (one.bound, one.value, one.half, one.meters)
                yield [table.title, name, column, *bounds, one.unit, one.note]


def _wide(table: ReportTable) -> Rows:
    """A row for each row, units in the head; a column whose cells are not all figures stays as it is."""
    columns: list[list[str]] = []
    for name, cells in zip(table.head, zip(*table.rows, strict=True), strict=True):
        figures = [CellParts.parse(cell) for cell in cells]
        if any(one.note and not one.value for one in figures):
            columns.append([name, *("" if cell == NONE else cell for cell in cells)])
            continue
        units = {one.unit for one in figures if one.value}
        unit = f" ({units.pop()})" if len(units) == 1 and units != {""} else ""
        columns.append([f"{name}{unit}", *(one.value for one in figures)])
        for part, heading in (
            ("half", f"sd{unit}"),
            ("meters", "± of meters"),
            ("bound", "bound"),
            ("note", "note"),
        ):
            values = [getattr(one, part) for one in figures]
            if any(values):
                columns.append([f"{name} {heading}", *values])
        if len(units) > 1:
            columns.append([f"{name} unit", *(one.unit for one in figures)])
    return [list(row) for row in zip(*columns, strict=True)]
