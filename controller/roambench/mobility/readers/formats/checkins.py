"""Check-ins and any other table of positions: a device was somewhere at a time.

TSMC2014 (New York, Tokyo) has eight tab-separated columns and no header: user, venue, category id,
category name, latitude, longitude, timezone offset, UTC time. Other files name their columns in their first
line; usual names are recognised, others are given (`device=persistentid,time=utc_date+utc_hour,...`; two
columns joined by `+` make one time). Positions (`device=0,time=1,...`) read a file without a header. Where no
column names the device, the file may (`device=@file`). One cell may hold a point, or a way of many
(`lat=way[1],lon=way[0],time=start+@point*15`); then each point counts as a row. Columns x and y instead of
lat and lon are metres on a plane; their times count from a simulation's start if all lie before 1973.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Final

import numpy as np

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.collecting import Pile, fixes_of
from roambench.mobility.readers.documents import Head, decoded
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, without_duplicates
from roambench.mobility.readers.rows import Form, Rows
from roambench.mobility.readers.tables import (
    BY_FILE,
    ColumnLayout,
    columns_needed,
    first_row,
    layout_of,
    lines_ahead,
    named_by,
    rows_below,
)
from roambench.mobility.readers.time_columns import TIME_FORMS
from roambench.mobility.readers.zones import time_form

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


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """Fixes of one file. Rows that cannot be read are counted and the first five kept with their line.

    Raises TraceError when the columns cannot be recognised, ConfigError for options that make no sense.
    """
    line, first = first_row(file)
    text = decoded(first).rstrip("\r\n")
    if not text.strip():
        raise TraceError(f"{options.file}: the file is empty")
    layout = _layout(text.removeprefix("\ufeff"), options, lines_ahead(file))
    device = named_by(options.file) if options.columns.get("device") == BY_FILE else None
    table = _Table(layout, time_form(options.time_format, options.time_zone, options.time_doubts), device)
    pile = Pile(options.condense)
    for rows in rows_below(file, (line, first), layout, options.file):
        pile.add(options.condense(table.fixes(rows)))
    fixes = without_duplicates(pile.fixes())
    return replace(fixes, simulated=table.plane and table.furthest_s < _BEFORE_1973_S)


@dataclass(slots=True)
class _Table:
    """The columns of one table, and what is known of its rows so far."""

    layout: ColumnLayout
    form: Form
    device: str | None = None  # of all rows; None: a column names it
    furthest_s: int = 0  # the time furthest from 0 of all fixes so far

    @property
    def plane(self) -> bool:
        return "lat" not in self.layout.columns

    def fixes(self, rows: Rows) -> Fixes:
        layout = self.layout
        layout.require(rows)
        north, east, later_s = layout.positions(rows, *(("y", "x") if self.plane else ("lat", "lon")))
        times_s = layout.times_s(rows, "time", self.form) + np.floor(later_s).astype(np.int64)
        device = self.device or rows.texts(*layout.columns["device"])
        fixes = fixes_of(rows, device, times_s, north, east, layout.texts(rows, "place"), plane=self.plane)
        if len(fixes.t_utc_s):
            self.furthest_s = max(self.furthest_s, int(np.abs(fixes.t_utc_s).max()))
        return fixes


def _layout(first: str, options: ReaderOptions, below: Sequence[str] = ()) -> ColumnLayout:
    """The layout that the first line and the options tell."""
    problems = [
        f"columns: unknown field {field!r}, expected one of {', '.join(_KNOWN)}"
        for field in options.columns
        if field not in _KNOWN
    ]
    try:
        time_form(options.time_format, options.time_zone, options.time_doubts)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    by_file = options.columns.get("device") == BY_FILE
    given = {field: name for field, name in options.columns.items() if not (by_file and field == "device")}
    layout = layout_of(first, given, _KNOWN, options.file, below)
    if by_file:
        layout = layout.without("device")
    given_plane, given_globe = ({*axes} & given.keys() for axes in (("x", "y"), ("lat", "lon")))
    if given_plane and given_globe:
        raise ConfigError(["columns: expected lat and lon, or x and y, not both"])
    if given_plane:  # a named column counts before one with a usual name
        layout = layout.without("lat", "lon")
    missing = [
        field for field in _REQUIRED if field not in layout.columns and not (by_file and field == "device")
    ]
    if missing in (["lat", "lon"], ["lat"], ["lon"]) and {"x", "y"} <= set(layout.columns):
        return layout.without("lat", "lon")
    if not missing:
        return layout.without("x", "y")
    if not layout.has_header:
        raise ConfigError([f"columns: {', '.join(missing)} missing (positions count from 0)"])
    if layout.separator == "\t" and len(first.split("\t")) == 8 and not options.columns:
        return ColumnLayout("\t", _TSMC2014, has_header=False)
    raise TraceError(
        f"{options.file}:1: cannot tell which column is {', '.join(missing)}: "
        + columns_needed(first, missing)
        + "; `roambench trace import --detect FILE` proposes them"
    )


def recognises(head: Head) -> str | None:
    """A header with the usual names."""
    if not head.rows:
        return None
    try:
        first = head.rows[0].removeprefix("\ufeff")
        layout = _layout(first, ReaderOptions(head.name, columns=head.columns), head.rows[1:])
        device = "-" if _names_device(head) else None
        if not layout.has_header and not (head.columns and _is_row(first, layout, device)):
            return None
    except (ConfigError, TraceError, ValueError):
        return None
    if not layout.columns.keys() & {"lat"} and not head.columns and _are_degrees(head, layout):
        return None
    named = ", ".join([*(["device (the file's name)"] if _names_device(head) else []), *layout.columns])
    return f"a header that names {named}" if layout.has_header else f"columns that hold {named}"


def _names_device(head: Head) -> bool:
    return head.columns.get("device") == BY_FILE


def _are_degrees(head: Head, layout: ColumnLayout) -> bool:
    """Tell if what is called x and y are degrees: with as many decimals metres would be a micrometre."""
    cells = [[cell.strip() for cell in row.split(layout.separator)] for row in head.rows[1:]]
    at = [layout.columns[axis][0] for axis in ("x", "y")]
    pairs = [[row[column] for column in at] for row in cells if len(row) > max(at)]
    written = [re.fullmatch(r"-?\d{1,3}[.,]\d{4,}", cell) for pair in pairs for cell in pair]
    numbers = [float(cell.replace(",", ".")) for pair in pairs for cell in pair] if all(written) else []
    east, north = numbers[::2], numbers[1::2]
    return (
        bool(numbers)
        and max(map(abs, east)) <= 180.0
        and max(map(abs, north)) <= 90.0
        and all(max(axis) - min(axis) < 30.0 for axis in (east, north))
    )


def _is_row(line: str, layout: ColumnLayout, device: str | None) -> bool:
    """Tell if the columns at the given positions hold a fix."""
    forms = ("auto", "unix_ms")
    rows = (Rows(line.encode(), layout.separator) for _ in forms)
    return any(
        _Table(layout, TIME_FORMS[form], device).fixes(row).used
        for form, row in zip(forms, rows, strict=True)
    )


def recognises_tsmc2014(head: Head) -> str | None:
    """Say what makes a file look like Foursquare's of 2014, by its head; None if nothing does."""
    if head.mostly(_TSMC2014_ROW):
        return "eight tab-separated columns without a header, the last a Foursquare time"
    return None


CHECKINS: Final = Reader(
    "checkins",
    "check-ins: Foursquare TSMC2014 (TSV) or any CSV/TSV with a header and a column map",
    read_bytes=read,
    takes_columns=True,
)
CSV: Final = Reader(
    "csv",
    "any CSV/TSV of device, time and lat, lon or x, y; --columns names the columns",
    read_bytes=read,
    takes_columns=True,
    recognises=recognises,
)
TSMC2014: Final = Reader(
    "tsmc2014",
    "check-ins of Foursquare's New York and Tokyo (TSMC2014)",
    read_bytes=read,
    takes_columns=True,
    recognises=recognises_tsmc2014,
)
