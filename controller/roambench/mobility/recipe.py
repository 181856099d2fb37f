"""From raw fixes to a replayable trace: box, window, one position per step, top devices, access points. Pure.

The order of the stages is part of the recipe: devices are ranked after box and window, access points are
drawn from every place ever visited in the box. The order of the input rows plays no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, cast

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.candidates import (
    AccessPoints,
    Places,
    Plane,
    centre_of,
    listed_places,
    named_access_points,
    visited_places,
)
from roambench.mobility.outages import (
    OUTAGE_POLICIES,
    OutagePolicy,
    empty_runs,
    outage_runs,
    with_outages,
)
from roambench.mobility.presence import hold_steps, with_presence
from roambench.mobility.projection import Box, PlaneBox
from roambench.mobility.readers.condensing import (
    CELL_M,
    OUTSIDE,
    Indices,
    Reduce,
    canonical_order,
    one_per_step,
)
from roambench.mobility.readers.fixes import Fixes, Stations
from roambench.mobility.selection import AP_DRAWS, ApDraw, ap_names, busiest_devices, draw_places
from roambench.mobility.trace import MAX_STEPS, Trace

_DAY_S: Final = 86_400
_MONTH: Final = 744
_APS: Final = 100


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps from fixes to a trace. The defaults are MOHAWK's §4.1 but for the box, which is the data's.

    `box` None: 17.5 km around the median fix. `start_utc_s` None: the UTC midnight that opens the `steps`
    steps with the most (device, step) pairs. Of several fixes in a step the `reduce` one counts: the `first`,
    the `last`, or (`mode`) the first at the place with the most of them. `presence` says in which other
    steps a device is there (see `presence`), `outage` what becomes of holes in the recording (see
    `outages`); devices are ranked, and holes found, by the fixes themselves. `devices` None keeps all, else
    the busiest are kept (fewer if fewer exist). `aps` are drawn from the places in the box with `seed` (None:
    100, or all where there are fewer), unless `ap_source` is `places` (every place is one) or `stations`
    (those that the source or the user names; the default where there are any).

    A `start_utc_s` that is given is the first second of step 0 exactly; one that is found begins a step of
    those that count from 1970.

    `metric` degrees and `ap_draw` mohawk do as the authors' code does: distances in raw degrees
    (`Box.in_degrees`), and the draw of `selection.draw_places`, from the places in the order of their list
    where the source has one, else by id. Ids that are all numbers go by value; `ap_draw` pcg64_text sorts
    these as text, as earlier versions did.

    Movement on a plane in metres takes a `PlaneBox`; None is the box around all of it. Of a simulation the
    window starts at its second 0 (at its first fix where that is later or all lie before), and `steps` None
    lasts to its end. Where times are UTC it is 744, or less where the last fix comes sooner.
    """

    box: Box | PlaneBox | None = None
    start_utc_s: int | None = None
    steps: int | None = 744
    step_s: int = 3600
    reduce: Reduce = "first"
    presence: str = "event"
    outage: OutagePolicy = "keep"
    metric: Literal["metres", "degrees"] = "metres"
    ap_draw: ApDraw = "pcg64"
    devices: int | None = 1000
    aps: int | None = None
    seed: int = 42
    ap_source: Literal["auto", "draw", "places", "stations"] = "auto"

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}, expected at least 1"
            for name, value in (("steps", self.steps), ("step_s", self.step_s), ("aps", self.aps))
            if value is not None and value < 1
        ]
        if self.steps is not None and self.steps > MAX_STEPS:
            problems.append(
                f"steps is {self.steps:,}, expected at most {MAX_STEPS:,}, what a trace file holds"
            )
        if self.devices is not None and self.devices < 1:
            problems.append(f"devices is {self.devices}, expected at least 1")
        choices = (
            ("reduce", self.reduce, ("first", "last", "mode")),
            ("outage", self.outage, OUTAGE_POLICIES),
            ("metric", self.metric, ("metres", "degrees")),
            ("ap_draw", self.ap_draw, AP_DRAWS),
            ("ap_source", self.ap_source, ("auto", "draw", "places", "stations")),
        )
        problems += [
            f"{name} is {value!r}, expected one of {', '.join(known)}"
            for name, value, known in choices
            if value not in known
        ]
        try:
            hold_steps(self.presence)
        except ConfigError as error:
            problems += error.problems
        if self.seed < 0:
            problems.append(f"seed is {self.seed}, expected 0 or more")
        if problems:
            raise ConfigError(problems)

    @property
    def origin_s(self) -> int:
        """Seconds from those steps to its own."""
        return (self.start_utc_s or 0) % self.step_s


def build_trace(fixes: Fixes, recipe: Recipe, sources: Sequence[Mapping[str, object]] = ()) -> Trace:
    """The trace that `recipe` makes of `fixes`; `sources` go into its provenance (name, sha256, ...).

    Raises TraceError for a policy that the fixes do not allow, when nothing is left in the box or the window,
    or places are fewer than APs.
    """
    outside = fixes.left_out.get(OUTSIDE, 0)
    if not len(fixes.device):
        if outside and recipe.box is not None:
            raise TraceError(f"none of {outside} fixes lies in the box {centre_of(recipe.box)}")
        files = ", ".join(str(source["name"]) for source in sources if "name" in source)
        raise TraceError(f"{files}: no readable fix at all".removeprefix(": ") + _examples(fixes))
    _require_fitting(fixes, recipe)
    box = recipe.box or box_of(fixes)
    if isinstance(box, PlaneBox) != fixes.plane:
        wanted = "X,Y,WIDTH,HEIGHT in metres" if fixes.plane else "LAT,LON,SIDE_M"
        raise TraceError(f"the box does not fit the source, which needs one of {wanted}")
    x_m, y_m = box.project(fixes.latitude, fixes.longitude)
    boxed = np.flatnonzero(box.inside(x_m, y_m))
    if not len(boxed):
        raise TraceError(f"none of {len(fixes.device) + outside} fixes lies in the box {centre_of(box)}")
    rows = boxed[canonical_order(fixes, boxed)]
    recipe, start_utc_s = _with_window(recipe, fixes, rows)
    steps = recipe.steps or 1
    step = (fixes.t_utc_s - start_utc_s) // recipe.step_s
    windowed = rows[(step[rows] >= 0) & (step[rows] < steps)]
    if not len(windowed):
        raise TraceError(f"none of the {len(rows)} fixes in the box lies in the window")
    reduced = one_per_step(fixes, step, windowed, recipe.reduce, x_m, y_m)
    plane = box.in_degrees if recipe.metric == "degrees" and isinstance(box, Box) else box.project
    x_m, y_m = plane(fixes.latitude, fixes.longitude)
    if fixes.listed is not None:
        places = listed_places(fixes.listed, box, plane, recipe.ap_draw)
    else:
        places = visited_places(fixes, rows, x_m, y_m, recipe.ap_draw)
    points = _access_points(fixes, recipe, box, plane, places)
    codes, names = _named_devices(fixes, reduced)
    order = np.lexsort((codes, step[reduced]))
    kept = reduced[order]
    everyone = Trace(
        steps=steps,
        step_s=float(recipe.step_s),
        start_utc_s=start_utc_s,
        device_names=names,
        step=step[kept].astype(np.int32),
        device=codes[order].astype(np.int32),
        x_m=x_m[kept],
        y_m=y_m[kept],
        ap_names=points.names,
        ap_x_m=points.x_m,
        ap_y_m=points.y_m,
        place_x_m=places.x_m,
        place_y_m=places.y_m,
        ap=None if points.of_place is None else points.of_place[fixes.place[kept]].astype(np.int32),
        provenance={
            "made_by": "import",
            "sources": [dict(source) for source in sources],
            "seed": recipe.seed,
            "recipe": _described(recipe, box, start_utc_s, fixes),
            "counts": {
                "rows": fixes.rows,
                "malformed": fixes.malformed,
                "outside_box": len(fixes.device) - len(boxed) + outside,
                "outside_window": len(boxed) - len(windowed),
                "same_device_and_step": len(windowed) - len(reduced),
                "places": len(places.x_m),
                "devices_before_cut": len(names),
            },
        },
    )
    kept_devices = busiest_devices(everyone, min(recipe.devices or len(names), len(names)))
    covered = range(max(0, int(step[rows[0]])), min(steps, int(step[rows[-1]]) + 1))
    present = np.bincount(everyone.step, minlength=steps)[covered.start : covered.stop]
    runs = outage_runs(present, everyone.step_s, start_utc_s + covered.start * recipe.step_s)
    holes = () if fixes.simulated else tuple((at + covered.start, length) for at, length in runs)
    outage_steps = sum(length for _, length in holes)
    found = {
        "of_devices_cut": len(everyone.step) - len(kept_devices.step),
        "empty_runs": len(empty_runs(present)),
        "outage_steps": outage_steps,
        "quiet_steps": int((present == 0).sum()) - outage_steps,
        "steps_not_covered": steps - len(covered),  # before the source's first fix, or after its last
    }
    counts = {**cast(Mapping[str, object], kept_devices.provenance["counts"]), **found}
    kept_devices = replace(kept_devices, provenance={**kept_devices.provenance, "counts": counts})
    return with_outages(with_presence(kept_devices, recipe.presence), holes, recipe.outage)


def _require_fitting(fixes: Fixes, recipe: Recipe) -> None:
    if recipe.presence == "interval" and not fixes.intervals:
        raise TraceError(
            "presence interval: the source says when devices were seen, not from when to when; "
            "expected event, hold:STEPS or always"
        )
    if recipe.metric == "degrees" and fixes.plane:
        raise TraceError("metric degrees: the source is in metres, it has no degrees")
    if recipe.metric == "degrees" and not fixes.place_ids and fixes.stations is None:
        raise TraceError("metric degrees: the source has no places; name the access points with a file")


def box_around(latitude: float, longitude: float) -> Box:
    """The box of 17.5 km around the median fix."""
    try:
        return Box.square(latitude, longitude)
    except TraceError as error:
        raise TraceError(f"{error}; it is the median fix: give another with --box") from None


def box_of(fixes: Fixes) -> Box | PlaneBox:
    """The box of fixes for which none is given: 17.5 km around the median, or a plane's whole extent."""
    if not fixes.plane:
        return box_around(float(np.median(fixes.latitude)), float(np.median(fixes.longitude)))
    stations = fixes.stations or Stations((), np.empty(0), np.empty(0))
    x_m, y_m = (
        np.concatenate(columns)
        for columns in ((fixes.longitude, stations.longitude), (fixes.latitude, stations.latitude))
    )
    return PlaneBox.around(x_m, y_m, CELL_M)


def _with_window(recipe: Recipe, fixes: Fixes, rows: Indices) -> tuple[Recipe, int]:
    """The recipe with its number of steps, and the second at which the first of them starts."""
    first, last = int(fixes.t_utc_s[rows[0]]), int(fixes.t_utc_s[rows[-1]])
    start_utc_s = recipe.start_utc_s
    if not fixes.simulated:
        window = recipe.steps or _MONTH
        if start_utc_s is None:
            start_utc_s = _densest_start(fixes, rows, recipe.step_s, window)
            start_utc_s -= start_utc_s % recipe.step_s
        to_the_end = max(1, (last - start_utc_s) // recipe.step_s + 1)
        return replace(recipe, steps=recipe.steps or min(window, to_the_end)), start_utc_s
    if start_utc_s is None:
        start_utc_s = 0 if first <= 0 <= last else first
        start_utc_s -= start_utc_s % recipe.step_s
    steps = recipe.steps or max(1, (last - start_utc_s) // recipe.step_s + 1)
    if steps > MAX_STEPS:
        raise TraceError(
            f"it lasts {steps:,} steps of {recipe.step_s} s, more than {MAX_STEPS:,}: give fewer"
        )
    return replace(recipe, steps=steps), start_utc_s


def _access_points(
    fixes: Fixes, recipe: Recipe, box: Box | PlaneBox, plane: Plane, places: Places
) -> AccessPoints:
    stations, source = fixes.stations, recipe.ap_source
    if source == "stations" and stations is None:
        raise TraceError("the source names no access points, and no file with them is given")
    if stations is not None and source in ("auto", "stations"):
        return named_access_points(fixes, stations, box, plane)
    if source == "places":
        names = places.ids or ap_names(len(places.x_m))
        return AccessPoints(names, places.x_m, places.y_m)
    aps = recipe.aps or min(_APS, len(places.x_m))
    if aps > len(places.x_m):
        raise TraceError(
            f"cannot draw {aps} access points from {len(places.x_m)} places: "
            f"give --aps {len(places.x_m)} or fewer"
        )
    chosen = draw_places(len(places.x_m), aps, recipe.seed, recipe.ap_draw)
    return AccessPoints(ap_names(aps), places.x_m[chosen], places.y_m[chosen])


def _densest_start(fixes: Fixes, rows: Indices, step_s: int, window: int) -> int:
    """The UTC midnight (at or before the data's last fix) whose window holds most (device, step) pairs.

    Where none holds any, the step whose window does.
    """
    first_midnight = int(fixes.t_utc_s[rows[0]]) // _DAY_S * _DAY_S
    opening = first_midnight // step_s  # steps are those of the trace, also where none begins a day
    step = fixes.t_utc_s[rows] // step_s - opening
    pairs = np.unique(np.stack((step, fixes.device[rows].astype(np.int64))), axis=1)[0]  # ascending steps
    days = (int(fixes.t_utc_s[rows[-1]]) - first_midnight) // _DAY_S + 1
    starts = (first_midnight + np.arange(days) * _DAY_S) // step_s - opening
    inside = np.searchsorted(pairs, starts + window) - np.searchsorted(pairs, starts)
    if not inside.any():  # a short window, and no device about at any midnight
        starts = np.unique(pairs)
        inside = np.searchsorted(pairs, starts + window) - np.searchsorted(pairs, starts)
        return int((opening + starts[np.argmax(inside)]) * step_s)
    return first_midnight + int(np.argmax(inside)) * _DAY_S


def _named_devices(fixes: Fixes, rows: Indices) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Per row the device's index among the names present, which are sorted as text."""
    codes, inverse = np.unique(fixes.device[rows], return_inverse=True)
    names = np.array(fixes.device_ids)[codes]
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes))
    return rank[inverse], tuple(names[order].tolist())


def _described(recipe: Recipe, box: Box | PlaneBox, start_utc_s: int, fixes: Fixes) -> Mapping[str, object]:
    return {
        "box": asdict(box),
        "start_utc_s": start_utc_s,
        "steps": recipe.steps,
        "step_s": recipe.step_s,
        "reduce": recipe.reduce,
        "presence": "interval" if fixes.intervals and recipe.presence == "event" else recipe.presence,
        "outage": recipe.outage,
        "metric": recipe.metric,
        "devices": recipe.devices,
        "aps": recipe.aps or _APS,
        "ap_draw": recipe.ap_draw,
        "ap_source": recipe.ap_source,
    }


def _examples(fixes: Fixes) -> str:
    if not fixes.malformed:
        return ""
    return f": {fixes.malformed} malformed rows, the first is {fixes.malformed_rows[0]}"
