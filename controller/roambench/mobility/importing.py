"""Recorded movement into a trace: open the files, read them, cook them by the recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.projection import Box, PlaneBox
from roambench.mobility.readers import READERS
from roambench.mobility.readers.account import MalformedRow
from roambench.mobility.readers.condensing import MORE_OF_A_STEP, OUTSIDE, Area, condensed, counts
from roambench.mobility.readers.fixes import Fixes, Stations, rows_of, with_used_ids
from roambench.mobility.readers.opening import SourceOptions, TraceFile, read_files
from roambench.mobility.readers.stations import read_stations
from roambench.mobility.recipe import Recipe, box_around, box_of, build_trace
from roambench.mobility.trace import FloatColumn, Trace

_HELD: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class Imported:
    """A trace and what to tell the user about the reading.

    All malformed rows are counted, the first of them kept; `left_out` counts by reason the rows that are
    sound, but no part of the trace (duplicates too). Where rows are stays or movement, the `sampled` fixes
    that they make are what is left out (`fixes_left_out`); else None, and every row is a fix. `used` counts
    the rows or fixes that are in the trace before its presence policy adds any: everything adds up.
    """

    trace: Trace
    rows: int
    malformed: int
    malformed_rows: tuple[MalformedRow, ...]
    left_out: Mapping[str, int]
    sampled: int | None
    fixes_left_out: Mapping[str, int]
    used: int
    sources: tuple[TraceFile, ...]
    chosen_box: Box | None  # around the median fix, where the user gave none
    aps_outside: int  # of the access points that a file or the source lists
    time_doubts: Mapping[str, int]  # rows by what is doubtful about their times: see `readers.zones`


def import_trace(
    reader: str,
    paths: Sequence[Path],
    recipe: Recipe,
    options: SourceOptions | None = None,
    aps_file: Path | None = None,
    ap_columns: Mapping[str, str] | None = None,
) -> Imported:
    """Read `paths` with the reader of that name and make the trace of `recipe`.

    `aps_file` is a table of access points (ap and lat, lon or x, y) that stand instead of any drawn ones;
    `ap_columns` names its columns where they are unusual.
    Raises ConfigError for an unknown reader or option, TraceError for files that cannot be used.
    """
    row = READERS.load(reader)
    options = replace(options or SourceOptions(), time_doubts=Counter())
    if aps_file is not None and row.takes_aps:
        options, paths, aps_file = replace(options, ap_columns=ap_columns or {}), [*paths, aps_file], None
    given_box = recipe.box
    condensing = _Condensing(recipe)
    steps = {"step_s": recipe.step_s, "origin_s": recipe.origin_s}
    fixes, sources = read_files(row, paths, options, **steps, condense=condensing)
    if condensing.needs_box:
        recipe = replace(recipe, box=condensing.box())
        options.time_doubts.clear()
        fixes, sources = read_files(row, paths, options, **steps, condense=_Condensing(recipe))
    described = [asdict(source) for source in sources]
    if aps_file is not None:
        stations, source = read_stations(aps_file, plane=fixes.plane, columns=ap_columns)
        fixes = replace(fixes, stations=_only_these(fixes, stations))
        described.append({**asdict(source), "holds": "access points"})
    if recipe.box is None and len(fixes.device) and not fixes.plane:
        recipe = replace(recipe, box=box_of(fixes))
    trace = build_trace(fixes, recipe, described)
    named = fixes.stations if recipe.ap_source in ("auto", "stations") else None
    coordinates = "synthetic" if fixes.synthetic else "metres" if fixes.plane else "degrees"
    provenance = {**trace.provenance, "reader": reader, "coordinates": coordinates, "reading": counts(fixes)}
    local_h = row.utc_offset_h if options.utc_offset_h is None else options.utc_offset_h
    if local_h:
        provenance["utc_offset_h"] = local_h
    left_out, later = (
        {"duplicates": fixes.duplicates, **fixes.left_out},
        _left_out_later(fixes, trace, recipe),
    )
    sampled = fixes.used if fixes.used != len(fixes.device) or fixes.intervals else None
    if sampled is None:
        left_out.update({reason: left_out.get(reason, 0) + count for reason, count in later.items()})
    return Imported(
        replace(trace, provenance=provenance),
        fixes.rows,
        fixes.malformed,
        fixes.malformed_rows,
        {reason: count for reason, count in left_out.items() if count},
        None if sampled is None else len(fixes.device),
        {} if sampled is None else {reason: count for reason, count in later.items() if count},
        len(fixes.device) - sum(later.values()),
        sources,
        recipe.box if given_box is None and isinstance(recipe.box, Box) else None,
        0 if named is None else len(named.ids) - len(trace.ap_names),
        options.time_doubts,
    )


def _left_out_later(fixes: Fixes, trace: Trace, recipe: Recipe) -> dict[str, int]:
    """Fixes that were read and are no part of the trace, by reason; each has one."""
    counted = cast(Mapping[str, int], trace.provenance["counts"])
    return {
        OUTSIDE: counted["outside_box"] - fixes.left_out.get(OUTSIDE, 0),
        "outside the window": counted["outside_window"],
        MORE_OF_A_STEP: counted["same_device_and_step"],
        f"of devices that are not among the {recipe.devices} busiest": counted["of_devices_cut"],
    }


class _Condensing:
    """Thins every block of fixes to those that can matter.

    On the globe that needs a box. Without one only their positions are counted: they give the box around
    their median, and the files are read again. So a year of GPS never lies in memory as a whole. Stays and
    what a lookup lists come whole.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self.needs_box = False
        self._latitudes, self._longitudes = ValueCounts(), ValueCounts()

    def __call__(self, fixes: Fixes) -> Fixes:
        recipe = self._recipe
        if not len(fixes.device) or fixes.stations is not None:
            return fixes
        if recipe.box is None and not fixes.plane:
            self.needs_box = True
            self._latitudes.add(fixes.latitude)
            self._longitudes.add(fixes.longitude)
            return with_used_ids(rows_of(fixes, np.empty(0, np.int64)))
        if recipe.box is not None and isinstance(recipe.box, PlaneBox) != fixes.plane:
            return fixes  # the recipe will refuse them
        area: Area = recipe.box or _EVERYWHERE
        return condensed(fixes, area, recipe.step_s, recipe.reduce, recipe.origin_s)

    def box(self) -> Box:
        return box_around(self._latitudes.median(), self._longitudes.median())


@dataclass(frozen=True, slots=True)
class _Everywhere:
    """A plane without borders: metres stay as they are, so that cells lie as in any box on their grid."""

    def project(self, latitude: FloatColumn, longitude: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
        return longitude, latitude

    def inside(self, x_m: FloatColumn, y_m: FloatColumn) -> npt.NDArray[np.bool_]:
        return np.ones(len(x_m), np.bool_)


_EVERYWHERE = _Everywhere()


def _only_these(fixes: Fixes, stations: Stations) -> Stations:
    if fixes.synthetic:
        raise TraceError("the source has no positions: give the access points' beside it, in a separate file")
    return stations


class ValueCounts:
    """Numbers by value, for the exact median of more of them than are kept.

    Each value once, with how often it came: its memory grows with the distinct ones, places or a GPS's few
    decimals.
    """

    def __init__(self) -> None:
        self._values: list[FloatColumn] = []
        self._counts: list[npt.NDArray[np.int64]] = []
        self._held = 0
        self._limit = _HELD

    def add(self, values: FloatColumn) -> None:
        """Count values, shape (n,)."""
        distinct, counts = np.unique(values, return_counts=True)
        self._values.append(distinct)
        self._counts.append(counts.astype(np.int64))
        self._held += len(distinct)
        if self._held > self._limit:
            self._merge()
            self._limit = max(_HELD, 2 * self._held)

    def median(self) -> float:
        """Median of all that was added, as numpy.median gives it; ValueError for nothing."""
        self._merge()
        values, until = self._values[0], np.cumsum(self._counts[0])
        if not len(values):
            raise ValueError("no median of nothing")
        total = int(until[-1])
        middle = values[np.searchsorted(until, ((total - 1) // 2, total // 2), side="right")]
        return float(np.mean(middle))

    def _merge(self) -> None:
        values = np.concatenate([np.empty(0), *self._values])
        counts = np.concatenate([np.empty(0, np.int64), *self._counts])
        distinct, at = np.unique(values, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, at, counts)
        self._values, self._counts, self._held = [distinct], [sums], len(distinct)
