"""Check-ins and any other table of positions: somebody was somewhere at a time.

TSMC2014 (New York, Tokyo) has eight tab-separated columns and no header: user, venue, category id,
category name, latitude, longitude, timezone offset, UTC time. Other files name their columns in their first
line; usual names are recognised, others are given (`device=persistentid,time=utc_date+utc_hour,...`; two
columns joined by `+` make one time). Positions (`device=0,time=1,...`) read a file without a header. Where no
column names the device, the file may (`device=@file`). Columns x and y instead of lat and lon are metres on a
plane; their times count from a simulation's start if all lie before 1973.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import IO, Final

import numpy as np
import pyarrow as pa

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.account import MAX_M
from roambench.mobility.readers.collecting import FixCollector, Pile
from roambench.mobility.readers.documents import EXCELS_SEPARATOR, Head, decoded, text_lines
from roambench.mobility.readers.fixes import (
    Fixes,
    Reader,
    ReaderOptions,
    without_duplicates,
)
from roambench.mobility.readers.gps_blocks import BLOCK_BYTES, blocks, encoded, in_pieces, together
from roambench.mobility.readers.table_blocks import are_ids, cells_at_once, numbers_at_once
from roambench.mobility.readers.tables import BY_FILE, ColumnLayout, columns_needed, layout_of, named_by
from roambench.mobility.readers.times import TIME_FORMATS
from roambench.mobility.readers.timestamp_columns import timestamps
from roambench.mobility.trace import FloatColumn

#: Column names in use out there, by field, in order of preference (compared in lower case).
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": (
        *("device", "device_id", "user_id", "userid", "user", "persistentid", "uid", "vehicle_id"),
        *("vehicle", "taxi", "taxi_id", "cab", "cab_id", "driver", "driver_id", "phone", "node", "node_id"),
    ),
    "time": (
        *("time", "utc_time", "utctimestamp", "utc_minute", "timestamp", "t_utc_s", "datetime"),
        *("timestep_time", "unixtime", "unix_time", "epoch", "date_time", "utc_date+utc_hour", "date+hour"),
    ),
    "lat": ("lat", "latitude", "geolat"),
    "lon": ("lon", "lng", "longitude", "geolong"),
    "place": ("place", "place_id", "venue_id", "venueid", "poi_id", "location_id", "location id"),
    "x": ("x", "x_m", "vehicle_x"),
    "y": ("y", "y_m", "vehicle_y"),
}
_TSMC2014: Final = {"device": (0,), "place": (1,), "lat": (4,), "lon": (5,), "time": (7,)}
_TSMC2014_ROW: Final = re.compile(
    r"(?:[^\t]*\t){7}[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [+-]\d{4} \d{4}"
)
_REQUIRED: Final = ("device", "time", "lat", "lon")
_BEFORE_1973_S: Final = 100_000_000
_MAX_LINE: Final = 64 * 1024


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """Fixes of one file. Rows that cannot be read are counted and the first five kept with their line.

    Raises TraceError when the file's columns cannot be told, ConfigError for options that make no sense.
    """
    line, first = _first_row(file)
    text = decoded(first).rstrip("\r\n")
    if not text.strip():
        raise TraceError(f"{options.file}: the file is empty")
    layout = _layout(text.removeprefix("\ufeff"), options)
    device = named_by(options.file) if options.columns.get("device") == BY_FILE else None
    table = _Table(options.file, layout, options.time_format, "lat" not in layout.columns, device)
    pile = Pile(options.condense)
    if not layout.has_header:
        pile.add(options.condense(table.read(first, line)))
    for first_line, block in blocks(file, BLOCK_BYTES, line + 1):
        pile.add(options.condense(table.read(block, first_line)))
    fixes = without_duplicates(pile.fixes())
    return replace(fixes, simulated=table.plane and table.furthest_s < _BEFORE_1973_S)


def _first_row(file: IO[bytes]) -> tuple[int, bytes]:
    """Number and bytes of the first line with something of the table in it; empty where none has."""
    line, row = 1, file.readline(_MAX_LINE)
    while row and (not (text := decoded(row).strip()) or EXCELS_SEPARATOR.fullmatch(text)):
        line, row = line + 1, file.readline(_MAX_LINE)
    if len(row) < _MAX_LINE or row.endswith(b"\n"):
        return line, row
    while (rest := file.readline(_MAX_LINE)) and not rest.endswith(b"\n"):
        pass
    return line, b"\0\n"  # a line that long is none


@dataclass(slots=True)
class _Table:
    """One table, read in blocks: clean ones at once, around an odd row line by line."""

    path: str
    layout: ColumnLayout
    time_format: str
    plane: bool
    device: str | None = None  # of all rows; None: a column names it
    furthest_s: int = 0  # the time furthest from 0 of all fixes so far

    def read(self, block: bytes, line: int) -> Fixes:
        return together(in_pieces(block, line, self._at_once, self._line_by_line))

    @property
    def _axes(self) -> tuple[str, str]:
        return ("y", "x") if self.plane else ("lat", "lon")

    def _at_once(self, block: bytes, _: int) -> Fixes | None:
        """The fixes of a block whose rows are all sound."""
        cells = cells_at_once(block, self.layout, ("device", "time", *self._axes, "place"), ("place",))
        if cells is None or not all(are_ids(cells[name]) for name in ("device", "place") if name in cells):
            return None
        rows = len(cells["time"])
        north, east = (numbers_at_once(cells[axis]) for axis in self._axes)
        if north is None or east is None or not self._are_positions(north, east):
            return None
        try:
            times_s = timestamps(cells["time"], self.time_format)
        except pa.ArrowException:
            return None
        if len(times_s):
            self.furthest_s = max(self.furthest_s, int(np.abs(times_s).max()))
        devices, device = (
            encoded(cells["device"])
            if self.device is None
            else ((self.device,) if rows else (), np.zeros(rows, np.int32))
        )
        places, place = encoded(cells["place"]) if "place" in cells else ((), np.full(len(device), -1))
        named = np.array([bool(name) for name in places])
        numbers = np.append(np.where(named, np.cumsum(named) - 1, -1), -1).astype(np.int32)
        return without_duplicates(
            Fixes(
                device_ids=devices,
                place_ids=tuple(name for name in places if name),
                device=device,
                place=numbers[place],
                t_utc_s=times_s,
                latitude=north,
                longitude=east,
                rows=len(device),
                used=len(device),
                plane=self.plane,
            )
        )

    def _are_positions(self, north: FloatColumn, east: FloatColumn) -> bool:
        if self.plane:
            return bool(((np.abs(north) < MAX_M) & (np.abs(east) < MAX_M)).all())
        on_globe = (np.abs(north) <= 90.0) & (np.abs(east) <= 180.0)
        return bool((on_globe & ((north != 0.0) | (east != 0.0))).all())

    def _line_by_line(self, block: bytes, first_line: int) -> Fixes:
        time = TIME_FORMATS[self.time_format]
        collector = FixCollector(self.path, plane=self.plane)
        for number, line in enumerate(text_lines(io.BytesIO(block)), start=first_line):
            if not line.strip():
                continue
            try:
                self._collect(collector, line.rstrip("\r\n"), time)
            except ValueError as error:
                collector.reject(number, str(error))
        fixes = collector.fixes()
        self.furthest_s = max(self.furthest_s, collector.furthest_s)
        return fixes

    def _collect(self, collector: FixCollector, line: str, time: Callable[[str], int]) -> None:
        layout = self.layout
        cells = layout.cells(line)
        written = layout.text(cells, "time")
        try:
            t_utc_s = time(written)
        except OverflowError:
            raise ValueError(f"{written!r} is not a time") from None
        north, east = (layout.number(cells, axis) for axis in self._axes)
        device = layout.text(cells, "device") if self.device is None else self.device
        collector.add(device, t_utc_s, north, east, layout.text(cells, "place"))


def _layout(first: str, options: ReaderOptions) -> ColumnLayout:
    """The layout that the first line and the options tell."""
    problems = [
        f"columns: unknown field {field!r}, expected one of {', '.join(_KNOWN)}"
        for field in options.columns
        if field not in _KNOWN
    ]
    if options.time_format not in TIME_FORMATS:
        problems.append(f"time_format: {options.time_format!r}, expected one of {', '.join(TIME_FORMATS)}")
    if problems:
        raise ConfigError(problems)
    by_file = options.columns.get("device") == BY_FILE
    given = {field: name for field, name in options.columns.items() if not (by_file and field == "device")}
    layout = layout_of(first, given, _KNOWN, options.file)
    if by_file:
        columns = {field: at for field, at in layout.columns.items() if field != "device"}
        layout = ColumnLayout(layout.separator, columns, layout.has_header)
    missing = [
        field for field in _REQUIRED if field not in layout.columns and not (by_file and field == "device")
    ]
    if missing in (["lat", "lon"], ["lat"], ["lon"]) and {"x", "y"} <= set(layout.columns):
        columns = {field: at for field, at in layout.columns.items() if field not in ("lat", "lon")}
        return ColumnLayout(layout.separator, columns, layout.has_header)
    if not missing:
        columns = {field: at for field, at in layout.columns.items() if field not in ("x", "y")}
        return ColumnLayout(layout.separator, columns, layout.has_header)
    if not layout.has_header:
        raise ConfigError([f"columns: {', '.join(missing)} missing (positions count from 0)"])
    if layout.separator == "\t" and len(first.split("\t")) == 8 and not options.columns:
        return ColumnLayout("\t", _TSMC2014, has_header=False)
    raise TraceError(
        f"{options.file}:1: cannot tell which column is {', '.join(missing)}: "
        + columns_needed(first, missing)
    )


def recognises(head: Head) -> str | None:
    """A header with the usual names."""
    if not head.rows:
        return None
    try:
        first = head.rows[0].removeprefix("\ufeff")
        layout = _layout(first, ReaderOptions(head.name, columns=head.columns))
        device = "-" if _names_device(head) else None
        if not layout.has_header and not (head.columns and _is_row(first, layout, device)):
            return None
    except (ConfigError, TraceError, ValueError):
        return None
    named = ", ".join([*(["device (the file's name)"] if _names_device(head) else []), *layout.columns])
    return f"a header that names {named}" if layout.has_header else f"columns that hold {named}"


def _names_device(head: Head) -> bool:
    return head.columns.get("device") == BY_FILE


def _is_row(line: str, layout: ColumnLayout, device: str | None) -> bool:
    """Whether the columns at the given positions hold what they should."""
    plane = "lat" not in layout.columns
    for time_format in ("auto", "unix_ms"):
        try:
            _Table("-", layout, time_format, plane, device)._collect(
                FixCollector("-", plane=plane), line, TIME_FORMATS[time_format]
            )
        except ValueError:
            continue
        return True
    return False


def recognises_tsmc2014(head: Head) -> str | None:
    """Why a file is likely Foursquare's of 2014, by its head; None if it is not."""
    if head.mostly(_TSMC2014_ROW):
        return "eight tab-separated columns without a header, the last a Foursquare time"
    return None


CHECKINS: Final = Reader(
    "checkins",
    "check-ins: Foursquare TSMC2014 (TSV) or any CSV/TSV with a header and a column map",
    read_bytes=read,
)
CSV: Final = Reader(
    "csv",
    "any CSV/TSV of device, time and lat, lon or x, y; --columns names the columns",
    read_bytes=read,
    recognises=recognises,
)
TSMC2014: Final = Reader(
    "tsmc2014",
    "check-ins of Foursquare's New York and Tokyo (TSMC2014)",
    read_bytes=read,
    recognises=recognises_tsmc2014,
)
