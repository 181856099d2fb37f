"""Beijing's taxis (T-Drive): `id,YYYY-MM-DD HH:MM:SS,longitude,latitude`, longitude first, one file per taxi.

Times are local (UTC+8) unless an offset is given.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import IO, Final

from roambench.mobility.readers.collecting import fixes_of, read_rows
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.rows import Rows
from roambench.mobility.readers.time_columns import DATE_TIME

#: In China: elsewhere the same columns may as well be latitude and longitude.
_ROW: Final = re.compile(r"[^,]+,\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,(?:[7-9]|1[0-3])\d\.\d+,[1-5]\d\.\d+\s*")
_BEIJING_H: Final = 8.0


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """Fixes in UTC: what the file calls local is taken back by `utc_offset_h`, 8 unless given."""
    offset_h = _BEIJING_H if options.utc_offset_h is None else options.utc_offset_h
    offset_s = round(offset_h * 3600)

    def fixes(rows: Rows) -> Fixes:
        rows.require(4, "expected 4: id, time, longitude, latitude", at_most=True)
        times_s = rows.values(rows.texts(1), DATE_TIME) - offset_s
        east, north = rows.numbers(rows.texts(2), "longitude"), rows.numbers(rows.texts(3), "latitude")
        return fixes_of(rows, rows.texts(0), times_s, north, east)

    return read_rows(file, options, ",", fixes)


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.mostly(_ROW):
        return "four columns without a header: id, date and time, longitude, latitude"
    return None


TDRIVE: Final = Reader(
    "tdrive",
    "Beijing taxis (T-Drive): a directory with one file per taxi, longitude first",
    read_bytes=read,
    belongs=lambda name: PurePath(name).suffix.lower() in (".txt", ".csv"),
    recognises=recognises,
    utc_offset_h=_BEIJING_H,
)
