"""Association logs (Wi-Fi, base stations): device, access point, start, end; with or without positions.

A table with a header, or a column map. A second table of the access points' positions (ap and lat, lon or x,
y) may lie beside it: it is the one without a device column. Without it the access points are drawn on a
made-up grid, which the trace says. Of several access points in a step the one with the longest stay counts.
With a `time` instead of start and end a row holds until the device's next one; the access point `OFF` (in any
case) ends it. A stay without an end is left out. A table that names no device, or no access point, may be
that of one, named by the file (`device=@file`, `ap=@file`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import IO, Final

import numpy as np
import pyarrow as pa

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.account import check_degrees, check_id, check_metres
from roambench.mobility.readers.documents import Document, Head, text_lines
from roambench.mobility.readers.events import EventColumns, is_off
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, Stations
from roambench.mobility.readers.gps_blocks import BLOCK_BYTES, blocks, encoded, in_pieces
from roambench.mobility.readers.overlaps import IntervalCollector
from roambench.mobility.readers.table_blocks import after_header, are_ids, cells_at_once
from roambench.mobility.readers.tables import BY_FILE, ColumnLayout, columns_needed, layout_of, named_by
from roambench.mobility.readers.times import TIME_FORMATS
from roambench.mobility.readers.timestamp_columns import timestamps

#: Usual names by field; those of RADIUS accounting as its attributes and as FreeRADIUS' table write them.
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": (
        *("device", "device_id", "user_id", "userid", "user", "uid", "mac", "imei", "imsi", "phone"),
        *("calling-station-id", "callingstationid", "user-name", "username"),
    ),
    "ap": (
        *("ap", "ap_id", "ap_name", "station", "cell", "bs", "base_station", "lac+ci", "lac+cid"),
        *("called-station-id", "calledstationid", "nas-ip-address", "nasipaddress"),
    ),
    "start": ("start", "start_time", "start time", "begin", "from", "acct-start-time", "acctstarttime"),
    "end": ("end", "end_time", "end time", "stop", "to", "acct-stop-time", "acctstoptime"),
    "time": ("time", "timestamp", "utc_time"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "longitude"),
    "x": ("x", "x_m"),
    "y": ("y", "y_m"),
}
#: How an end is written that was not known, or is not yet: nothing, or SQL's NULL as databases export it.
_NO_END: Final = frozenset(("", "null", r"\n"))

Positions = dict[str, tuple[float, float]]


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """One fix per device and step. A stay at an access point without a position is a malformed row.

    Raises TraceError when no table holds stays.
    """
    if options.time_format not in TIME_FORMATS:
        raise ConfigError(
            [f"time_format: {options.time_format!r}, expected one of {', '.join(TIME_FORMATS)}"]
        )
    by_file = _named_by_files(options.columns)
    options = replace(options, columns=_columns(options.columns))
    layouts = {document.path: _layout(document, options) for document in documents}
    tables: list[Document] = []
    others: list[Document] = []
    for document in documents:
        (tables if _holds_stays(layouts[document.path], by_file) else others).append(document)
    if not tables:
        found = {*layouts[documents[0].path].columns, *by_file}
        missing = [field for field in ("device", "ap", "start", "end") if field not in found]
        raise TraceError(
            f"{documents[0].path}:1: no table with columns device, ap, start and end (or time): "
            + columns_needed(_first_line(documents[0]), missing)
        )
    stays = IntervalCollector(options.file)
    positions: Positions = {}
    plane = False
    for document in others:
        plane = _read_positions(document, layouts[document.path], positions, stays)
    events = EventColumns()
    for document in tables:
        fixed = dict.fromkeys(by_file, named_by(document.name))
        _read_stays(document, fixed, layouts[document.path], options, stays, events, positions)
    events.close(stays)
    if not positions:
        return stays.fixes_without_positions(options.step_s)
    ids = tuple(sorted(positions))
    table = np.array([positions[name] for name in ids])
    return stays.fixes(Stations(ids, table[:, 0], table[:, 1]), options.step_s, plane=plane)


def _layout(document: Document, options: ReaderOptions) -> ColumnLayout:
    first = _first_line(document)
    try:
        return layout_of(first, options.columns, _KNOWN, document.path)
    except TraceError:  # a column map is that of the stays; the positions may have usual names
        return layout_of(first, {}, _KNOWN, document.path)


def _first_line(document: Document) -> str:
    with closing(document.lines()) as lines:
        return next((line for line in lines if line.strip()), "").strip("\r\n\ufeff")


def _named_by_files(columns: Mapping[str, str]) -> tuple[str, ...]:
    """The fields of a column map that the files name: the device, or the access point."""
    return tuple(field for field in ("device", "ap") if columns.get(field) == BY_FILE)


def _columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The column map without these fields."""
    by_file = _named_by_files(columns)
    return {field: name for field, name in columns.items() if field not in by_file}


def _holds_stays(layout: ColumnLayout, by_file: Sequence[str]) -> bool:
    found = {*layout.columns, *by_file}
    return {"device", "ap"} <= found and ({"start", "end"} <= found or "time" in found)


def _rows(document: Document, layout: ColumnLayout) -> Iterator[tuple[int, str]]:
    """Line number and text of every row below the header."""
    with document.opened() as file:
        first = after_header(file, layout.has_header)
        yield from _text_rows(file, first)


def _text_rows(file: IO[bytes], first_line: int) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text_lines(file), start=first_line):
        if line.strip():
            yield number, line.rstrip("\r\n")


def _read_positions(
    document: Document, layout: ColumnLayout, positions: Positions, stays: IntervalCollector
) -> bool:
    """Adds the file's positions; returns whether they are metres."""
    found = set(layout.columns)
    plane = not {"lat", "lon"} <= found
    if "ap" not in found or (plane and not {"x", "y"} <= found):
        raise TraceError(
            f"{document.path}:1: neither stays (device, ap, start, end) nor positions (ap, lat, lon)"
        )
    for line, row in _rows(document, layout):
        try:
            cells = layout.cells(row)
            name = check_id(layout.text(cells, "ap"), "access point")
            north, east = ("y", "x") if plane else ("lat", "lon")
            at = layout.number(cells, north), layout.number(cells, east)
            if plane:
                check_metres(at[1], at[0])
            else:
                check_degrees(*at)
            positions[name] = at
        except ValueError as error:
            stays.account.reject(line, str(error), document.path)
    return plane


def _read_stays(
    document: Document,
    fixed: Mapping[str, str],
    layout: ColumnLayout,
    options: ReaderOptions,
    stays: IntervalCollector,
    events: EventColumns,
    positions: Positions,
) -> None:
    offset_s = round((options.utc_offset_h or 0.0) * 3600)
    tells_ends = {"start", "end"} <= set(layout.columns)
    table = _Table(
        document.path, fixed, layout, options.time_format, offset_s, stays, events, positions, tells_ends
    )
    events.begin(document.path)
    with document.opened() as file:
        first = after_header(file, layout.has_header)
        for line, block in blocks(file, BLOCK_BYTES, first):
            table.read(block, line)


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of stays, read in blocks: clean ones at once, around an odd row line by line."""

    path: str
    fixed: Mapping[str, str]  # the device or the access point of all rows, where no column names it
    layout: ColumnLayout
    time_format: str
    offset_s: int
    stays: IntervalCollector
    events: EventColumns  # of all tables: a device's next row may be in another
    positions: Positions
    tells_ends: bool

    def read(self, block: bytes, line: int) -> None:
        in_pieces(block, line, lambda *piece: self._at_once(*piece) or None, self._line_by_line)

    def _at_once(self, block: bytes, line: int) -> bool:
        """Whether all rows of the block were sound, and are added."""
        if not self.tells_ends and (block.startswith((b"\n", b"\r")) or b"\n\n" in block or b"\n\r" in block):
            return False  # Arrow does not count empty lines, and events are told apart by their lines
        times = ("start", "end") if self.tells_ends else ("time",)
        named = tuple(field for field in ("device", "ap") if field not in self.fixed)
        cells = cells_at_once(block, self.layout, (*named, *times))
        if cells is None or not all(are_ids(cells[name]) for name in named):
            return False
        rows = len(cells[times[0]])
        devices, aps = (
            encoded(cells[field])
            if field in named
            else (((self.fixed[field],) if rows else ()), np.zeros(rows, np.int32))
            for field in ("device", "ap")
        )
        if self.positions and not all(self._stands(name) for name in aps[0]):
            return False
        try:
            timestamps_s = [timestamps(cells[name], self.time_format) - self.offset_s for name in times]
        except pa.ArrowException:
            return False
        if self.tells_ends:
            if not self.stays.possible(*timestamps_s).all():
                return False
            self.stays.add_columns(devices, aps, *timestamps_s)
        else:
            self.events.add_columns(devices, aps, timestamps_s[0], line)
        return True

    def _line_by_line(self, block: bytes, first_line: int) -> bool:
        parse = TIME_FORMATS[self.time_format]
        for line, row in _text_rows(io.BytesIO(block), first_line):
            try:
                cells = self.layout.cells(row)
                device, ap = (
                    self.fixed.get(field) or self.layout.text(cells, field) for field in ("device", "ap")
                )
                if self.positions and not self._stands(ap):
                    raise ValueError(f"access point {ap[:32]!r} has no position")
                if self.tells_ends and self.layout.text(cells, "end").lower() in _NO_END:
                    parse(self.layout.text(cells, "start"))
                    self.stays.account.leave_out("stays without an end: nothing says how long they lasted")
                elif self.tells_ends:
                    start_s, end_s = (
                        parse(self.layout.text(cells, name)) - self.offset_s for name in ("start", "end")
                    )
                    self.stays.add(device, ap, start_s, end_s)
                else:
                    check_id(device, "device")
                    check_id(ap, "access point")
                    self.events.add(device, ap, parse(self.layout.text(cells, "time")) - self.offset_s, line)
            except (ValueError, OverflowError) as error:
                self.stays.account.reject(line, str(error), self.path)
        return True

    def _stands(self, ap: str) -> bool:
        """Whether it is known where the access point is, or that it is none."""
        return ap in self.positions or (not self.tells_ends and is_off(ap))


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
    if not head.rows:
        return None
    by_file = _named_by_files(head.columns)
    try:
        layout = layout_of(head.rows[0].strip("\ufeff"), _columns(head.columns), _KNOWN, head.name)
    except (ConfigError, TraceError, ValueError):
        return None
    if not _holds_stays(layout, by_file):
        return None
    named = ", ".join([*(f"{field} (the file's name)" for field in by_file), *layout.columns])
    return f"a header that names {named}" if layout.has_header else f"columns that hold {named}"


INTERVALS: Final = Reader(
    "intervals",
    "stays at access points (CSV/TSV: device, ap, start, end), with a table of positions or without",
    read_together=read,
    recognises=recognises,
    utc_offset_h=0.0,
)
