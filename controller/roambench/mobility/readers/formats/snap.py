"""Gowalla and Brightkite (SNAP): user, ISO 8601 time, latitude, longitude, location; tabs, no header.

Every user's check-ins stand newest first. Location ids are numbers or hexadecimal of any length; Brightkite
has rows with empty cells.
"""

from __future__ import annotations

import re
from typing import IO, Final

import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.collecting import fixes_of, read_rows
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.rows import Rows
from roambench.mobility.readers.time_columns import TIME_FORMS

_ROW: Final = re.compile(r"[^\t]+\t\d{4}-\d\d-\d\dT[\d:]+Z\t-?[\d.]+\t-?[\d.]+\t[^\t]*")
#: How Brightkite writes the coordinates of a check-in that has none.
_NOWHERE: Final = pa.array(["", "0", "0.0"])


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """The fixes of a Gowalla or Brightkite file."""
    return read_rows(file, options, "\t", _fixes)


def _fixes(rows: Rows) -> Fixes:
    rows.require(5, "expected 5: user, time, latitude, longitude, location", at_most=True)
    latitude, longitude = rows.texts(2), rows.texts(3)
    nowhere = pc.and_(pc.is_in(latitude, _NOWHERE), pc.is_in(longitude, _NOWHERE))
    kept = pa.array(rows.leave_out(nowhere.to_numpy(zero_copy_only=False), "check-ins without a position"))
    times_s = rows.values(rows.texts(1), TIME_FORMS["iso"])
    north, east = (
        rows.numbers(latitude.take(kept), "latitude"),
        rows.numbers(longitude.take(kept), "longitude"),
    )
    return fixes_of(rows, rows.texts(0), times_s, north, east, rows.texts(4))


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.mostly(_ROW):
        return "five tab-separated columns without a header, the second an ISO 8601 time"
    return None


SNAP: Final = Reader(
    "snap", "check-ins of Gowalla and Brightkite (SNAP)", read_bytes=read, recognises=recognises
)
