"""Shanghai Telecom's base stations (2014), as MIDDLE uses them: CSV, or the original .xlsx of half a month.

Two headers are in use:

    month, date, start time, end time, latitude, longitude, user id
    start time, end time, location(latitude/lontitude), user id        (one cell "31.237872/121.470259")

Times are local (UTC+8): DD/MM/YYYY HH:MM, ISO 8601, or a clock time beside a date. A station is a distinct
position; those outside 30.69..31.51 N, 120.9..121.9 E are errors of the source and left out. Rows with NaN or
empty cells are malformed. Reading .xlsx needs the extra `xlsx`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import PurePath
from typing import IO, Final

import numpy as np

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import check_degrees, check_time, number
from roambench.mobility.readers.documents import Document, Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, Stations
from roambench.mobility.readers.overlaps import IntervalCollector
from roambench.mobility.readers.tables import cells_of
from roambench.mobility.readers.times import iso

#: A workbook's sheet of a million rows has 0.4 GB, its texts a tenth.
_SHEET_BYTES: Final = 2 << 30
_PART_BYTES: Final = 512 << 20
_MAX_COLUMNS: Final = 64
_SHANGHAI_H: Final = 8.0
_SOUTH, _NORTH, _WEST, _EAST = 30.69, 31.51, 120.9, 121.9
_DAY_FIRST: Final = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?: +(\d{1,2}):(\d{2})(?::(\d{2}))?)?", re.ASCII)
_YEAR_FIRST: Final = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?: +(\d{1,2}):(\d{2})(?::(\d{2}))?)?", re.ASCII)
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?", re.ASCII)


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """One fix per phone and step, at its station of the longest stay."""
    offset_h = _SHANGHAI_H if options.utc_offset_h is None else options.utc_offset_h
    stays = IntervalCollector(options.file)
    positions: dict[str, tuple[float, float]] = {}
    for document in documents:
        rows = _workbook_rows(document) if document.name.lower().endswith(".xlsx") else _text_rows(document)
        with closing(rows):
            _read_rows(document, rows, stays, positions, round(offset_h * 3600))
    ids = tuple(sorted(positions))
    table = np.array([positions[name] for name in ids]).reshape(-1, 2)
    return stays.fixes(Stations(ids, table[:, 0], table[:, 1]), options.step_s, plane=False)


def _read_rows(
    document: Document,
    rows: Iterator[tuple[int, list[str]]],
    stays: IntervalCollector,
    positions: dict[str, tuple[float, float]],
    offset_s: int,
) -> None:
    _, header = next(rows, (1, []))
    columns = _columns(header)
    if columns is None:
        raise TraceError(
            f"{document.path}:1: expected a header with start time, end time, user id, latitude, longitude "
            f"or location(latitude/longitude), got {', '.join(header)[:120]!r}"
        )
    for line, cells in rows:
        try:
            if len(cells) < len(header):
                raise ValueError(f"{len(cells)} columns, the header has {len(header)}")
            values = {field: cells[at].strip() for field, at in columns.items()}
            empty = [field for field, text in values.items() if text.lower() in ("", "nan", "none", "null")]
            if empty:
                raise ValueError(f"{', '.join(empty)} is empty")
            latitude, longitude = _position(values)
            start_s, end_s = (_seconds(values, field) - offset_s for field in ("start", "end"))
            if not (_SOUTH <= latitude <= _NORTH and _WEST <= longitude <= _EAST):
                check_degrees(latitude, longitude)
                stays.account.leave_out("stations outside Shanghai")
                continue
            station = f"{latitude:.6f}/{longitude:.6f}"
            stays.add(values["device"], station, start_s, end_s)
            positions[station] = latitude, longitude
        except (ValueError, OverflowError) as error:
            stays.account.reject(line, str(error), document.path)


def _columns(header: Sequence[str]) -> dict[str, int] | None:
    """The position of every field, or None for another table."""
    found: dict[str, int] = {}
    for at, cell in enumerate(header):
        name = re.sub(r"[^a-z]+", " ", cell.lower()).strip()
        field = {
            "date": "date",
            "start time": "start",
            "end time": "end",
            "latitude": "lat",
            "longitude": "lon",
            "user id": "device",
            "userid": "device",
        }.get(name, "location" if name.startswith("location") else None)
        if field:
            found.setdefault(field, at)
    position = {"lat", "lon"} <= set(found) or "location" in found
    return found if position and {"start", "end", "device"} <= set(found) else None


def _position(values: dict[str, str]) -> tuple[float, float]:
    if "location" in values:
        parts = values["location"].split("/")
        if len(parts) != 2:
            raise ValueError(f"location {values['location'][:40]!r} is not latitude/longitude")
        return number(parts[0], "latitude"), number(parts[1], "longitude")
    return number(values["lat"], "latitude"), number(values["lon"], "longitude")


def _seconds(values: dict[str, str], field: str) -> int:
    """Local time as if it were UTC."""
    text = values[field]
    if _CLOCK.fullmatch(text):
        if "date" not in values:
            raise ValueError(f"{field} {text!r} is a clock time, and there is no date")
        text = f"{values['date'].partition(' ')[0].partition('T')[0]} {text}"
    slashed = _DAY_FIRST.fullmatch(text)
    parts = (slashed[3], slashed[2], slashed[1], *slashed.groups()[3:]) if slashed else None
    if (year_first := _YEAR_FIRST.fullmatch(text)) is not None:
        parts = year_first.groups()
    if parts is None:
        return check_time(iso(text))
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    return check_time(iso(datetime(year, month, day, hour, minute, second).isoformat()))


def _text_rows(document: Document) -> Generator[tuple[int, list[str]], None, None]:
    with closing(document.lines()) as lines:
        separator = ""
        for number_, line in enumerate(lines, start=1):
            row = line.strip("\r\n\ufeff")
            if not row.strip():
                continue
            separator = separator or next((mark for mark in "\t,;" if mark in row), ",")
            try:
                yield number_, list(cells_of(row, separator))
            except ValueError:
                yield number_, []


def _workbook_rows(document: Document) -> Generator[tuple[int, list[str]], None, None]:
    """Rows of the first sheet of an .xlsx, every cell as text; whole rows of nothing are skipped."""
    try:
        import openpyxl
    except ImportError:
        raise TraceError(
            f"{document.path}: reading .xlsx needs openpyxl: install roambench[xlsx], or save it as CSV"
        ) from None
    with document.opened() as file, tempfile.SpooledTemporaryFile(max_size=64 << 20) as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        try:
            _require_measure(copy)
            book = openpyxl.load_workbook(copy, read_only=True, data_only=True)
            rows = book.worksheets[0].iter_rows(max_col=_MAX_COLUMNS, values_only=True)
            for line, cells in enumerate(rows, start=1):
                texts = ["" if cell is None else str(cell) for cell in cells]
                if any(texts):
                    yield line, texts
            book.close()
        except GeneratorExit:
            raise
        except Exception as error:  # a damaged workbook raises whatever its parts raise
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise TraceError(f"{document.path}: not a readable workbook: {reason}") from None


def _require_measure(workbook: IO[bytes]) -> None:
    """ValueError for parts that unpack to more than any workbook's: openpyxl holds all but the sheets."""
    with zipfile.ZipFile(workbook) as parts:
        for part in parts.infolist():
            most_bytes = _SHEET_BYTES if part.filename.startswith("xl/worksheets/") else _PART_BYTES
            if part.file_size > most_bytes:
                raise ValueError(
                    f"{part.filename[:80]!r} unpacks to {part.file_size:,} bytes, expected at most "
                    f"{most_bytes:,}: save it as CSV"
                )
    workbook.seek(0)


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
    if PurePath(head.name).suffix.lower() == ".xlsx":
        return "its name ends in .xlsx"
    if head.rows:
        row = head.rows[0].strip("\ufeff")
        separator = next((mark for mark in "\t,;" if mark in row), ",")
        try:
            cells = list(cells_of(row, separator))
        except ValueError:
            return None
        if _columns(cells) is not None:
            return "a header of start time, end time, user id and a position"
    return None


SHANGHAI_TELECOM: Final = Reader(
    "shanghai-telecom",
    "Shanghai Telecom's base-station records (CSV, or .xlsx with the extra xlsx)",
    read_together=read,
    belongs=lambda name: PurePath(name).suffix.lower() in (".csv", ".tsv", ".txt", ".xlsx"),
    recognises=recognises,
    utc_offset_h=_SHANGHAI_H,
)
