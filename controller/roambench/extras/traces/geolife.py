"""Geolife: `Data/<user>/Trajectory/<start>.plt`, six lines of header, times in GMT.

    40.013812,116.306483,0,156,39745.9889467593,2008-10-24,23:44:05

Latitude, longitude, 0, altitude in feet (-777: none), days since 1899-12-30, date, time. The device is the
folder above `Trajectory`, else the file's name.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import IO, Final

from roambench.mobility.readers.collecting import fixes_of, read_rows
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.opening import unpacked_name
from roambench.mobility.readers.rows import Rows
from roambench.mobility.readers.time_columns import DATE_TIME

_HEADER_LINES: Final = 6


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """The fixes of one user's trajectory file."""
    user = _user(options.file)

    def fixes(rows: Rows) -> Fixes:
        rows.require(7, "expected 7: latitude, longitude, 0, altitude, days, date, time", at_most=True)
        times_s = rows.values(rows.texts(5, 6), DATE_TIME)
        north, east = rows.numbers(rows.texts(0), "latitude"), rows.numbers(rows.texts(1), "longitude")
        return fixes_of(rows, user, times_s, north, east)

    return read_rows(file, options, ",", fixes, _HEADER_LINES)


def _user(file: str) -> str:
    path = PurePath(unpacked_name(file))
    if path.parent.name == "Trajectory" and path.parent.parent.name:
        return path.parent.parent.name
    return path.stem or path.name


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.lines and head.lines[0].startswith("Geolife trajectory"):
        return "its first line is 'Geolife trajectory'"
    return None


GEOLIFE: Final = Reader(
    "geolife",
    "GPS trajectories of Geolife: a directory Data/<user>/Trajectory/*.plt",
    read_bytes=read,
    belongs=lambda name: PurePath(name).suffix.lower() == ".plt",
    recognises=recognises,
)
