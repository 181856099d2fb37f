"""Gowalla and Brightkite (SNAP): user, ISO 8601 time, latitude, longitude, location; tabs, no header.

Every user's check-ins stand newest first. Location ids are numbers or hexadecimal of any length; Brightkite
has rows with empty cells.
"""

from __future__ import annotations

import re
from typing import IO, Final

import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.account import number
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.gps_blocks import GpsColumns, GpsFormat, encoded, read_gps
from roambench.mobility.readers.time_columns import zulu_times
from roambench.mobility.readers.times import iso

_ROW: Final = re.compile(r"[^\t]+\t\d{4}-\d\d-\d\dT[\d:]+Z\t-?[\d.]+\t-?[\d.]+\t[^\t]*")
#: How Brightkite writes the coordinates of a check-in that has none.
_NOWHERE: Final = frozenset(("", "0", "0.0"))


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """The fixes of a Gowalla or Brightkite file."""
    return read_gps(file, "", _FORMAT, options)


def _clean(table: pa.Table, _: str) -> GpsColumns | None:
    if not all(pc.all(pc.ascii_is_alnum(table[name])).as_py() for name in ("user", "location")):
        return None
    users, user = encoded(table["user"])
    places, place = encoded(table["location"])
    return GpsColumns(
        zulu_times(table["time"]),
        table["latitude"].to_numpy().copy(),
        table["longitude"].to_numpy().copy(),
        users,
        user,
        places,
        place,
    )


def _add(collector: FixCollector, row: str, _: str) -> None:
    cells = [cell.strip() for cell in row.split("\t")]
    if len(cells) != 5:
        raise ValueError(f"{len(cells)} columns, expected 5: user, time, latitude, longitude, location")
    user, time, latitude, longitude, location = cells
    if {latitude, longitude} <= _NOWHERE:
        collector.leave_out("check-ins without a position")
        return
    collector.add(user, iso(time), number(latitude, "latitude"), number(longitude, "longitude"), location)


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
    if head.mostly(_ROW):
        return "five tab-separated columns without a header, the second an ISO 8601 time"
    return None


_FORMAT: Final = GpsFormat(
    "\t",
    (
        ("user", pa.string()),
        ("time", pa.string()),
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
        ("location", pa.string()),
    ),
    _clean,
    _add,
)

SNAP: Final = Reader(
    "snap", "check-ins of Gowalla and Brightkite (SNAP)", read_bytes=read, recognises=recognises
)
