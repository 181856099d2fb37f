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
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import IO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.errors import TraceError
from roambench.contract.extra_packages import install_command
from roambench.mobility.readers.account import check_time, number
from roambench.mobility.readers.documents import Document, Head, decoded
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, Stations
from roambench.mobility.readers.overlaps import IntervalCollector
from roambench.mobility.readers.rows import Rows, Texts, blocks, one_by_one
from roambench.mobility.readers.tables import cells_of, first_row
from roambench.mobility.readers.times import iso

#: A workbook's sheet of a million rows has 0.4 GB, its texts a tenth.
_SHEET_BYTES: Final = 2 << 30
_PART_BYTES: Final = 512 << 20
_MAX_COLUMNS: Final = 64
_SHEET_ROWS: Final = 50_000  # that are read at once
_IN_ONE_LINE: Final = str.maketrans("\t\n\r", "   ")
_EMPTY: Final = pa.array(["", "nan", "none", "null"])
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
        found = _workbook_rows(document) if document.name.lower().endswith(".xlsx") else _text_rows(document)
        with closing(found):
            header = _header(next(found, None))
            columns = _columns(header)
            if columns is None:
                raise TraceError(
                    f"{document.path}:1: expected a header with start time, end time, user id, latitude, "
                    f"longitude or location(latitude/longitude), got {', '.join(header)[:120]!r}"
                )
            for rows in found:
                rows.require(len(header), f"the header has {len(header)}")
                _read_rows(rows, columns, stays, positions, round(offset_h * 3600))
    ids = tuple(sorted(positions))
    table = np.array([positions[name] for name in ids]).reshape(-1, 2)
    stations = Stations(ids, table[:, 0], table[:, 1])
    return stays.fixes(stations, options.step_s, options.origin_s, plane=False)


def _header(rows: Rows | None) -> list[str]:
    return [rows.texts(at)[0].as_py() for at in range(rows.width[0])] if rows else []


def _read_rows(
    rows: Rows,
    columns: Mapping[str, int],
    stays: IntervalCollector,
    positions: dict[str, tuple[float, float]],
    offset_s: int,
) -> None:
    texts = {field: rows.texts(at) for field, at in columns.items()}
    empty = {
        field: pc.is_in(pc.utf8_lower(column), _EMPTY).to_numpy(zero_copy_only=False)
        for field, column in texts.items()
    }
    rows.reject(
        np.any(list(empty.values()), axis=0),
        lambda row: f"{', '.join(field for field, mask in empty.items() if mask[row])} is empty",
    )
    if "location" in texts:
        north, east = (
            rows.values(texts["location"], one_by_one(partial(_position, axis=axis)), np.float64)
            for axis in (0, 1)
        )
    else:
        north, east = rows.numbers(texts["lat"], "latitude"), rows.numbers(texts["lon"], "longitude")
    start_s, end_s = (_times_s(rows, texts, field) - offset_s for field in ("start", "end"))
    rows.check_positions(north, east, plane=False)
    outside = ~((north >= _SOUTH) & (north <= _NORTH) & (east >= _WEST) & (east <= _EAST))
    kept = rows.leave_out(outside, "stations outside Shanghai")
    device, north, east = texts["device"].take(pa.array(kept)), north[kept], east[kept]
    rows.check_ids(device, "device")
    spots, spot = np.unique(north + 1j * east, return_inverse=True)
    names = tuple(f"{at.real:.6f}/{at.imag:.6f}" for at in spots.tolist())
    stays.add_rows(rows, device, (names, spot.astype(np.int32)), start_s[kept], end_s[kept])
    last = dict(zip(spot[(sound := rows.sound())].tolist(), sound.tolist(), strict=True))
    for number_, _ in sorted(last.items(), key=lambda item: item[1]):
        positions[names[number_]] = float(spots[number_].real), float(spots[number_].imag)


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


def _position(text: str, axis: int) -> float:
    parts = text.split("/")
    if len(parts) != 2:
        raise ValueError(f"location {text[:40]!r} is not latitude/longitude")
    return (number(parts[0], "latitude"), number(parts[1], "longitude"))[axis]


def _times_s(rows: Rows, texts: Mapping[str, Texts], field: str) -> npt.NDArray[np.int64]:
    """Local times as if they were UTC."""
    written = texts[field]
    if "date" in texts:
        day = pc.replace_substring_regex(texts["date"], "[ T].*", "")
        is_clock = pc.match_substring_regex(written, f"^{_CLOCK.pattern}$")
        written = pc.if_else(is_clock, pc.binary_join_element_wise(day, written, " "), written)
    return rows.values(written, one_by_one(partial(_seconds, field=field)))


def _seconds(text: str, field: str) -> int:
    if _CLOCK.fullmatch(text):
        raise ValueError(f"{field} {text!r} is a clock time, and there is no date")
    slashed = _DAY_FIRST.fullmatch(text)
    parts = (slashed[3], slashed[2], slashed[1], *slashed.groups()[3:]) if slashed else None
    if (year_first := _YEAR_FIRST.fullmatch(text)) is not None:
        parts = year_first.groups()
    if parts is None:
        return check_time(iso(text))
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    return check_time(iso(datetime(year, month, day, hour, minute, second).isoformat()))


def _text_rows(document: Document) -> Generator[Rows, None, None]:
    """The header, then the rows below it in blocks."""
    with document.opened() as file:
        line, first = first_row(file)
        text = decoded(first)
        separator = next((mark for mark in "\t,;" if mark in text), ",")
        yield Rows(first, separator, document.path, line)
        for first_line, block in blocks(file, line + 1):
            yield Rows(block, separator, document.path, first_line)


def _workbook_rows(document: Document) -> Generator[Rows, None, None]:
    """The same of the first sheet of an .xlsx, every cell as text."""
    try:
        import openpyxl
    except ImportError:
        raise TraceError(
            f"{document.path}: reading .xlsx needs openpyxl: save it as CSV, or {install_command('xlsx')}"
        ) from None
    with document.opened() as file, tempfile.SpooledTemporaryFile(max_size=64 << 20) as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        try:
            _require_measure(copy)
            book = openpyxl.load_workbook(copy, read_only=True, data_only=True)
            sheet = book.worksheets[0].iter_rows(max_col=_MAX_COLUMNS, values_only=True)
            lines = ("\t".join(_text(cell) for cell in cells) for cells in sheet)
            line = 1
            at_once = 1  # the header alone, below empty lines
            while some := list(islice(lines, at_once)):
                rows = Rows("\n".join(some).encode(), "\t", document.path, line)
                line += len(some)
                if len(rows) or at_once > 1:
                    at_once = _SHEET_ROWS
                    yield rows
            book.close()
        except GeneratorExit:
            raise
        except Exception as error:  # a damaged workbook raises any error of its parts
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise TraceError(f"{document.path}: not a readable workbook: {reason}") from None


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).translate(_IN_ONE_LINE)


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
    """Say what makes a file look like this format, by its head; None if nothing does."""
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
