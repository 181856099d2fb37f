"""The pair of files that MOHAWK was evaluated with: hourly visits and a lookup of their places.

    RVF_ATX_PID_HZ-2020-05.tsv:       persistentid, venueid, utc_date, utc_hour, ... (header, tabs)
    RVF_ATX_PID_HZ_Places_Lookup.tsv: venueid, geolat, geolong, ...                  (header, tabs)

Visits are joined with places on `venueid`. A column map renames columns: device, place, time (two columns
joined by `+`) of the visits, lat, lon and place_id of the lookup. Visits that carry geolat and geolong
themselves need no lookup. The visits come from the file with a device column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers.account import RowAccount
from roambench.mobility.readers.collecting import Pile, fixes_of
from roambench.mobility.readers.documents import Document, Head, decoded
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.joining import KnownPlaces, distinct, places_of, with_rejected
from roambench.mobility.readers.rows import Rows, blocks
from roambench.mobility.readers.tables import columns_needed, first_row
from roambench.mobility.readers.zones import time_form

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
    account = RowAccount(options.file)
    parts: list[KnownPlaces] = []
    for document in lookups:
        header = headers[document.path]
        at = [header.index(columns[field]) for field in ("place_id", "lat", "lon")]
        for rows in _rows(document, header):
            north, east = (rows.numbers(rows.texts(axis), header[axis]) for axis in at[1:])
            parts.append(places_of(rows, rows.texts(at[0]), north, east))
            rows.reject_in(account)
    places = distinct(parts)
    pile = Pile(options.condense)
    for document in visits:
        _read_visits(document, headers[document.path], columns, places, options, pile)
    listed = places.stations() if len(places.ids) else None
    return with_rejected(replace(pile.fixes(), listed=listed), account)


def _header(document: Document) -> list[str]:
    with document.opened() as file:
        row = decoded(first_row(file)[1]).removeprefix("\ufeff").strip()
    return [cell.strip() for cell in row.split("\t")]


def _rows(document: Document, header: Sequence[str]) -> Iterator[Rows]:
    """The rows below the header, in blocks."""
    with document.opened() as file:
        for line, block in blocks(file, first_row(file)[0] + 1):
            rows = Rows(block, "\t", document.path, line)
            rows.require(len(header), f"the header has {len(header)}")
            yield rows


def _read_visits(
    document: Document,
    header: Sequence[str],
    columns: Mapping[str, str],
    places: KnownPlaces,
    options: ReaderOptions,
    pile: Pile,
) -> None:
    needed = [columns["device"], columns["place"], *columns["time"].split("+")]
    missing = [name for name in needed if name not in header]
    if missing:
        raise TraceError(f"{document.path}:1: no column {', '.join(missing)}; it has {', '.join(header)}")
    form = time_form(options.time_format, options.time_zone, options.time_doubts)
    device, place, *time = (header.index(name) for name in needed)
    own = [header.index(columns[axis]) for axis in ("lat", "lon") if columns[axis] in header]
    for rows in _rows(document, header):
        named = rows.texts(place)
        at = places.find(named)
        north, east = places.at(at)
        if len(own) == 2:
            texts = (pc.if_else(pa.array(at >= 0), "0", rows.texts(axis)) for axis in own)
            latitude, longitude = (
                rows.numbers(text, what) for text, what in zip(texts, ("latitude", "longitude"), strict=True)
            )
            north, east = np.where(at >= 0, north, latitude), np.where(at >= 0, east, longitude)
        else:
            rows.reject_texts(at < 0, named, "place {!r} is not in the lookup")
        times_s = rows.values(rows.texts(*time), form)
        pile.add(options.condense(fixes_of(rows, rows.texts(device), times_s, north, east, named)))


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
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
    takes_columns=True,
)
