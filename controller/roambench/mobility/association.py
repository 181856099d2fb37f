"""Association: which access point every present device talks to, for every system's own rule.

Each rule is a frozen object over one trace. It works out its two columns once, for all fixes, when they are
first asked for; a placement is then a slice. Measured on 2 cores: `benchmarks/placements.py`.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.draws import generator
from roambench.contract.errors import TraceError
from roambench.mobility.trace import FloatColumn, IntColumn, Trace

#: Distances this close, relatively, are a tie: far above float64 rounding (1e-16), far below a millimetre.
_TIE: Final = 1e-12
#: A fix is compared with this number of places as fast as a tree finds it, which takes 0.2 s to load.
_FEW: Final = 64
_CHUNK: Final = 1 << 20  # fixes per tree query: bounds the temporary arrays to ~32 MB
Indices = Sequence[int] | npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Placement:
    """Parallel columns over the devices present at `step`, ascending by device: shape (present,)."""

    step: int
    devices: IntColumn
    aps: IntColumn
    distances_m: FloatColumn


@dataclass(frozen=True, eq=False)
class Association(ABC):
    """A rule applied to a trace. `aps` and `distances_m` run parallel to its fixes: shape (fixes,)."""

    trace: Trace

    @property
    @abstractmethod
    def aps(self) -> IntColumn:
        """The access point of every fix, shape (fixes,)."""

    @cached_property
    def distances_m(self) -> FloatColumn:
        """The distance of every fix to its access point in metres, shape (fixes,)."""
        trace, aps = self.trace, self.aps
        return np.hypot(trace.x_m - trace.ap_x_m[aps], trace.y_m - trace.ap_y_m[aps])

    def placement(self, step: int) -> Placement:
        """Positions of all devices present at `step`, their APs and the distances in metres. TraceError
        for a step outside the trace."""
        trace = self.trace
        if not 0 <= step < trace.steps:
            raise TraceError(f"step {step} lies outside the trace's 0..{trace.steps - 1}")
        rows = trace.rows(step)
        return Placement(step, trace.device[rows], self.aps[rows], self.distances_m[rows])


def wrong_association(found: Any, trace: Trace) -> str:
    """Return what was expected of an association to the trace's access points that another package made, and
    what it is; "" if all is well. Its own `trace` may have fewer rows."""
    last = len(trace.ap_names) - 1
    if lacking := sorted({"trace", "aps", "distances_m", "placement"} - set(dir(found))):
        return f"expected an Association, got {type(found).__name__}, which has no {', '.join(lacking)}"
    if not isinstance(found.trace, Trace):
        return f"trace: expected a Trace, {_kind(found.trace)}"
    aps, fixes = found.aps, len(found.trace.step)
    if not isinstance(aps, np.ndarray) or aps.dtype.kind not in "iu" or aps.shape != (fixes,):
        return f"aps: expected whole numbers of shape ({fixes},), one for each row, {_kind(aps)}"
    if fixes and not 0 <= aps.min() <= aps.max() <= last:
        return f"aps: expected access points in 0..{last}, got {aps.min()}..{aps.max()}"
    distances = found.distances_m
    if not isinstance(distances, np.ndarray) or distances.dtype.kind != "f" or distances.shape != (fixes,):
        return f"distances_m: expected floating-point numbers of shape ({fixes},), {_kind(distances)}"
    if fixes and not 0.0 <= distances.min() <= distances.max() < math.inf:
        return f"distances_m: expected finite metres, got {distances.min()}..{distances.max()}"
    return ""


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"got {value.dtype} of shape {value.shape}"
    return f"got {type(value).__name__}"


@dataclass(frozen=True, eq=False)
class NearestAp(Association):
    """MOHAWK's dynamic community selection (Eq. 4): the nearest AP, Euclidean in metres.

    Ties go to the AP that the trace recorded, if it is one of them, else to the lowest AP index (the authors'
    simulator draws among them). Two APs of the same place are a tie, so where none is recorded the second of
    them never serves anyone.
    """

    @cached_property
    def aps(self) -> IntColumn:
        """The nearest access point of every fix, shape (fixes,)."""
        trace = self.trace
        _require_aps(trace)
        aps = np.empty(len(trace.step), np.int32)
        # APs at one place can never be distinguished by distance: keep the lowest index of each place.
        places, first = np.unique(np.column_stack((trace.ap_x_m, trace.ap_y_m)), axis=0, return_index=True)
        first, places = np.sort(first), places[np.argsort(first)]
        tree = scipy.spatial.cKDTree(places) if len(places) > _FEW else None
        for start in range(0, len(aps), _CHUNK):
            rows = slice(start, start + _CHUNK)
            points = np.column_stack((trace.x_m[rows], trace.y_m[rows]))
            aps[rows] = first[_nearest(places, points, tree)]
        return aps if trace.ap is None else np.where(_as_near(trace, trace.ap, aps), trace.ap, aps)


def _as_near(trace: Trace, one: IntColumn, other: IntColumn) -> npt.NDArray[np.bool_]:
    """For every fix, whether `one` access point is as near to it as the `other`."""
    near, far = (
        np.hypot(trace.x_m - trace.ap_x_m[aps], trace.y_m - trace.ap_y_m[aps]) for aps in (one, other)
    )
    return np.asarray(near <= far * (1.0 + _TIE))


@dataclass(frozen=True, eq=False)
class FixedAp(Association):
    """HierFAVG's static map: device of rank r belongs to AP floor(r * M / N), wherever it is."""

    @cached_property
    def assigned(self) -> IntColumn:
        """The AP of every device, present or not, shape (devices,)."""
        _require_aps(self.trace)
        return fixed_assignment(len(self.trace.device_names), len(self.trace.ap_names))

    @cached_property
    def aps(self) -> IntColumn:
        """The access point of each fix's device, shape (fixes,)."""
        return self.assigned[self.trace.device]


@dataclass(frozen=True, eq=False)
class RingWalkAp(Association):
    """MACFL's pseudo-mobility: APs form a ring by index, distances play no part in the choice.

    Step 0 is `FixedAp`; before every later step each device, present or not, moves with probability 0.5,
    to AP-1 or AP+1 with equal chance. Draws are keyed by (seed, step); device d takes the d-th of them.
    """

    seed: int

    @cached_property
    def aps(self) -> IntColumn:
        """The access point of every fix on the ring, shape (fixes,)."""
        trace = self.trace
        _require_aps(trace)
        ring = len(trace.ap_names)
        at = fixed_assignment(len(trace.device_names), ring)
        aps = np.empty(len(trace.step), np.int32)
        for step in range(trace.steps):
            if step:
                at = (at + ring_moves(self.seed, step, len(at))) % ring
            rows = trace.rows(step)
            aps[rows] = at[trace.device[rows]]
        return aps


@dataclass(frozen=True, eq=False)
class RecordedAp(Association):
    """The AP that the trace itself recorded for every fix (base-station records, an edge-hopping model)."""

    @property
    def aps(self) -> IntColumn:
        """The access point that the trace recorded, shape (fixes,); TraceError if it did not."""
        if self.trace.ap is None:
            raise TraceError("the trace records no access point of its fixes: take the nearest one")
        return self.trace.ap


#: The rules by name; the seed only matters to rules that draw.
ASSOCIATIONS: Final[Mapping[str, Callable[[Trace, int], Association]]] = {
    "nearest": lambda trace, seed: NearestAp(trace),
    "fixed": lambda trace, seed: FixedAp(trace),
    "ring_walk": RingWalkAp,
}


def fixed_assignment(devices: int, aps: int) -> IntColumn:
    """AP of every device rank: floor(r * aps / devices), shape (devices,)."""
    return (np.arange(devices, dtype=np.int64) * aps // max(1, devices)).astype(np.int32)


def distance_statistics(association: Association) -> tuple[float, float]:
    """(mean, standard deviation) of the distance to the AP over (present device, step) pairs, in metres.

    The delta_mean and delta_std of MOHAWK's Eq. 2 (population standard deviation). Raises TraceError for a
    trace in which no device is ever present.
    """
    distances = association.distances_m
    if not len(distances):
        raise TraceError("no device is ever present in this trace: there are no distances to average")
    return float(distances.mean()), float(distances.std())


def all_pair_statistics(trace: Trace) -> tuple[float, float]:
    """The same over all (fix, AP) pairs, for any AP that serves the device: one mapping for all systems.

    Costs fixes x APs operations in bounded memory. Raises TraceError where there are no pairs.
    """
    _require_aps(trace)
    if not len(trace.step):
        raise TraceError("no device is ever present in this trace: there are no distances to average")
    rows = max(1, _CHUNK // len(trace.ap_names))
    total = squares = 0.0
    for start in range(0, len(trace.step), rows):
        part = slice(start, start + rows)
        squared = (trace.x_m[part, None] - trace.ap_x_m) ** 2 + (trace.y_m[part, None] - trace.ap_y_m) ** 2
        total += float(np.sqrt(squared).sum())
        squares += float(squared.sum())
    pairs = len(trace.step) * len(trace.ap_names)
    mean = total / pairs
    return mean, math.sqrt(max(0.0, squares / pairs - mean * mean))


def _nearest(
    places: FloatColumn, points: FloatColumn, tree: scipy.spatial.cKDTree | None
) -> npt.NDArray[np.intp]:
    """Without a `tree` every point is compared with all places."""
    if tree is None:
        nearest, compared = np.zeros(len(points), np.intp), np.arange(len(points))
    else:
        # The tree visits its leaves in its own order, so which of two equals it names is luck: ask for two,
        # and compare with all places where they tie.
        distances, found = tree.query(points, k=2, workers=-1)
        nearest = found[:, 0]
        compared = np.flatnonzero(distances[:, 1] <= distances[:, 0] * (1 + _TIE))
    for start in range(0, len(compared), 4096):
        rows = compared[start : start + 4096]
        x_m, y_m = points[rows].T
        squared = (x_m[:, None] - places[:, 0]) ** 2 + (y_m[:, None] - places[:, 1]) ** 2
        nearest[rows] = np.argmax(squared <= squared.min(axis=1, keepdims=True) * (1 + 2 * _TIE), axis=1)
    return nearest


def ring_moves(seed: int, step: int, devices: int, p: float = 0.5) -> IntColumn:
    """Moves of each device along a ring of APs before `step`, shape (devices,): with chance `p` to a
    neighbour, -1 or +1 with equal chance, else 0. Keyed by (seed, step); device d takes the d-th draw."""
    draws = generator(seed, "ring walk", step=step).random(devices)
    return np.where(draws < p / 2.0, -1, np.where(draws < p, 1, 0)).astype(np.int32)


def _require_aps(trace: Trace) -> None:
    if not trace.ap_names:
        raise TraceError("the trace has no access points: draw some from its places (selection.with_aps)")


def hash_of_steps(steps: Iterable[tuple[Indices, Indices]]) -> str:
    """BLAKE2b-256, as 64 hex digits, of every step's (devices, their APs), devices ascending, in order."""
    digest = hashlib.blake2b(digest_size=32)
    for devices, aps in steps:
        digest.update(len(devices).to_bytes(8, "little"))
        for column in (devices, aps):
            digest.update(np.ascontiguousarray(column, "<i4").tobytes())
    return digest.hexdigest()


def assignment_hash(association: Association) -> str:
    """That of all steps of the trace, as its association places the devices."""
    trace = association.trace
    aps = association.aps
    slices = (trace.rows(step) for step in range(trace.steps))
    return hash_of_steps((trace.device[rows], aps[rows]) for rows in slices)
