"""Association logs (Wi-Fi, base stations): device, access point, start, end; with or without positions.

A table with a header, or a column map. A second table of the access points' positions (ap and lat, lon or x,
y) may lie beside it: it is the one without a device column. Without it the access points are drawn on a
made-up grid, which the trace says. Of several access points in a step the one with the longest stay counts.
With a `time` instead of start and end a row holds until the device's next one; the access point `OFF` (in any
case) ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.account import check_degrees, check_id, check_metres
from roambench.mobility.readers.documents import Document, Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, Stations
from roambench.mobility.readers.overlaps import IntervalCollector
from roambench.mobility.readers.tables import Layout, layout_of
from roambench.mobility.readers.times import TIME_FORMATS

_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": ("device", "device_id", "user_id", "userid", "user", "uid", "mac"),
    "ap": ("ap", "ap_id", "ap_name", "station", "cell", "bs", "base_station"),
    "start": ("start", "start_time", "start time", "begin", "from"),
    "end": ("end", "end_time", "end time", "stop", "to"),
    "time": ("time", "timestamp", "utc_time"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "longitude"),
    "x": ("x", "x_m"),
    "y": ("y", "y_m"),
}
_OFF: Final = "off"

Positions = dict[str, tuple[float, float]]


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """One fix per device and step. A stay at an access point without a position is a malformed row.

    Raises TraceError when no table holds stays.
    """
    if options.time_format not in TIME_FORMATS:
        raise ConfigError(
            [f"time_format: {options.time_format!r}, expected one of {', '.join(TIME_FORMATS)}"]
        )
    layouts = {document.path: _layout(document, options) for document in documents}
    tables = [document for document in documents if _holds_stays(layouts[document.path])]
    if not tables:
        raise TraceError(
            f"{options.file}:1: no table with columns device, ap, start and end (or time); "
            "name them with a column map (device=...,ap=...,start=...,end=...)"
        )
    stays = IntervalCollector(options.file)
    positions: Positions = {}
    plane = False
    for document in documents:
        if document not in tables:
            plane = _read_positions(document, layouts[document.path], positions, stays)
    for document in tables:
        _read_stays(document, layouts[document.path], options, stays, positions)
    if not positions:
        return stays.fixes_without_positions(options.step_s)
    ids = tuple(sorted(positions))
    table = np.array([positions[name] for name in ids])
    return stays.fixes(Stations(ids, table[:, 0], table[:, 1]), options.step_s, plane=plane)


def _layout(document: Document, options: ReaderOptions) -> Layout:
    with closing(document.lines()) as lines:
        first = next((line for line in lines if line.strip()), "")
    try:
        return layout_of(first.strip("\r\n\ufeff"), options.columns, _KNOWN, document.path)
    except TraceError:  # a column map is that of the stays; the positions may have usual names
        return layout_of(first.strip("\r\n\ufeff"), {}, _KNOWN, document.path)


def _holds_stays(layout: Layout) -> bool:
    found = set(layout.columns)
    return {"device", "ap"} <= found and ({"start", "end"} <= found or "time" in found)


def _rows(document: Document, layout: Layout) -> Iterator[tuple[int, str]]:
    with closing(document.lines()) as lines:
        skip = layout.has_header
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            if not skip:
                yield number, line.rstrip("\r\n")
            skip = False


def _read_positions(
    document: Document, layout: Layout, positions: Positions, stays: IntervalCollector
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
    layout: Layout,
    options: ReaderOptions,
    stays: IntervalCollector,
    positions: Positions,
) -> None:
    parse = TIME_FORMATS[options.time_format]
    offset_s = round((options.utc_offset_h or 0.0) * 3600)
    events: list[tuple[str, int, int, str]] = []
    for line, row in _rows(document, layout):
        try:
            cells = layout.cells(row)
            device, ap = layout.text(cells, "device"), layout.text(cells, "ap")
            event = not {"start", "end"} <= set(layout.columns)
            if positions and ap not in positions and not (event and ap.lower() == _OFF):
                raise ValueError(f"access point {ap[:32]!r} has no position")
            if event:
                check_id(device, "device")
                check_id(ap, "access point")
                events.append((device, parse(layout.text(cells, "time")) - offset_s, line, ap))
            else:
                start_s, end_s = (parse(layout.text(cells, field)) - offset_s for field in ("start", "end"))
                stays.add(device, ap, start_s, end_s)
        except (ValueError, OverflowError) as error:
            stays.account.reject(line, str(error), document.path)
    _add_events(events, stays, document.path)


def _add_events(events: list[tuple[str, int, int, str]], stays: IntervalCollector, file: str) -> None:
    """Every event as the stay until the device's next; the last of a device lasts to the last of all."""
    last_s = max((event[1] for event in events), default=0)
    ordered = sorted(events)
    for at, (device, t_s, line, ap) in enumerate(ordered):
        following = ordered[at + 1] if at + 1 < len(ordered) else None
        end_s = following[1] if following and following[0] == device else last_s
        if ap.lower() == _OFF:
            stays.account.leave_out("devices switched off")
            continue
        try:
            stays.add(device, ap, t_s, end_s)
        except ValueError as error:
            stays.account.reject(line, str(error), file)


def recognises(head: Head) -> str | None:
    if not head.rows:
        return None
    try:
        layout = layout_of(head.rows[0].strip("\ufeff"), {}, _KNOWN, head.name)
    except (TraceError, ValueError):
        return None
    return f"a header that names {', '.join(layout.columns)}" if _holds_stays(layout) else None


INTERVALS: Final = Reader(
    "intervals",
    "stays at access points (CSV/TSV: device, ap, start, end), with a table of positions or without",
    read_together=read,
    recognises=recognises,
)
