"""San Francisco's taxis (CRAWDAD epfl/mobility): one file `new_<cab>.txt` per cab, newest first.

    37.75153 -122.39447 0 1211033530     latitude, longitude, occupied, seconds since 1970

The device is named by its file. A cab reports about once a minute; some fixes lie a thousand kilometres off.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import IO, Final

import numpy as np
import pyarrow as pa

from roambench.mobility.readers.account import number
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.gps_blocks import GpsColumns, GpsFormat, read_gps
from roambench.mobility.readers.opening import unpacked_name

_ROW: Final = re.compile(r"-?\d+\.\d+ -?\d+\.\d+ [01] \d{9,10}\s*")


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """The fixes of one cab's file."""
    return read_gps(file, _cab(options.file), _FORMAT, options)


def _clean(table: pa.Table, cab: str) -> GpsColumns | None:
    if not np.isin(table["occupied"].to_numpy(), (0, 1)).all():
        return None
    time = table["time"].to_numpy().copy()
    return GpsColumns(
        time,
        table["latitude"].to_numpy().copy(),
        table["longitude"].to_numpy().copy(),
        (cab,),
        np.zeros(len(time), np.int32),
    )


def _add(collector: FixCollector, row: str, cab: str) -> None:
    cells = row.split(" ")
    if len(cells) != 4:
        raise ValueError(f"{len(cells)} columns, expected 4: latitude, longitude, occupied, time")
    latitude, longitude, occupied, time = cells
    if occupied not in ("0", "1"):
        raise ValueError(f"occupied is {occupied[:16]!r}, expected 0 or 1")
    collector.add(cab, int(time), number(latitude, "latitude"), number(longitude, "longitude"), "")


def _cab(file: str) -> str:
    name = PurePath(unpacked_name(file)).name
    return name.removesuffix(".txt").removeprefix("new_") or name


def _belongs(name: str) -> bool:
    base = PurePath(name).name
    return base.endswith(".txt") and not base.startswith("_")


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
    if head.mostly(_ROW):
        return "lines of latitude, longitude, 0 or 1, and seconds since 1970"
    return None


_FORMAT: Final = GpsFormat(
    " ",
    (
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
        ("occupied", pa.int8()),
        ("time", pa.int64()),
    ),
    _clean,
    _add,
)

CABSPOTTING: Final = Reader(
    "cabspotting",
    "San Francisco taxis (CRAWDAD epfl/mobility): a directory with one file per cab",
    read_bytes=read,
    belongs=_belongs,
    recognises=recognises,
)
