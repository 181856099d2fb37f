"""Intervals (device at access point from .. to) as one fix per step: the longest stay in a step counts."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import MAX_TIME_S, RowAccount, check_id, check_time
from roambench.mobility.readers.fixes import Fixes, Stations
from roambench.mobility.readers.rows import Rows, Texts, encoded
from roambench.mobility.readers.sampling import MAX_SAMPLES

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: Distinct ids in the order in which they come first, and by row which of them.
Coded = tuple[tuple[str, ...], npt.NDArray[np.int32]]

_AT_ONCE: Final = 1_000_000  # stays in steps that are weighed together: what this takes, not all at once
_MAX_STAY_S: Final = 400 * 86_400
_SPACING_M: Final = 1000.0  # of the made-up grid on which access points without coordinates are drawn


class IntervalCollector:
    """Grows columns of (device, access point, start, end); seconds, whole or not."""

    def __init__(self, file: str, at_once: int = _AT_ONCE) -> None:
        """`at_once`: stays in steps that `fixes` weighs together, about; it changes no fix."""
        self.account = RowAccount(file)
        self._at_once = at_once
        self._devices: dict[str, int] = {}
        self._aps: dict[str, int] = {}
        self._device = array("i")
        self._ap = array("i")
        self._start = array("d")
        self._end = array("d")

    def add(self, device: str, ap: str, start_s: float, end_s: float) -> None:
        """One stay. Raises ValueError for what cannot be one."""
        check_id(device, "device")
        check_id(ap, "access point")
        _check_stay(start_s, end_s)
        device_code = self._devices.setdefault(device, len(self._devices))
        ap_code = self._aps.setdefault(ap, len(self._aps))
        self._device.append(device_code)
        self._ap.append(ap_code)
        self._start.append(start_s)
        self._end.append(end_s)
        self.account.used += 1

    def add_rows(
        self, rows: Rows, device: Texts | str, ap: Texts | str | Coded, start_s: Ints, end_s: Ints
    ) -> None:
        """The stays of all sound rows, and the account of the others; one text is that of every row."""
        rows.check(~possible(start_s, end_s), lambda row: _check_stay(int(start_s[row]), int(end_s[row])))
        sound = rows.sound()
        self.add_columns(coded(device, sound), coded(ap, sound), start_s[sound], end_s[sound])
        rows.reject_in(self.account)

    def add_columns(self, devices: Coded, aps: Coded, start_s: Ints, end_s: Ints) -> None:
        """Many stays, in order, each as by `add`; all must be `possible`."""
        self._device.frombytes(numbered(devices, self._devices).tobytes())
        self._ap.frombytes(numbered(aps, self._aps).tobytes())
        for times, grown in ((start_s, self._start), (end_s, self._end)):
            grown.frombytes(times.astype(np.float64).tobytes())
        self.account.used += len(start_s)

    @property
    def ap_ids(self) -> tuple[str, ...]:
        """The ids of all access points, sorted."""
        return tuple(sorted(self._aps))

    def fixes(
        self, stations: Stations, step_s: int, origin_s: int = 0, *, plane: bool, simulated: bool = False
    ) -> Fixes:
        """One fix per (device, step) at the station with most seconds in it; ties: first id as text.

        A step begins at `origin_s`. A stay [start, end) counts in every step it touches, one without length
        in the step it lies in.
        `stations` must hold every access point collected. Raises TraceError for more steps than can be meant.
        """
        index = {name: at for at, name in enumerate(stations.ids)}
        rank = np.argsort(np.argsort(np.array(stations.ids), kind="stable"), kind="stable")
        to_station = np.array([index[name] for name in self._aps], np.int64)
        device_of, ap_of, start, end = self._distinct()
        start, end = start - origin_s, end - origin_s
        _, touched = _touched(start, end, step_s)
        total = int(touched.sum())
        if total > MAX_SAMPLES:
            raise TraceError(f"the intervals cover {total:,} steps of {step_s} s: give a longer --step-s")
        station_of = to_station[ap_of] if len(start) else np.empty(0, np.int64)
        parts = [
            _longest(*_in_steps(device_of[rows], station_of[rows], start[rows], end[rows], step_s), rank)
            for rows in _by_device(device_of, touched, self._at_once)
        ]
        columns = zip(*parts, strict=True) if parts else ([], [], [])
        device, step, station = (np.concatenate([np.empty(0, np.int64), *column]) for column in columns)
        return Fixes(
            device_ids=tuple(self._devices),
            place_ids=stations.ids,
            device=device.astype(np.int32),
            place=station.astype(np.int32),
            t_utc_s=step * step_s + origin_s,
            latitude=stations.latitude[station],
            longitude=stations.longitude[station],
            rows=self.account.rows,
            malformed=self.account.malformed,
            malformed_rows=self.account.malformed_rows,
            used=self.account.used,
            duplicates=self.account.duplicates,
            left_out=self.account.left_out,
            plane=plane,
            simulated=simulated,
            stations=stations,
            intervals=True,
        )

    def _distinct(self) -> tuple[Ints, Ints, Floats, Floats]:
        """The columns with every stay once; the others are counted as duplicates."""
        columns = (np.array(self._device), np.array(self._ap), np.array(self._start), np.array(self._end))
        order = np.lexsort(columns[::-1])  # by device first
        new = np.ones(len(order), np.bool_)
        new[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
        again = int((~new).sum())
        self.account.duplicates += again
        self.account.used -= again
        device, ap, start, end = (column[order[new]] for column in columns)
        return device.astype(np.int64), ap.astype(np.int64), start, end

    def fixes_without_positions(self, step_s: int, origin_s: int = 0, *, simulated: bool = False) -> Fixes:
        """The same with the access points on a made-up grid, flagged `synthetic`."""
        stations = grid_stations(self.ap_ids)
        return replace(
            self.fixes(stations, step_s, origin_s, plane=True, simulated=simulated), synthetic=True
        )


def possible(start_s: Ints, end_s: Ints) -> npt.NDArray[np.bool_]:
    """Tell which stays of these times there can be."""
    inside = (np.abs(start_s) < MAX_TIME_S) & (np.abs(end_s) < MAX_TIME_S)
    return inside & (end_s >= start_s) & (end_s - start_s <= _MAX_STAY_S)


def _check_stay(start_s: float, end_s: float) -> None:
    check_time(int(start_s))
    check_time(int(end_s))
    if end_s < start_s:
        raise ValueError(f"it ends {start_s - end_s:g} s before it starts")
    if end_s - start_s > _MAX_STAY_S:
        raise ValueError(f"it lasts {(end_s - start_s) / 86_400:.0f} days, expected at most 400")


def coded(texts: Texts | str | Coded, rows: npt.NDArray[np.int64]) -> Coded:
    """The ids of some rows of a column; one text is that of every row."""
    if isinstance(texts, str):
        return ((texts,) if len(rows) else ()), np.zeros(len(rows), np.int32)
    if isinstance(texts, tuple):
        return in_order(texts[0], texts[1][rows])
    return encoded(texts.take(pa.array(rows)))


def in_order(names: Sequence[str], codes: npt.NDArray[np.int32]) -> Coded:
    """Only the names that the codes use, in the order in which they come first."""
    used, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(used), np.int32)
    rank[np.argsort(first)] = np.arange(len(used), dtype=np.int32)
    ordered = used[np.argsort(first)].tolist()
    return tuple(names[code] for code in ordered), rank[inverse]


def numbered(coded: Coded, known: dict[str, int]) -> npt.NDArray[np.int32]:
    """The number of every row's id in `known`, which learns the ids that are new to it."""
    ids, codes = coded
    return np.array([known.setdefault(name, len(known)) for name in ids], np.int32)[codes]


def grid_stations(ids: tuple[str, ...]) -> Stations:
    """Made-up positions: rows of a square grid of 1 km, south-west first, in the order given."""
    side = max(1, int(np.ceil(np.sqrt(len(ids)))))
    at = np.arange(len(ids), dtype=np.float64)
    return Stations(ids, (at // side + 0.5) * _SPACING_M, (at % side + 0.5) * _SPACING_M)


def _by_device(device: Ints, touched: Ints, at_once: int) -> Iterator[slice]:
    """Slices of the stays, which are sorted by device: whole devices, about `at_once` steps each."""
    if not len(device):
        return
    before = np.cumsum(touched) - touched
    firsts = np.flatnonzero(np.diff(device, prepend=-1))
    begin = 0
    for first in firsts[1:].tolist():
        if before[first] - before[begin] >= at_once:
            yield slice(begin, first)
            begin = first
    yield slice(begin, len(device))


def _in_steps(
    device: Ints, station: Ints, start: Floats, end: Floats, step_s: int
) -> tuple[Ints, Ints, Ints, Floats]:
    """Every stay in every step that it touches, and its seconds in it."""
    first, touched = _touched(start, end, step_s)
    row = np.repeat(np.arange(len(start)), touched)
    step = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(touched) - touched, touched)
    overlap = np.minimum(end[row], (step + 1.0) * step_s) - np.maximum(start[row], step * float(step_s))
    return device[row], step, station[row], overlap


def _touched(start: Floats, end: Floats, step_s: int) -> tuple[Ints, Ints]:
    """The first step of every stay, and how many it touches."""
    first = np.floor(start / step_s).astype(np.int64)
    last = np.maximum(first, np.ceil(end / step_s).astype(np.int64) - 1)
    return first, last - first + 1


def _longest(device: Ints, step: Ints, station: Ints, overlap: Floats, rank: Ints) -> tuple[Ints, Ints, Ints]:
    """Choose for every (device, step) the station with the largest summed overlap, else the lowest rank."""
    if not len(device):
        return device, step, station
    # The overlap, too: sums must not depend on the rows' order.
    order = np.lexsort((overlap, station, step, device))
    device, step, station, overlap = device[order], step[order], station[order], overlap[order]
    new = np.r_[True, (np.diff(device) != 0) | (np.diff(step) != 0) | (np.diff(station) != 0)]
    starts = np.flatnonzero(new)
    seconds = np.add.reduceat(overlap, starts)
    device, step, station = device[starts], step[starts], station[starts]
    order = np.lexsort((rank[station], -seconds, step, device))
    device, step, station = device[order], step[order], station[order]
    best = np.r_[True, (np.diff(device) != 0) | (np.diff(step) != 0)]
    return device[best], step[best], station[best]
