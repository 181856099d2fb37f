"""What every reader yields: fixes in columns, and an honest count of what could not be read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from roambench.mobility.trace import FloatColumn, IntColumn

#: How many malformed rows are kept to be shown; all are counted.
KEPT_MALFORMED = 5
_MAX_ID = 256  # ids are sorted as fixed-width text: one absurd id must not cost gigabytes


@dataclass(frozen=True, slots=True)
class MalformedRow:
    file: str
    line: int  # from 1
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Fixes:
    """Sightings of devices on the globe, in the order read: parallel columns of shape (fixes,).

    `device` and `place` index `device_ids` and `place_ids`; place -1 is a fix without a place.
    `rows` counts every row with something in it, `malformed` those that gave no fix.
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


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How to read: `columns` maps a field (device, time, lat, lon, place) to a column of the file."""

    file: str = "-"  # for messages
    columns: Mapping[str, str] = field(default_factory=dict)
    time_format: str = "auto"


@dataclass(frozen=True, slots=True)
class Reader:
    """One input format. `read` is pure: lines of text in, fixes out; TraceError when nothing fits."""

    name: str
    summary: str
    read: Callable[[Iterable[str], ReaderOptions], Fixes]


class FixCollector:
    """Grows the columns of `Fixes` row by row; a reader's only mutable thing."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._devices: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._codes = array("i")
        self._place_codes = array("i")
        self._times = array("q")
        self._latitudes = array("d")
        self._longitudes = array("d")
        self._malformed = 0
        self._kept: list[MalformedRow] = []

    def add(self, device: str, t_utc_s: int, latitude: float, longitude: float, place: str) -> None:
        """One fix. Raises ValueError, before anything is stored, for what cannot be a fix."""
        if not device:
            raise ValueError("device is empty")
        for name in (device, place):
            if len(name) > _MAX_ID or "\0" in name:
                raise ValueError(f"id {name[:16]!r}... is longer than {_MAX_ID} characters or holds a NUL")
        if not (-90.0 <= latitude <= 90.0 and -180.0 <= longitude <= 180.0):
            raise ValueError(f"{latitude}, {longitude} is not a latitude and a longitude in degrees")
        if latitude == 0.0 and longitude == 0.0:
            raise ValueError("0, 0 is how receivers without a fix report themselves")
        self._times.append(t_utc_s)
        self._latitudes.append(latitude)
        self._longitudes.append(longitude)
        self._codes.append(self._devices.setdefault(device, len(self._devices)))
        self._place_codes.append(self._places.setdefault(place, len(self._places)) if place else -1)

    def reject(self, line: int, reason: str) -> None:
        self._malformed += 1
        if len(self._kept) < KEPT_MALFORMED:
            self._kept.append(MalformedRow(self._file, line, reason))

    def fixes(self) -> Fixes:
        return Fixes(
            device_ids=tuple(self._devices),
            place_ids=tuple(self._places),
            device=np.array(self._codes, np.int32),
            place=np.array(self._place_codes, np.int32),
            t_utc_s=np.array(self._times, np.int64),
            latitude=np.array(self._latitudes, np.float64),
            longitude=np.array(self._longitudes, np.float64),
            rows=len(self._codes) + self._malformed,
            malformed=self._malformed,
            malformed_rows=tuple(self._kept),
        )


def concatenate(parts: Sequence[Fixes]) -> Fixes:
    """The fixes of several files as one; the same id in two files is the same device or place."""
    devices: dict[str, int] = {}
    places: dict[str, int] = {}
    device_columns, place_columns = [], []
    for part in parts:
        device_map = [devices.setdefault(name, len(devices)) for name in part.device_ids]
        place_map = [places.setdefault(name, len(places)) for name in part.place_ids]
        device_columns.append(np.array([*device_map, -1], np.int32)[part.device])
        place_columns.append(np.array([*place_map, -1], np.int32)[part.place])  # index -1 stays -1
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
    )
