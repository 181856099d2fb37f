"""Foursquare's global TIST2015 set: check-ins and POIs in two files without headers, joined by venue.

    Checkins: user, venue, `Tue Apr 03 18:00:06 +0000 2012`, offset in minutes
    POIs:     venue, latitude, longitude, category, country
    Cities:   name, latitude, longitude, country code, country, type (not needed; it may lie beside them)

The rows of a file say which of them it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import RowAccount
from roambench.mobility.readers.collecting import Pile, fixes_of
from roambench.mobility.readers.documents import Document, Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.joining import KnownPlaces, distinct, kinds_of, places_of, with_rejected
from roambench.mobility.readers.rows import Rows, blocks
from roambench.mobility.readers.time_columns import TIME_FORMS

_BLOCK_BYTES: Final = 32 << 20  # looking many venues up at once costs little more than looking one up
_NUMBER: Final = r"-?\d+(\.\d+)?"
_CHECKIN: Final = re.compile(r"[^\t]+\t[^\t]+\t[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d [^\t]+\t-?\d+\s*")
_POI: Final = re.compile(rf"[^\t]+\t{_NUMBER}\t{_NUMBER}\t[^\t]*\t[A-Za-z]{{2}}\s*")
_CITY: Final = re.compile(rf"[^\t]+\t{_NUMBER}\t{_NUMBER}\t[A-Z]{{2}}\t[^\t]+\t[^\t]+")


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """Fixes of the check-ins whose venue is among the POIs; the others are malformed rows.

    Raises TraceError when no file holds check-ins or none holds POIs.
    """
    kinds = kinds_of(documents, {"checkins": _CHECKIN, "cities": _CITY, "pois": _POI})
    for kind, columns in (
        ("checkins", "user, venue, time, offset"),
        ("pois", "venue, latitude, longitude, category, country"),
    ):
        if not kinds[kind]:
            raise TraceError(f"{options.file}: no file with TIST2015 {kind} ({columns})")
    account = RowAccount(options.file)
    venues = distinct([part for document in kinds["pois"] for part in _read_venues(document, account)])
    pile = Pile(options.condense)
    for document in kinds["checkins"]:
        with document.opened() as file:
            for line, block in blocks(file, size=_BLOCK_BYTES):
                rows = Rows(block, "\t", document.path, line)
                pile.add(options.condense(_fixes(rows, venues)))
    return with_rejected(pile.fixes(), account)


def _read_venues(document: Document, account: RowAccount) -> Iterator[KnownPlaces]:
    with document.opened() as file:
        for line, block in blocks(file, size=_BLOCK_BYTES):
            rows = Rows(block, "\t", document.path, line)
            rows.require(3, "expected venue, latitude, longitude, category, country")
            north, east = rows.numbers(rows.texts(1), "latitude"), rows.numbers(rows.texts(2), "longitude")
            yield places_of(rows, rows.texts(0), north, east)
            rows.reject_in(account)


def _fixes(rows: Rows, venues: KnownPlaces) -> Fixes:
    """The fixes of the rows whose venue is known; the others are malformed."""
    rows.require(3, "expected user, venue, time, offset")
    venue = rows.texts(1)
    times_s = rows.values(rows.texts(2), TIME_FORMS["foursquare"])
    rows.check_ids(rows.texts(0), "device")
    rows.check_ids(venue, "place", may_be_empty=True)
    at = venues.find(venue)
    rows.reject_texts(at < 0, venue, "venue {!r} is not among the POIs")
    return fixes_of(rows, rows.texts(0), times_s, *venues.at(at), venue)


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.mostly(_CHECKIN):
        return "four tab-separated columns without a header, the third a Foursquare time"
    return None


TIST2015: Final = Reader(
    "tist2015",
    "check-ins of Foursquare's global TIST2015 set: the Checkins and POIs files together",
    read_together=read,
    belongs=lambda name: name.lower().endswith((".txt", ".tsv", ".csv")),
    recognises=recognises,
)
