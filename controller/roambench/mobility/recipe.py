"""From raw fixes to a replayable trace: box, window, one position per step, top devices, access points. Pure.

The order of the stages is part of the recipe: devices are ranked after box and window, access points are
drawn from every place ever visited in the box. The order of the input rows plays no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.projection import Box
from roambench.mobility.readers.fixes import Fixes
from roambench.mobility.selection import ap_names, busiest_devices, draw_places
from roambench.mobility.trace import FloatColumn, Trace

_CELL_M: Final = 250.0  # candidate places of fixes without a place: visited cells of this size
_DAY_S: Final = 86_400

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How fixes become a trace. The defaults are MOHAWK's §4.1 but for the box, which is the data's.

    `box` None: 17.5 km around the median fix. `start_utc_s` None: the UTC midnight that opens the `steps`
    steps with the most (device, step) pairs. A device is present in a step if it has a fix in it; of
    several the `reduce` one counts. `devices` None keeps all, else the busiest are kept (fewer if fewer
    exist). `aps` are drawn from the places in the box with `seed`.
    """

    box: Box | None = None
    start_utc_s: int | None = None
    steps: int = 744
    step_s: int = 3600
    reduce: Literal["first", "last"] = "first"
    devices: int | None = 1000
    aps: int = 100
    seed: int = 42

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}, expected at least 1"
            for name, value in (("steps", self.steps), ("step_s", self.step_s), ("aps", self.aps))
            if value < 1
        ]
        if self.devices is not None and self.devices < 1:
            problems.append(f"devices is {self.devices}, expected at least 1")
        if self.reduce not in ("first", "last"):
            problems.append(f"reduce is {self.reduce!r}, expected first or last")
        if self.seed < 0:
            problems.append(f"seed is {self.seed}, expected 0 or more")
        if problems:
            raise ConfigError(problems)


def build_trace(fixes: Fixes, recipe: Recipe, sources: Sequence[Mapping[str, object]] = ()) -> Trace:
    """The trace that `recipe` makes of `fixes`; `sources` go into its provenance (name, sha256, ...).

    Raises TraceError when nothing is left in the box or the window, or places are fewer than APs.
    """
    if not len(fixes.device):
        raise TraceError("no readable fix at all" + _examples(fixes))
    box = recipe.box or Box.square(float(np.median(fixes.latitude)), float(np.median(fixes.longitude)))
    x_m, y_m = box.project(fixes.latitude, fixes.longitude)
    boxed = np.flatnonzero(box.inside(x_m, y_m))
    if not len(boxed):
        raise TraceError(f"none of {len(fixes.device)} fixes lies in the box around {_centre(box)}")
    rows = boxed[_canonical_order(fixes, boxed)]
    start_utc_s = _densest_start(fixes, rows, recipe) if recipe.start_utc_s is None else recipe.start_utc_s
    start_utc_s -= start_utc_s % recipe.step_s
    step = (fixes.t_utc_s - start_utc_s) // recipe.step_s
    windowed = rows[(step[rows] >= 0) & (step[rows] < recipe.steps)]
    if not len(windowed):
        raise TraceError(f"none of the {len(rows)} fixes in the box lies in the window")
    reduced = _one_per_step(step, fixes.device, windowed, recipe.reduce)
    places = _places(fixes, rows, x_m, y_m)
    chosen = draw_places(len(places.x_m), recipe.aps, recipe.seed)
    codes, names = _named_devices(fixes, reduced)
    order = np.lexsort((codes, step[reduced]))
    kept = reduced[order]
    everyone = Trace(
        steps=recipe.steps,
        step_s=float(recipe.step_s),
        start_utc_s=start_utc_s,
        device_names=names,
        step=step[kept].astype(np.int32),
        device=codes[order].astype(np.int32),
        x_m=x_m[kept],
        y_m=y_m[kept],
        ap_names=ap_names(recipe.aps),
        ap_x_m=places.x_m[chosen],
        ap_y_m=places.y_m[chosen],
        place_x_m=places.x_m,
        place_y_m=places.y_m,
        provenance={
            "made_by": "import",
            "sources": [dict(source) for source in sources],
            "seed": recipe.seed,
            "recipe": _described(recipe, box, start_utc_s),
            "counts": {
                "rows": fixes.rows,
                "malformed": fixes.malformed,
                "outside_box": len(fixes.device) - len(boxed),
                "outside_window": len(boxed) - len(windowed),
                "same_device_and_step": len(windowed) - len(reduced),
                "places": len(places.x_m),
                "devices_before_cut": len(names),
            },
        },
    )
    return busiest_devices(everyone, min(recipe.devices or len(names), len(names)))


class _Places(NamedTuple):
    x_m: FloatColumn
    y_m: FloatColumn


def _canonical_order(fixes: Fixes, rows: Indices) -> Indices:
    """An order of `rows` that only their values decide: time, place, position."""
    names = np.array(["", *fixes.place_ids])
    by_name = np.empty(len(names), np.int64)
    by_name[np.argsort(names, kind="stable")] = np.arange(len(names))
    place_rank = by_name[fixes.place[rows] + 1]  # rank of the id's text: codes follow the file's order
    keys = (fixes.longitude[rows], fixes.latitude[rows], place_rank, fixes.t_utc_s[rows])
    return np.lexsort(keys).astype(np.int64)


def _densest_start(fixes: Fixes, rows: Indices, recipe: Recipe) -> int:
    """The UTC midnight (at or before the data's last fix) whose window holds most (device, step) pairs."""
    first_midnight = int(fixes.t_utc_s[rows[0]]) // _DAY_S * _DAY_S
    step = (fixes.t_utc_s[rows] - first_midnight) // recipe.step_s
    pairs = np.unique(np.stack((step, fixes.device[rows].astype(np.int64))), axis=1)[0]  # ascending steps
    days = (int(fixes.t_utc_s[rows[-1]]) - first_midnight) // _DAY_S + 1
    starts = np.arange(days) * _DAY_S // recipe.step_s
    inside = np.searchsorted(pairs, starts + recipe.steps) - np.searchsorted(pairs, starts)
    return first_midnight + int(np.argmax(inside)) * _DAY_S


def _one_per_step(
    step: Indices, device: npt.NDArray[np.int32], rows: Indices, reduce: Literal["first", "last"]
) -> Indices:
    """Of the rows (in canonical order) the first or last of every (step, device)."""
    ordered = rows if reduce == "first" else rows[::-1]
    key = step[ordered] * (int(device.max()) + 1) + device[ordered]
    _, first = np.unique(key, return_index=True)
    return ordered[first]


def _places(fixes: Fixes, rows: Indices, x_m: FloatColumn, y_m: FloatColumn) -> _Places:
    """Distinct places of the rows (in canonical order), sorted by id; without ids, by visited cell."""
    named = rows[fixes.place[rows] >= 0]
    if len(named):
        codes, first = np.unique(fixes.place[named], return_index=True)
        order = np.argsort(np.array(fixes.place_ids)[codes], kind="stable")
        where = named[first[order]]
        return _Places(x_m[where], y_m[where])
    cells = np.unique(np.floor(np.stack((x_m[rows], y_m[rows])) / _CELL_M), axis=1)
    return _Places((cells[0] + 0.5) * _CELL_M, (cells[1] + 0.5) * _CELL_M)


def _named_devices(fixes: Fixes, rows: Indices) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Per row the device's index among the names present, which are sorted as text."""
    codes, inverse = np.unique(fixes.device[rows], return_inverse=True)
    names = np.array(fixes.device_ids)[codes]
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes))
    return rank[inverse], tuple(names[order].tolist())


def _described(recipe: Recipe, box: Box, start_utc_s: int) -> Mapping[str, object]:
    return {
        "box": {
            "latitude": box.latitude,
            "longitude": box.longitude,
            "width_m": box.width_m,
            "height_m": box.height_m,
        },
        "start_utc_s": start_utc_s,
        "steps": recipe.steps,
        "step_s": recipe.step_s,
        "reduce": recipe.reduce,
        "presence": "event",
        "devices": recipe.devices,
        "aps": recipe.aps,
        "ap_draw": "pcg64",
    }


def _centre(box: Box) -> str:
    return f"{box.latitude:.4f}, {box.longitude:.4f}"


def _examples(fixes: Fixes) -> str:
    if not fixes.malformed:
        return ""
    return f": {fixes.malformed} malformed rows, the first is {fixes.malformed_rows[0]}"
