"""Beijing's taxis (T-Drive): `id,YYYY-MM-DD HH:MM:SS,longitude,latitude`, longitude first, one file per taxi.

Times are local (UTC+8) unless an offset is given.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import IO, Final

import pyarrow as pa

from roambench.mobility.readers.account import number
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.gps_blocks import GpsColumns, GpsFormat, encoded, read_gps
from roambench.mobility.readers.time_columns import date_times
from roambench.mobility.readers.times import date_time

#: In China: elsewhere the same columns may as well be latitude and longitude.
_ROW: Final = re.compile(r"[^,]+,\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,(?:[7-9]|1[0-3])\d\.\d+,[1-5]\d\.\d+\s*")
_BEIJING_H: Final = 8.0


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """Fixes in UTC: what the file calls local is taken back by `utc_offset_h`, 8 unless given."""
    offset_h = _BEIJING_H if options.utc_offset_h is None else options.utc_offset_h
    return read_gps(file, "", _FORMAT, options, shift_s=-round(offset_h * 3600))


def _clean(table: pa.Table, _: str) -> GpsColumns | None:
    names, taxi = encoded(table["id"])
    if any(name != name.strip() for name in names):
        return None
    return GpsColumns(
        date_times(table["time"]),
        table["latitude"].to_numpy().copy(),
        table["longitude"].to_numpy().copy(),
        names,
        taxi,
    )


def _add(collector: FixCollector, row: str, _: str) -> None:
    cells = [cell.strip() for cell in row.split(",")]
    if len(cells) != 4:
        raise ValueError(f"{len(cells)} columns, expected 4: id, time, longitude, latitude")
    taxi, time, longitude, latitude = cells
    collector.add(taxi, date_time(time), number(latitude, "latitude"), number(longitude, "longitude"), "")


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
    if head.mostly(_ROW):
        return "four columns without a header: id, date and time, longitude, latitude"
    return None


_FORMAT: Final = GpsFormat(
    ",",
    (("id", pa.string()), ("time", pa.string()), ("longitude", pa.float64()), ("latitude", pa.float64())),
    _clean,
    _add,
)

TDRIVE: Final = Reader(
    "tdrive",
    "Beijing taxis (T-Drive): a directory with one file per taxi, longitude first",
    read_bytes=read,
    belongs=lambda name: PurePath(name).suffix.lower() in (".txt", ".csv"),
    recognises=recognises,
    utc_offset_h=_BEIJING_H,
)
