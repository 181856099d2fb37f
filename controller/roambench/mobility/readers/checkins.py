"""Check-ins and any other table of positions: somebody was somewhere at a time.

TSMC2014 (New York, Tokyo) has eight tab-separated columns and no header: user, venue, category id,
category name, latitude, longitude, timezone offset, UTC time. Other files name their columns in their first
line; usual names are recognised, others are given (`device=persistentid,time=utc_date+utc_hour,...`; two
columns joined by `+` make one time). Positions (`device=0,time=1,...`) read a file without a header.
Columns x and y instead of lat and lon are metres on a plane; their times count from a simulation's start if
all lie before 1973.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.tables import Layout, layout_of
from roambench.mobility.readers.times import TIME_FORMATS

#: Column names in use out there, by field, in order of preference (compared in lower case).
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": ("device", "device_id", "user_id", "userid", "user", "persistentid", "uid", "vehicle_id"),
    "time": (
        *("time", "utc_time", "utctimestamp", "utc_minute", "timestamp", "t_utc_s", "datetime"),
        "timestep_time",
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


def read(lines: Iterable[str], options: ReaderOptions) -> Fixes:
    """Fixes of one file. Rows that cannot be read are counted and the first five kept with their line.

    Raises TraceError when the file's columns cannot be told, ConfigError for options that make no sense.
    """
    numbered = ((number, line.rstrip("\r\n")) for number, line in enumerate(lines, start=1))
    rows = ((number, line) for number, line in numbered if line.strip())
    first = next(rows, None)
    if first is None:
        raise TraceError(f"{options.file}: the file is empty")
    layout = _layout(first[1].removeprefix("\ufeff"), options)
    time = TIME_FORMATS[options.time_format]
    plane = "lat" not in layout.columns
    collector = FixCollector(options.file, plane=plane, condense=options.condense)
    for number, line in rows if layout.has_header else chain([first], rows):
        try:
            _collect(collector, layout, line, time)
        except ValueError as error:
            collector.reject(number, str(error))
    fixes = collector.fixes()
    return replace(fixes, simulated=plane and collector.furthest_s < _BEFORE_1973_S)


def _collect(collector: FixCollector, layout: Layout, line: str, time: Callable[[str], int]) -> None:
    cells = layout.cells(line)
    moment = layout.text(cells, "time")
    try:
        t_utc_s = time(moment)
    except OverflowError:
        raise ValueError(f"{moment!r} is not a time") from None
    north, east = ("y", "x") if "lat" not in layout.columns else ("lat", "lon")
    position = layout.number(cells, north), layout.number(cells, east)
    collector.add(layout.text(cells, "device"), t_utc_s, *position, layout.text(cells, "place"))


def _layout(first: str, options: ReaderOptions) -> Layout:
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
    layout = layout_of(first, options.columns, _KNOWN, options.file)
    missing = [field for field in _REQUIRED if field not in layout.columns]
    if missing in (["lat", "lon"], ["lat"], ["lon"]) and {"x", "y"} <= set(layout.columns):
        columns = {field: at for field, at in layout.columns.items() if field not in ("lat", "lon")}
        return Layout(layout.separator, columns, layout.has_header)
    if not missing:
        columns = {field: at for field, at in layout.columns.items() if field not in ("x", "y")}
        return Layout(layout.separator, columns, layout.has_header)
    if not layout.has_header:
        raise ConfigError([f"columns: {', '.join(missing)} missing (positions count from 0)"])
    if layout.separator == "\t" and len(first.split("\t")) == 8 and not options.columns:
        return Layout("\t", _TSMC2014, has_header=False)
    raise TraceError(
        f"{options.file}:1: cannot tell which column is {', '.join(missing)}: expected a header with usual "
        f"names, eight tab-separated TSMC2014 columns, or a column map (device=...,time=...,lat=...,lon=...)"
    )


def recognises(head: Head) -> str | None:
    """A header with the usual names."""
    if not head.rows:
        return None
    try:
        layout = _layout(head.rows[0].removeprefix("\ufeff"), ReaderOptions(head.name))
    except (ConfigError, TraceError, ValueError):
        return None
    named = ", ".join(layout.columns)
    return f"a header that names {named}" if layout.has_header else None


def recognises_tsmc2014(head: Head) -> str | None:
    if head.mostly(_TSMC2014_ROW):
        return "eight tab-separated columns without a header, the last a Foursquare time"
    return None


CHECKINS: Final = Reader(
    "checkins", "check-ins: Foursquare TSMC2014 (TSV) or any CSV/TSV with a header and a column map", read
)
CSV: Final = Reader(
    "csv",
    "any CSV/TSV of device, time and lat, lon or x, y; --columns names the columns",
    read,
    recognises=recognises,
)
TSMC2014: Final = Reader(
    "tsmc2014",
    "check-ins of Foursquare's New York and Tokyo (TSMC2014)",
    read,
    recognises=recognises_tsmc2014,
)
