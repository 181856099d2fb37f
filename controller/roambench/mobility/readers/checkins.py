"""Check-ins: somebody was at a place at a time. Foursquare's TSMC2014, and any CSV or TSV with a header.

TSMC2014 (New York, Tokyo) has eight tab-separated columns and no header: user, venue, category id,
category name, latitude, longitude, timezone offset, UTC time. Other files name their columns in their first
line; usual names are recognised, others are given (`device=persistentid,time=utc_date+utc_hour,...`; two
columns joined by `+` make one time). Positions (`device=0,time=1,...`) read a file without a header.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.fixes import FixCollector, Fixes, Reader, ReaderOptions
from roambench.mobility.readers.times import TIME_FORMATS

#: Column names in use out there, by field, in order of preference (compared in lower case).
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": ("device", "device_id", "user_id", "userid", "user", "persistentid", "uid"),
    "time": ("time", "utc_time", "utctimestamp", "utc_minute", "timestamp", "t_utc_s", "datetime"),
    "lat": ("lat", "latitude", "geolat"),
    "lon": ("lon", "lng", "longitude", "geolong"),
    "place": ("place", "place_id", "venue_id", "venueid", "poi_id", "location_id", "location id"),
}
_TSMC2014: Final = {"device": (0,), "place": (1,), "lat": (4,), "lon": (5,), "time": (7,)}
_REQUIRED: Final = ("device", "time", "lat", "lon")


@dataclass(frozen=True, slots=True)
class _Layout:
    separator: str
    columns: Mapping[str, tuple[int, ...]]  # field -> cell positions (two for a split time)
    time: Callable[[str], int]


def read(lines: Iterable[str], options: ReaderOptions) -> Fixes:
    """Fixes of one file. Rows that cannot be read are counted and the first five kept with their line.

    Raises TraceError when the file's columns cannot be told, ConfigError for options that make no sense.
    """
    numbered = ((number, line.rstrip("\r\n")) for number, line in enumerate(lines, start=1))
    rows = ((number, line) for number, line in numbered if line.strip())
    first = next(rows, None)
    if first is None:
        raise TraceError(f"{options.file}: the file is empty")
    layout, has_header = _layout(first[1].removeprefix("\ufeff"), options)
    collector = FixCollector(options.file)
    for number, line in rows if has_header else chain([first], rows):
        try:
            _collect(collector, layout, line)
        except ValueError as error:
            collector.reject(number, str(error))
    return collector.fixes()


CHECKINS: Final = Reader(
    "checkins", "check-ins: Foursquare TSMC2014 (TSV) or any CSV/TSV with a header and a column map", read
)


def _collect(collector: FixCollector, layout: _Layout, line: str) -> None:
    cells = _cells(line, layout.separator)
    columns = layout.columns
    last = max(max(positions) for positions in columns.values())
    if len(cells) <= last:
        raise ValueError(f"{len(cells)} columns, expected at least {last + 1}")
    place = cells[columns["place"][0]].strip() if "place" in columns else ""
    time = " ".join(cells[position].strip() for position in columns["time"])
    try:
        t_utc_s = layout.time(time)
    except OverflowError:
        raise ValueError(f"{time!r} is not a time") from None
    latitude, longitude = (_degrees(cells[columns[axis][0]], axis) for axis in ("lat", "lon"))
    collector.add(cells[columns["device"][0]].strip(), t_utc_s, latitude, longitude, place)


def _layout(first: str, options: ReaderOptions) -> tuple[_Layout, bool]:
    """The layout that the first line and the options tell, and whether the first line is a header."""
    time = TIME_FORMATS.get(options.time_format)
    problems = [
        f"columns: unknown field {field!r}, expected one of {', '.join(_KNOWN)}"
        for field in options.columns
        if field not in _KNOWN
    ]
    if time is None:
        problems.append(f"time_format: {options.time_format!r}, expected one of {', '.join(TIME_FORMATS)}")
    if problems or time is None:
        raise ConfigError(problems)
    separator = next((mark for mark in "\t,;" if mark in first), ",")
    cells = [cell.strip() for cell in _cells(first, separator)]
    given = {field: tuple(name.split("+")) for field, name in options.columns.items()}
    if given and all(name.isdecimal() for names in given.values() for name in names):
        missing = [field for field in _REQUIRED if field not in given]
        if missing:
            raise ConfigError([f"columns: {', '.join(missing)} missing (positions count from 0)"])
        positions = {field: tuple(int(name) for name in names) for field, names in given.items()}
        return _Layout(separator, positions, time), False
    columns = dict(_recognised(cells))
    for field, names in given.items():
        columns[field] = tuple(_position(cells, name, field, options.file) for name in names)
    missing = [field for field in _REQUIRED if field not in columns]
    if not missing:
        return _Layout(separator, columns, time), True
    if separator == "\t" and len(cells) == 8 and not given:
        return _Layout(separator, _TSMC2014, time), False
    raise TraceError(
        f"{options.file}:1: cannot tell which column is {', '.join(missing)}: expected a header with usual "
        f"names, eight tab-separated TSMC2014 columns, or a column map (device=...,time=...,lat=...,lon=...)"
    )


def _recognised(cells: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    lowered = [cell.lower() for cell in cells]
    for field, names in _KNOWN.items():
        found = next((name for name in names if name in lowered), None)
        if found is not None:
            yield field, (lowered.index(found),)


def _position(cells: Sequence[str], name: str, field: str, file: str) -> int:
    try:
        return cells.index(name)
    except ValueError:
        raise TraceError(f"{file}:1: no column {name!r} for {field}; it has {', '.join(cells)}") from None


def _cells(line: str, separator: str) -> Sequence[str]:
    # TSMC2014 does not quote. Each line is parsed alone: an unclosed quote costs one row, not the rest.
    if separator == "\t" or '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}") from None


def _degrees(text: str, axis: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{axis} {text!r} is not a number") from None
