"""The pair of files that MOHAWK was evaluated with: hourly visits and a lookup of their places.

    RVF_ATX_PID_HZ-2020-05.tsv:       persistentid, venueid, utc_date, utc_hour, ... (header, tabs)
    RVF_ATX_PID_HZ_Places_Lookup.tsv: venueid, geolat, geolong, ...                  (header, tabs)

Visits are joined with places on `venueid`. A column map renames columns: device, place, time (two columns
joined by `+`) of the visits, lat, lon and place_id of the lookup. Visits that carry geolat and geolong
themselves need no lookup. The visits come from the file with a device column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.account import check_degrees, number
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.documents import Document, Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, Stations, concatenate
from roambench.mobility.readers.joining import Joined, with_rejected
from roambench.mobility.readers.tables import columns_needed
from roambench.mobility.readers.times import TIME_FORMATS

_COLUMNS: Final[Mapping[str, str]] = {
    "device": "persistentid",
    "place": "venueid",
    "time": "utc_date+utc_hour",
    "place_id": "venueid",
    "lat": "geolat",
    "lon": "geolong",
}


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """Fixes of all visits whose place the lookup knows; the others are malformed rows.

    Raises TraceError where no file holds visits, or neither they nor another file hold positions.
    """
    unknown = [field for field in options.columns if field not in _COLUMNS]
    if options.time_format not in TIME_FORMATS:
        unknown.append(f"time_format {options.time_format}")
    if unknown:
        raise ConfigError([f"columns: {name!r}, expected one of {', '.join(_COLUMNS)}" for name in unknown])
    columns = {field: options.columns.get(field, usual) for field, usual in _COLUMNS.items()}
    headers = {document.path: _header(document) for document in documents}
    visits = [document for document in documents if columns["device"] in headers[document.path]]
    lookups = [
        document
        for document in documents
        if document not in visits
        and {columns["place_id"], columns["lat"], columns["lon"]} <= set(headers[document.path])
    ]
    if not visits:
        header = headers[documents[0].path]
        raise TraceError(
            f"{options.file}: no file with a column {columns['device']!r} (the visits): "
            + columns_needed("\t".join(header), ("device", "place", "time"))
        )
    own = {columns["lat"], columns["lon"]}
    if not lookups and not all(own <= set(headers[document.path]) for document in visits):
        raise TraceError(
            f"{options.file}: no lookup of places: a file with columns {columns['place_id']}, "
            f"{columns['lat']}, {columns['lon']}"
        )
    places = Joined()
    for document in lookups:
        _read_lookup(document, headers[document.path], columns, places)
    parts = [_read_visits(document, headers[document.path], columns, places, options) for document in visits]
    return with_rejected(replace(concatenate(parts), listed=_listed(places)), places.account)


def _listed(places: Joined) -> Stations | None:
    """Every place of the lookup, in its order."""
    if not places.positions:
        return None
    table = np.array(list(places.positions.values()))
    return Stations(tuple(places.positions), table[:, 0], table[:, 1])


def _header(document: Document) -> list[str]:
    with closing(document.lines()) as lines:
        _, row = next(numbered_rows(lines, comment="\n"), (1, ""))
    return [cell.strip() for cell in row.split("\t")]


def _read_lookup(
    document: Document, header: Sequence[str], columns: Mapping[str, str], places: Joined
) -> None:
    at = [header.index(columns[field]) for field in ("place_id", "lat", "lon")]
    with closing(document.lines()) as lines:
        rows = numbered_rows(lines, comment="\n")
        next(rows, None)
        for line, row in rows:
            try:
                place, lat, lon = (_cells(row, header)[position] for position in at)
                position = number(lat, columns["lat"]), number(lon, columns["lon"])
                check_degrees(*position)
                places.positions[place] = position
            except ValueError as error:
                places.reject(document.path, line, str(error))


def _read_visits(
    document: Document,
    header: Sequence[str],
    columns: Mapping[str, str],
    places: Joined,
    options: ReaderOptions,
) -> Fixes:
    parse = TIME_FORMATS[options.time_format]
    needed = [columns["device"], columns["place"], *columns["time"].split("+")]
    missing = [name for name in needed if name not in header]
    if missing:
        raise TraceError(f"{document.path}:1: no column {', '.join(missing)}; it has {', '.join(header)}")
    at = [header.index(name) for name in needed]
    own = [header.index(columns[axis]) for axis in ("lat", "lon") if columns[axis] in header]
    collector = FixCollector(document.path, condense=options.condense)
    with closing(document.lines()) as lines:
        rows = numbered_rows(lines, comment="\n")
        next(rows, None)
        for line, row in rows:
            try:
                cells = _cells(row, header)
                device, place, *time = (cells[position] for position in at)
                position = places.positions.get(place)
                if position is None and len(own) == 2:
                    position = number(cells[own[0]], "latitude"), number(cells[own[1]], "longitude")
                if position is None:
                    raise ValueError(f"place {place[:32]!r} is not in the lookup")
                collector.add(device, parse(" ".join(time)), *position, place)
            except (ValueError, OverflowError) as error:
                collector.reject(line, str(error))
    return collector.fixes()


def _cells(row: str, header: Sequence[str]) -> list[str]:
    cells = [cell.strip() for cell in row.split("\t")]
    if len(cells) < len(header):
        raise ValueError(f"{len(cells)} columns, the header has {len(header)}")
    return cells


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
    cells = head.rows[0].lower().split("\t") if head.rows else []
    named = [head.columns.get(field, _COLUMNS[field]) for field in ("device", "place")]
    if {name.lower() for name in named} <= set(cells):
        return f"a header with {' and '.join(named)}"
    return None


RVF: Final = Reader(
    "rvf",
    "hourly visits and their places lookup, the pair MOHAWK used (TSV)",
    read_together=read,
    recognises=recognises,
)
