"""Results of every reader: fixes in columns, and an honest account of every row that was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Literal

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import (
    KEPT_MALFORMED,
    MalformedRow,
)
from roambench.mobility.readers.documents import Document, Head
from roambench.mobility.trace import FloatColumn, IntColumn


@dataclass(frozen=True, eq=False)
class Stations:
    """Access points that a source names itself, on the globe or plane of its fixes: shape (stations,)."""

    ids: tuple[str, ...]
    latitude: FloatColumn  # metres north on a plane
    longitude: FloatColumn  # metres east on a plane
    file: str = ""  # the list of access points, if it is a separate file


@dataclass(frozen=True, eq=False)
class Fixes:
    """Sightings of devices, in the order read: parallel columns of shape (fixes,).

    On the globe positions are degrees; with `plane` they are metres, north in `latitude` and east in
    `longitude`. `device` and `place` index `device_ids` and `place_ids`; place -1 is a fix without a place.
    Times are UTC; with `simulated` they count from the start of a simulation. `synthetic` positions are made
    up, because the source only names access points. With `intervals` the source says from when to when.

    Every row with something in it is accounted for once: rows = used + malformed + duplicates + left out.
    `used` rows made the fixes (one each, but for sources that are sampled at every step), duplicates say
    again what an earlier row said, `left_out` counts by reason those that are no part of the movement.
    """

    device_ids: tuple[str, ...]
    place_ids: tuple[str, ...]
    device: IntColumn
    place: IntColumn
    t_utc_s: npt.NDArray[np.int64]
    latitude: FloatColumn
    longitude: FloatColumn
    rows: int
    malformed: int = 0
    malformed_rows: tuple[MalformedRow, ...] = ()
    used: int = 0
    duplicates: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    plane: bool = False
    simulated: bool = False
    synthetic: bool = False
    stations: Stations | None = None
    intervals: bool = False
    listed: Stations | None = None  # places that the source lists beside the visits, as it lists them


def as_it_is(fixes: Fixes) -> Fixes:
    """The fixes, unchanged: the condensation that does nothing."""
    return fixes


def _any_file(name: str) -> bool:
    return True


def _never(head: Head) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Options of reading. A format takes what it needs; see docs/traces.md.

    `columns` maps a field (device, time, lat, lon, place, ...) to a column of the file, `ap_columns` those of
    a list of access points beside it. `step_s` is the step at which continuous movement and intervals are
    sampled, `origin_s` a second at which a step begins, `reduce` the one of several fixes that will count.
    `time_format` and `time_zone` are what `zones.time_form` takes, which counts in `time_doubts`.
    `utc_offset_h` is that of local times, `ap_hosts` the hosts of a contact log that are access points.
    `globe` says whether a format that writes both holds degrees. Formats too large to be kept whole hand
    every block of fixes to `condense`, which gives back those that can still matter.
    """

    file: str = "-"  # for messages
    columns: Mapping[str, str] = field(default_factory=dict)
    ap_columns: Mapping[str, str] = field(default_factory=dict)
    time_format: str = "auto"
    time_zone: str = ""
    time_doubts: Counter[str] = field(default_factory=Counter)
    step_s: int = 3600
    origin_s: int = 0
    reduce: Literal["first", "last"] = "first"
    utc_offset_h: float | None = None
    ap_hosts: tuple[str, ...] = ()
    globe: bool | None = None
    condense: Callable[[Fixes], Fixes] = as_it_is


@dataclass(frozen=True, slots=True)
class Reader:
    """One input format: a pure function of text lines, of bytes, or of several documents at once.

    Exactly one of the three functions is given. TraceError when nothing fits, ConfigError for options that
    make no sense; malformed rows are counted. Of a directory or an archive only the members that `belongs`
    accepts are read. `recognises` says why the first lines of a file look like this format, or None.
    `utc_offset_h` is that of its times where they are local ones and the user gives no other.
    """

    name: str
    summary: str
    read: Callable[[Iterable[str], ReaderOptions], Fixes] | None = None
    read_bytes: Callable[[IO[bytes], ReaderOptions], Fixes] | None = None
    read_together: Callable[[Sequence[Document], ReaderOptions], Fixes] | None = None
    belongs: Callable[[str], bool] = _any_file
    recognises: Callable[[Head], str | None] = _never
    utc_offset_h: float | None = None
    takes_columns: bool = False  # and forms and zones of times
    takes_aps: bool = False  # a list of access points is one of its files


def without_duplicates(fixes: Fixes) -> Fixes:
    """The fixes, each once: of equal ones (device, time, place, position) the first stays, the rest count."""
    columns = (fixes.longitude, fixes.latitude, fixes.place, fixes.t_utc_s, fixes.device)
    if len(fixes.device) < 2:
        return fixes
    order = np.lexsort(columns)
    again = np.ones(len(order) - 1, np.bool_)
    for column in columns:
        again &= np.diff(column[order]) == 0
    if not again.any():
        return fixes
    kept = np.ones(len(order), np.bool_)
    kept[order[1:][again]] = False
    found = int(again.sum())
    return replace(
        rows_of(fixes, np.flatnonzero(kept)), used=fixes.used - found, duplicates=fixes.duplicates + found
    )


def rows_of(fixes: Fixes, rows: npt.NDArray[np.integer]) -> Fixes:
    """Only these rows of the columns; ids and counts stay."""
    return replace(
        fixes,
        device=fixes.device[rows],
        place=fixes.place[rows],
        t_utc_s=fixes.t_utc_s[rows],
        latitude=fixes.latitude[rows],
        longitude=fixes.longitude[rows],
    )


def with_used_ids(fixes: Fixes) -> Fixes:
    """Without the ids that no row has, the others in their order."""
    columns, ids = [], []
    for codes, names in ((fixes.device, fixes.device_ids), (fixes.place, fixes.place_ids)):
        used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(names)))
        number = np.full(len(names) + 1, -1, np.int32)  # the last is that of code -1
        number[used] = np.arange(len(used), dtype=np.int32)
        columns.append(number[codes])
        ids.append(tuple(names[code] for code in used))
    return replace(fixes, device=columns[0], place=columns[1], device_ids=ids[0], place_ids=ids[1])


def concatenate(parts: Sequence[Fixes]) -> Fixes:
    """The fixes of several files as one; the same id in two files is the same device or place.

    Raises TraceError where some lie on the globe and others on a plane.
    """
    if len({(part.plane, part.simulated) for part in parts}) > 1:
        raise TraceError("some files hold degrees, others metres: import them one by one")
    if len(parts) == 1:
        return parts[0]
    devices: dict[str, int] = {}
    places: dict[str, int] = {}
    device_columns, place_columns = [], []
    left_out: dict[str, int] = {}
    for part in parts:
        device_map = [devices.setdefault(name, len(devices)) for name in part.device_ids]
        place_map = [places.setdefault(name, len(places)) for name in part.place_ids]
        device_columns.append(np.array([*device_map, -1], np.int32)[part.device])
        place_columns.append(np.array([*place_map, -1], np.int32)[part.place])  # index -1 stays -1
        for reason, count in part.left_out.items():
            left_out[reason] = left_out.get(reason, 0) + count
    kept = [row for part in parts for row in part.malformed_rows]
    return Fixes(
        device_ids=tuple(devices),
        place_ids=tuple(places),
        device=np.concatenate([*device_columns, np.empty(0, np.int32)]),
        place=np.concatenate([*place_columns, np.empty(0, np.int32)]),
        t_utc_s=np.concatenate([*(part.t_utc_s for part in parts), np.empty(0, np.int64)]),
        latitude=np.concatenate([*(part.latitude for part in parts), np.empty(0)]),
        longitude=np.concatenate([*(part.longitude for part in parts), np.empty(0)]),
        rows=sum(part.rows for part in parts),
        malformed=sum(part.malformed for part in parts),
        malformed_rows=tuple(kept[:KEPT_MALFORMED]),
        used=sum(part.used for part in parts),
        duplicates=sum(part.duplicates for part in parts),
        left_out=left_out,
        plane=any(part.plane for part in parts),
        simulated=any(part.simulated for part in parts),
        synthetic=any(part.synthetic for part in parts),
        stations=next((part.stations for part in parts if part.stations), None),
        intervals=any(part.intervals for part in parts),
        listed=next((part.listed for part in parts if part.listed), None),
    )
