"""San Francisco's taxis (CRAWDAD epfl/mobility): one file `new_<cab>.txt` per cab, newest first.

    37.75153 -122.39447 0 1211033530     latitude, longitude, occupied, seconds since 1970

The device is named by its file. A cab reports about once a minute; some fixes lie a thousand kilometres off.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import IO, Final

import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.collecting import fixes_of, read_rows
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.opening import unpacked_name
from roambench.mobility.readers.rows import BLANKS, Rows
from roambench.mobility.readers.time_columns import WHOLE_SECONDS

_ROW: Final = re.compile(r"-?\d+\.\d+ -?\d+\.\d+ [01] \d{9,10}\s*")


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """The fixes of one cab's file."""
    cab = _cab(options.file)

    def fixes(rows: Rows) -> Fixes:
        rows.require(4, "expected 4: latitude, longitude, occupied, time", at_most=True)
        occupied = rows.texts(2)
        free_or_not = pc.is_in(occupied, pa.array(["0", "1"])).to_numpy(zero_copy_only=False)
        rows.reject_texts(~free_or_not, occupied, "occupied is {!r}, expected 0 or 1")
        times_s = rows.values(rows.texts(3), WHOLE_SECONDS)
        north, east = rows.numbers(rows.texts(0), "latitude"), rows.numbers(rows.texts(1), "longitude")
        return fixes_of(rows, cab, times_s, north, east)

    return read_rows(file, options, BLANKS, fixes)


def _cab(file: str) -> str:
    name = PurePath(unpacked_name(file)).name
    return name.removesuffix(".txt").removeprefix("new_") or name


def _belongs(name: str) -> bool:
    base = PurePath(name).name
    return base.endswith(".txt") and not base.startswith("_")


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.mostly(_ROW):
        return "lines of latitude, longitude, 0 or 1, and seconds since 1970"
    return None


CABSPOTTING: Final = Reader(
    "cabspotting",
    "San Francisco taxis (CRAWDAD epfl/mobility): a directory with one file per cab",
    read_bytes=read,
    belongs=_belongs,
    recognises=recognises,
)
