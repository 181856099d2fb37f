"""Association logs (Wi-Fi, base stations): device, access point, start, end; with or without positions.

A table with a header, or a column map. A second table of the access points' positions (ap and lat, lon or x,
y) may lie beside it: it is the one without a device column; else the stays may have these columns, of which
an access point's last row counts. Without them the access points are drawn on a made-up grid, which the trace
says. Of several access points in a step the one with the longest stay counts.
A hardware address is the same in every spelling (`AA-BB-CC-DD-EE-FF`, `aabb.ccdd.eeff`), with the name of its
network behind it or not (`AA-BB-CC-DD-EE-FF:eduroam`). With a `time` instead of start and end a row holds
until the device's next one; the access point `OFF` (in any case) ends it. A stay without an end is left out.
A table that names no device, or no access point, may be that of one, named by the file (`device=@file`,
`ap=@file`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.documents import Document, Head, decoded
from roambench.mobility.readers.events import EventColumns, is_off
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.joining import KnownPlaces, distinct, places_of
from roambench.mobility.readers.overlaps import IntervalCollector
from roambench.mobility.readers.rows import Form, Rows, Texts, encoded
from roambench.mobility.readers.spellings import one_spelling
from roambench.mobility.readers.tables import (
    BY_FILE,
    POSITIONS,
    ColumnLayout,
    columns_needed,
    first_row,
    layout_of,
    lines_ahead,
    named_by,
    rows_below,
)
from roambench.mobility.readers.zones import time_form

#: Usual names by field; those of RADIUS accounting as its attributes and as FreeRADIUS' table write them.
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "device": (
        *("device", "device_id", "user_id", "userid", "user", "uid", "mac", "imei", "imsi", "phone"),
        *("calling-station-id", "callingstationid", "user-name", "username"),
    ),
    "ap": (
        *("ap", "ap_id", "ap_name", "station", "cell", "bs", "base_station", "lac+ci", "lac+cid"),
        *("zugangspunkt", "access_point"),
        *("called-station-id", "calledstationid", "nas-ip-address", "nasipaddress"),
    ),
    "start": ("start", "start_time", "start time", "begin", "from", "acct-start-time", "acctstarttime"),
    "end": ("end", "end_time", "end time", "stop", "to", "acct-stop-time", "acctstoptime"),
    "time": ("time", "timestamp", "utc_time"),
    **POSITIONS,
}
#: How an end is written that was not known, or is not yet: nothing, or SQL's NULL as databases export it.
_NO_END: Final = pa.array(["", "null", r"\n"])
_ENDLESS: Final = "stays without an end: nothing says how long they lasted"


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """One fix per device and step. A stay at an access point without a position is a malformed row.

    Raises TraceError when no table holds stays.
    """
    by_file = _named_by_files(options.columns)
    options = replace(options, columns=_columns(options.columns))
    time = time_form(options.time_format, options.time_zone, options.time_doubts)
    layouts = {document.path: _layout(document, options, only=len(documents) == 1) for document in documents}
    if {"time", "start", "end"} <= options.columns.keys():
        raise ConfigError(["columns: expected start and end, or time, not both"])
    tables: list[Document] = []
    others: list[Document] = []
    for document in documents:
        (tables if _holds_stays(layouts[document.path], by_file) else others).append(document)
    if not tables:
        found = {*layouts[documents[0].path].columns, *by_file}
        missing = [field for field in ("device", "ap", "start", "end") if field not in found]
        raise TraceError(
            f"{documents[0].path}:1: no table with columns device, ap, start and end (or time): "
            + columns_needed(_first_lines(documents[0])[0], missing)
        )
    stays = IntervalCollector(options.file)
    parts: list[KnownPlaces] = []
    first: dict[str, tuple[float, float]] = {}
    plane = False
    for document in others:
        plane = _read_positions(document, layouts[document.path], parts, stays, first=first)
    if not others:
        rows_seen_again = IntervalCollector(options.file)  # the stays below count what is malformed
        for document in tables:
            if _has_positions(layouts[document.path]):
                plane = _read_positions(document, layouts[document.path], parts, rows_seen_again)
    places = distinct(parts)
    events = EventColumns()
    for document in tables:
        fixed = dict.fromkeys(by_file, named_by(document.name))
        _read_stays(document, fixed, layouts[document.path], time, options, stays, events, places)
    events.close(stays)
    if not len(places.ids):
        return stays.fixes_without_positions(options.step_s, options.origin_s)
    order = pc.array_sort_indices(places.ids)
    by_id = KnownPlaces(places.ids.take(order), places.latitude[order], places.longitude[order])
    return stays.fixes(by_id.stations(), options.step_s, options.origin_s, plane=plane)


def _layout(document: Document, options: ReaderOptions, *, only: bool) -> ColumnLayout:
    first, *below = _first_lines(document)
    try:
        return layout_of(first, options.columns, _KNOWN, document.path, below)
    except TraceError:  # a column map is that of the stays; the positions may have usual names
        if only:
            raise
        return layout_of(first, options.ap_columns, _KNOWN, document.path, below)


def _first_lines(document: Document) -> list[str]:
    with document.opened() as file:
        return [decoded(first_row(file)[1]).strip("\r\n\ufeff"), *lines_ahead(file)]


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


def _has_positions(layout: ColumnLayout) -> bool:
    found = layout.columns.keys()
    return "ap" in found and ({"lat", "lon"} <= found or {"x", "y"} <= found)


def _rows(document: Document, layout: ColumnLayout) -> Generator[Rows, None, None]:
    """The rows below the header, in blocks."""
    with document.opened() as file:
        for rows in rows_below(file, first_row(file), layout, document.path):
            layout.require(rows)
            yield rows


def _read_positions(
    document: Document,
    layout: ColumnLayout,
    parts: list[KnownPlaces],
    stays: IntervalCollector,
    *,
    first: dict[str, tuple[float, float]] | None = None,
) -> bool:
    """Add the file's positions; return True where they are metres. TraceError where an access point is
    in `first`, which learns them, with another."""
    plane = not {"lat", "lon"} <= layout.columns.keys()
    if not _has_positions(layout):
        raise TraceError(
            f"{document.path}:1: neither stays (device, ap, start, end) nor positions (ap, lat, lon)"
        )
    with closing(_rows(document, layout)) as blocks:
        for rows in blocks:
            north, east, _ = layout.positions(rows, *(("y", "x") if plane else ("lat", "lon")))
            names = one_spelling(rows.texts(*layout.columns["ap"]))
            rows.check_ids(names, "access point")
            parts.append(places_of(rows, names, north, east, plane=plane))
            for row in rows.sound().tolist() if first is not None else ():
                name, at = names[row].as_py(), (float(north[row]), float(east[row]))
                if first is not None and first.setdefault(name, at) != at:
                    raise TraceError(
                        f"{document.path}:{rows.line[row]}: access point {name!r} is there already: "
                        "expected each once"
                    )
            rows.reject_in(stays.account)
    return plane


def _read_stays(
    document: Document,
    fixed: Mapping[str, str],
    layout: ColumnLayout,
    time: Form,
    options: ReaderOptions,
    stays: IntervalCollector,
    events: EventColumns,
    places: KnownPlaces,
) -> None:
    """Add a table's stays or events; `fixed` names the device or access point that no column does."""
    offset_s = round((options.utc_offset_h or 0.0) * 3600)
    named = options.columns.keys()
    with_ends = {"start", "end"} <= set(layout.columns) and ("time" not in named or "end" in named)
    events.begin(document.path)
    with closing(_rows(document, layout)) as blocks:
        for rows in blocks:
            device, ap = (
                fixed[field] if field in fixed else one_spelling(rows.texts(*layout.columns[field]))
                for field in ("device", "ap")
            )
            if len(places.ids):
                _require_position(rows, ap, places, may_be_off=not with_ends)
            if with_ends:
                start, end = (rows.texts(*layout.columns[field]) for field in ("start", "end"))
                endless = pc.is_in(pc.utf8_lower(end), _NO_END)
                start_s = rows.values(start, time) - offset_s
                end_s = rows.values(pc.if_else(endless, start, end), time) - offset_s
                kept = rows.leave_out(endless.to_numpy(zero_copy_only=False), _ENDLESS)
                device, ap = (
                    name if isinstance(name, str) else name.take(pa.array(kept)) for name in (device, ap)
                )
                _check_ids(rows, device, ap)
                stays.add_rows(rows, device, ap, start_s[kept], end_s[kept])
            else:
                _check_ids(rows, device, ap)
                events.add_rows(rows, device, ap, layout.times_s(rows, "time", time) - offset_s)
                rows.reject_in(stays.account)


def _check_ids(rows: Rows, device: Texts | str, ap: Texts | str) -> None:
    for texts, what in ((device, "device"), (ap, "access point")):
        if not isinstance(texts, str):
            rows.check_ids(texts, what)


def _require_position(rows: Rows, ap: Texts | str, places: KnownPlaces, *, may_be_off: bool) -> None:
    """Reject the rows of access points without a position; the word for none needs no position."""
    texts = pa.repeat(ap, len(rows)) if isinstance(ap, str) else ap
    names, codes = encoded(texts)
    missing = places.find(pa.array(names, pa.string())) < 0
    missing &= np.array([not (may_be_off and is_off(name)) for name in names], np.bool_)
    rows.reject_texts(missing[codes], texts, "access point {!r} has no position")


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if not head.rows:
        return None
    by_file = _named_by_files(head.columns)
    try:
        layout = layout_of(
            head.rows[0].strip("\ufeff"), _columns(head.columns), _KNOWN, head.name, head.rows[1:]
        )
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
    takes_columns=True,
    takes_aps=True,
)
