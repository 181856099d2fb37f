"""Foursquare's global TIST2015 set: check-ins and POIs in two files without headers, joined by venue.

    Checkins: user, venue, `Tue Apr 03 18:00:06 +0000 2012`, offset in minutes
    POIs:     venue, latitude, longitude, category, country
    Cities:   name, latitude, longitude, country code, country, type (not needed; it may lie beside them)

Which file is which is told by its rows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.errors import TraceError
from roambench.extras.traces.tist2015_venues import Venues, read_venues
from roambench.mobility.readers.account import MAX_ID, RowAccount, check_id
from roambench.mobility.readers.collecting import Pile
from roambench.mobility.readers.documents import Document, Head, numbered_rows, text_lines
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, without_duplicates
from roambench.mobility.readers.gps_blocks import blocks, in_pieces, parsed_table
from roambench.mobility.readers.joining import kinds_of, with_rejected
from roambench.mobility.readers.time_columns import foursquare_times
from roambench.mobility.readers.times import foursquare

_BLOCK_BYTES: Final = 32 << 20  # looking many venues up at once costs little more than looking one up
_COLUMNS: Final = tuple((name, pa.string()) for name in ("user", "venue", "time", "offset"))
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
    venues = read_venues(kinds["pois"], account)
    pile = Pile(options.condense)
    for document in kinds["checkins"]:
        with document.opened() as file, closing(blocks(file, _BLOCK_BYTES)) as found:
            for line, block in found:
                rows = in_pieces(block, line, _fast, _slow)
                pile.add(options.condense(_joined(_together(rows), venues, document.path)))
    return with_rejected(pile.fixes(), account)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Check-ins of a block: columns, and by row why one cannot be read (its venue is null if it has none)."""

    line: npt.NDArray[np.int64]
    user: pa.StringArray
    venue: pa.StringArray
    t_utc_s: npt.NDArray[np.int64]
    errors: Mapping[int, str]


def _fast(block: bytes, first_line: int) -> _Rows | None:
    if block.startswith((b"\n", b"\r")) or b"\n\n" in block or b"\n\r" in block:
        return None  # Arrow does not count empty lines
    table = parsed_table(block, "\t", _COLUMNS)
    if table is None:
        return None
    for name in ("user", "venue"):
        short = pc.less_equal(pc.binary_length(table[name]), MAX_ID)
        if not pc.all(pc.and_(pc.ascii_is_alnum(table[name]), short)).as_py():
            return None
    try:
        t_utc_s = foursquare_times(table["time"])
    except pa.ArrowInvalid:
        return None
    user, venue = (pa.concat_arrays(table[name].chunks) for name in ("user", "venue"))
    return _Rows(first_line + np.arange(len(t_utc_s)), user, venue, t_utc_s, {})


def _slow(block: bytes, first_line: int) -> _Rows:
    lines: list[int] = []
    users: list[str] = []
    times: list[int] = []
    venues: list[str | None] = []
    errors: dict[int, str] = {}
    for line, row in numbered_rows(text_lines(io.BytesIO(block)), comment="\n"):
        user, venue, t_utc_s = "", None, 0
        try:
            user, venue, time, *_ = (cell.strip() for cell in row.split("\t"))
            t_utc_s = foursquare(time)
            check_id(user, "device")
            if venue:
                check_id(venue, "place")
        except (ValueError, OverflowError) as error:
            errors[len(lines)] = str(error)
        lines.append(first_line + line - 1)
        users.append(user)
        venues.append(venue)
        times.append(t_utc_s)
    return _Rows(
        np.array(lines, np.int64),
        pa.array(users, pa.string()),
        pa.array(venues, pa.string()),
        np.array(times, np.int64),
        errors,
    )


def _together(parts: Sequence[_Rows]) -> _Rows:
    errors: dict[int, str] = {}
    before = 0
    for part in parts:
        errors.update({before + at: error for at, error in part.errors.items()})
        before += len(part.line)
    return _Rows(
        np.concatenate([part.line for part in parts]),
        pa.concat_arrays([part.user for part in parts]),
        pa.concat_arrays([part.venue for part in parts]),
        np.concatenate([part.t_utc_s for part in parts]),
        errors,
    )


def _joined(rows: _Rows, venues: Venues, file: str) -> Fixes:
    """The fixes of the rows whose venue is known; the others are malformed."""
    at = venues.find(rows.venue)
    wrong = np.union1d(np.flatnonzero(at < 0), np.array(list(rows.errors), np.int64))
    account = RowAccount(file)
    for row in wrong.tolist():
        venue = rows.venue[row].as_py() if at[row] < 0 else None
        reason = rows.errors[row] if venue is None else f"venue {venue[:32]!r} is not among the POIs"
        account.reject(int(rows.line[row]), reason)
    kept = np.setdiff1d(np.arange(len(at)), wrong, assume_unique=True)
    users = pc.take(rows.user, pa.array(kept)).dictionary_encode()
    codes, place = np.unique(at[kept], return_inverse=True)
    names = tuple(pc.take(venues.ids, pa.array(codes)).to_pylist())
    named = np.array([bool(name) for name in names], np.bool_)  # a venue without an id is no place
    fixes = Fixes(
        device_ids=tuple(users.dictionary.to_pylist()),
        place_ids=names,
        device=users.indices.to_numpy().astype(np.int32),
        place=np.where(named[place], place, -1).astype(np.int32),
        t_utc_s=rows.t_utc_s[kept],
        latitude=venues.latitude[at[kept]],
        longitude=venues.longitude[at[kept]],
        rows=len(kept),
        used=len(kept),
    )
    return with_rejected(without_duplicates(fixes), account)


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
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
