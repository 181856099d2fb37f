"""Geolife: `Data/<user>/Trajectory/<start>.plt`, six lines of header, times in GMT.

    40.013812,116.306483,0,156,39745.9889467593,2008-10-24,23:44:05

Latitude, longitude, 0, altitude in feet (-777: none), days since 1899-12-30, date, time. The device is the
folder above `Trajectory`, else the file's name.
"""

from __future__ import annotations

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
from roambench.mobility.readers.time_columns import date_times
from roambench.mobility.readers.times import date_time

_HEADER_LINES: Final = 6


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """The fixes of one user's trajectory file."""
    return read_gps(file, _user(options.file), _FORMAT, options)


def _clean(table: pa.Table, user: str) -> GpsColumns | None:
    time = date_times(table["date"], table["clock"])
    return GpsColumns(
        time,
        table["latitude"].to_numpy().copy(),
        table["longitude"].to_numpy().copy(),
        (user,),
        np.zeros(len(time), np.int32),
    )


def _add(collector: FixCollector, row: str, user: str) -> None:
    cells = row.split(",")
    if len(cells) != 7:
        raise ValueError(
            f"{len(cells)} columns, expected 7: latitude, longitude, 0, altitude, days, date, time"
        )
    collector.add(
        user,
        date_time(f"{cells[5]} {cells[6]}"),
        number(cells[0], "latitude"),
        number(cells[1], "longitude"),
        "",
    )


def _user(file: str) -> str:
    path = PurePath(unpacked_name(file))
    if path.parent.name == "Trajectory" and path.parent.parent.name:
        return path.parent.parent.name
    return path.stem or path.name


def recognises(head: Head) -> str | None:
    """Why a file is likely of this format, by its head; None if it is not."""
    if head.lines and head.lines[0].startswith("Geolife trajectory"):
        return "its first line is 'Geolife trajectory'"
    return None


_FORMAT: Final = GpsFormat(
    ",",
    (
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
        ("zero", pa.string()),
        ("altitude", pa.string()),
        ("days", pa.string()),
        ("date", pa.string()),
        ("clock", pa.string()),
    ),
    _clean,
    _add,
    header_lines=_HEADER_LINES,
)

GEOLIFE: Final = Reader(
    "geolife",
    "GPS trajectories of Geolife: a directory Data/<user>/Trajectory/*.plt",
    read_bytes=read,
    belongs=lambda name: PurePath(name).suffix.lower() == ".plt",
    recognises=recognises,
)
