"""Fixes that grow row by row or block by block, and are condensed while they grow."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roambench.mobility.readers.account import (
    RowAccount,
    check_degrees,
    check_id,
    check_metres,
    check_time,
)
from roambench.mobility.readers.documents import MAX_LINE
from roambench.mobility.readers.fixes import (
    Fixes,
    ReaderOptions,
    as_it_is,
    concatenate,
    without_duplicates,
)
from roambench.mobility.readers.rows import Rows, Texts, blocks, encoded

_BLOCK = 250_000  # fixes held before they are condensed


class FixCollector:
    """Grows the columns of `Fixes` row by row; a reader's only mutable thing."""

    def __init__(
        self,
        file: str,
        *,
        plane: bool = False,
        simulated: bool = False,
        condense: Callable[[Fixes], Fixes] = as_it_is,
    ) -> None:
        self._plane = plane
        self._simulated = simulated
        self._devices: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._codes = array("i")
        self._place_codes = array("i")
        self._times = array("q")
        self._latitudes = array("d")
        self._longitudes = array("d")
        self._condense = condense
        self._pile = Pile(condense)
        self._account = RowAccount(file)
        self.furthest_s = 0  # the time furthest from 0 of all that was added, complete after `fixes`

    def add(self, device: str, t_utc_s: int, latitude: float, longitude: float, place: str) -> None:
        """One fix. Raises ValueError, before anything is stored, for what cannot be a fix."""
        if len(self._codes) >= _BLOCK and self._condense is not as_it_is:
            self._pile.add(self._block())
        check_id(device, "device")
        if place:
            check_id(place, "place")
        if self._plane:
            check_metres(longitude, latitude)
        else:
            check_degrees(latitude, longitude)
        self._times.append(check_time(t_utc_s))
        self._latitudes.append(latitude)
        self._longitudes.append(longitude)
        self._codes.append(self._devices.setdefault(device, len(self._devices)))
        self._place_codes.append(self._places.setdefault(place, len(self._places)) if place else -1)

    def reject(self, line: int, reason: str) -> None:
        """A row that cannot be read."""
        self._account.reject(line, reason)

    def leave_out(self, reason: str) -> None:
        """A row that is sound, but no part of the movement."""
        self._account.leave_out(reason)

    def fixes(self) -> Fixes:
        """Everything added, each fix once, with the account of all rows."""
        self._pile.add(self._block())
        found = self._pile.fixes()
        left_out = dict(found.left_out)
        for reason, count in self._account.left_out.items():
            left_out[reason] = left_out.get(reason, 0) + count
        return replace(
            found,
            rows=found.rows + self._account.rows,
            malformed=self._account.malformed,
            malformed_rows=self._account.malformed_rows,
            left_out=left_out,
        )

    def _block(self) -> Fixes:
        """The fixes added since the last block; its columns and the numbers of its ids begin again."""
        block = Fixes(
            device_ids=tuple(self._devices),
            place_ids=tuple(self._places),
            device=np.array(self._codes, np.int32),
            place=np.array(self._place_codes, np.int32),
            t_utc_s=np.array(self._times, np.int64),
            latitude=np.array(self._latitudes, np.float64),
            longitude=np.array(self._longitudes, np.float64),
            rows=len(self._codes),
            used=len(self._codes),
            plane=self._plane,
            simulated=self._simulated,
        )
        self._codes, self._place_codes, self._times = array("i"), array("i"), array("q")
        self._latitudes, self._longitudes = array("d"), array("d")
        self._devices, self._places = {}, {}
        if len(block.t_utc_s):
            self.furthest_s = max(self.furthest_s, int(abs(block.t_utc_s).max()))
        return without_duplicates(block)


class Pile:
    """Fixes of many parts, condensed again whenever they have grown to twice what was kept."""

    def __init__(self, condense: Callable[[Fixes], Fixes] = as_it_is) -> None:
        self._condense = condense
        self._parts: list[Fixes] = []
        self._held = 0
        self._limit = _BLOCK

    def add(self, part: Fixes) -> None:
        """Add a part; the pile is condensed when it has grown too much."""
        self._parts.append(part)
        self._held += len(part.device)
        if self._held > self._limit and self._condense is not as_it_is:
            self._parts = [self._condense(concatenate(self._parts))]
            self._held = len(self._parts[0].device)
            self._limit = max(_BLOCK, 2 * self._held)

    def fixes(self) -> Fixes:
        """All parts in one, condensed."""
        return self._condense(concatenate(self._parts))


def read_rows(
    file: IO[bytes],
    options: ReaderOptions,
    separator: str,
    read: Callable[[Rows], Fixes],
    header_lines: int = 0,
) -> Fixes:
    """All fixes of a table below its header, block by block, condensed while they are read."""
    pile = Pile(options.condense)
    for _ in range(header_lines):
        file.readline(MAX_LINE)
    for line, block in blocks(file, header_lines + 1):
        pile.add(options.condense(read(Rows(block, separator, options.file, line))))
    return pile.fixes()


def fixes_of(
    rows: Rows,
    device: Texts | str,
    t_utc_s: npt.NDArray[np.int64],
    north: npt.NDArray[np.float64],
    east: npt.NDArray[np.float64],
    place: Texts | None = None,
    *,
    plane: bool = False,
) -> Fixes:
    """The fixes of a block, each once; rows whose values can be no fix are rejected.

    `device` is that of all rows where it is one text; an empty `place` is none.
    """
    if not isinstance(device, str):
        rows.check_ids(device, "device")
    if place is not None:
        rows.check_ids(place, "place", may_be_empty=True)
    rows.check_positions(north, east, plane=plane)
    rows.check_times(t_utc_s)
    sound = rows.sound()
    at = pa.array(sound)
    devices, codes = (
        ((device,) if len(sound) else (), np.zeros(len(sound), np.int32))
        if isinstance(device, str)
        else encoded(device.take(at))
    )
    places, place_codes = (
        ((), np.full(len(sound), -1, np.int32)) if place is None else encoded(place.take(at))
    )
    if "" in places:
        nowhere = places.index("")
        places = (*places[:nowhere], *places[nowhere + 1 :])
        place_codes = np.where(place_codes == nowhere, -1, place_codes - (place_codes > nowhere))
    return without_duplicates(
        Fixes(
            device_ids=devices,
            place_ids=places,
            device=codes,
            place=place_codes.astype(np.int32),
            t_utc_s=t_utc_s[sound],
            latitude=north[sound],
            longitude=east[sound],
            rows=len(rows) + sum(rows.left_out.values()),
            malformed=len(rows.reasons),
            malformed_rows=rows.malformed_rows(),
            used=len(sound),
            left_out=rows.left_out,
            plane=plane,
        )
    )
