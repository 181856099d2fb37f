"""Power samples of one device as columns, and the repair of arrivals that came in bursts (rules R5, R6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.contract.records import Reading, ReadingFlag

Stamps = npt.NDArray[np.int64]
Watts = npt.NDArray[np.float64]

#: Arrivals closer than this share of the nominal period belong to one burst.
BURST_SHARE: Final = 0.2
#: Never counted as watts: an inconsistent line may hold anything, an output that is off is silence, not 0 W,
#: a meter at the end of its range says too little.
UNUSABLE: Final = ReadingFlag.INCONSISTENT | ReadingFlag.OFF | ReadingFlag.SATURATED


@dataclass(frozen=True, slots=True)
class PowerSamples:
    """Arrival stamps (device time, ascending, int64) and power of one meter: shape (samples,) each."""

    ns: Stamps
    watts: Watts

    def __post_init__(self) -> None:
        if self.ns.shape != self.watts.shape or self.ns.ndim != 1:
            raise TraceError(f"samples: {self.ns.shape} stamps but {self.watts.shape} watts")

    @classmethod
    def of(cls, ns: npt.ArrayLike, watts: npt.ArrayLike) -> PowerSamples:
        """Columns in any order, as stored: sorted by stamp, equal stamps and non-finite watts dropped."""
        stamps = np.asarray(ns, dtype=np.int64)
        power = np.asarray(watts, dtype=np.float64)
        if stamps.shape != power.shape:
            raise TraceError(f"samples: {stamps.shape} stamps but {power.shape} watts")
        finite = np.isfinite(power)
        if finite.all() and (stamps[1:] > stamps[:-1]).all():
            return cls(stamps, power)
        unique, first = np.unique(stamps[finite], return_index=True)
        return cls(unique, power[finite][first])

    @classmethod
    def from_readings(cls, readings: Iterable[Reading]) -> PowerSamples:
        """The usable ones of a meter's readings (neither inconsistent nor from a meter whose output is
        off)."""
        usable = [reading for reading in readings if not reading.flags & UNUSABLE]
        return cls.of([r.monotonic_ns for r in usable], [r.watts for r in usable])

    def __len__(self) -> int:
        return len(self.ns)


@dataclass(frozen=True, slots=True)
class RepairedSamples:
    """Samples without bursts; `respaced` were moved to where they were due, `dropped` were repeats."""

    samples: PowerSamples
    respaced: int
    dropped: int


def without_bursts(samples: PowerSamples, nominal_s: float = 1.0) -> RepairedSamples:
    """Undo catch-up bursts (R5); two different things make them, distinguished by the values.

    The host stalled: the meter printed on time and the lines waited in a buffer. They differ from each
    other and, where their number matches the seconds that passed, each goes back to where it was due; where
    it does not, they were late for another reason and stay.
    The meter stalled (a web page, a flash write): its timer fires for every missed second at once and
    all lines hold the one present value. Only the last is kept; the time before stays unmeasured.
    """
    ns, watts = samples.ns, samples.watts
    period_ns = nominal_s * 1e9
    close = np.diff(ns) < BURST_SHARE * period_ns
    if not close.any():
        return RepairedSamples(samples, 0, 0)
    edges = np.diff(np.concatenate(([False], close, [False])).astype(np.int8))
    firsts, lasts = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    stamps = ns.copy()
    keep = np.ones(len(ns), dtype=np.bool_)
    respaced = 0
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        count = last - first + 1
        changes = int(np.count_nonzero(np.diff(watts[first : last + 1])))
        if 2 * changes < count - 1:
            keep[first:last] = False
        elif (due := _due_stamps(ns, first, last, period_ns)) is not None:
            stamps[first : last + 1] = due
            respaced += count
    return RepairedSamples(
        PowerSamples(stamps[keep], watts[keep]), respaced, int(len(ns) - np.count_nonzero(keep))
    )


def _due_stamps(ns: Stamps, first: int, last: int, period_ns: float) -> Stamps | None:
    """Return when the lines of the burst `first`..`last` were due, or None if their number does not fit."""
    if first == 0:
        return None
    count = last - first + 1
    before = int(ns[first - 1])
    # The newest line of a burst is less than one period old.
    elapsed = (int(ns[last]) - before) / period_ns
    if not -BURST_SHARE < elapsed - count < 1.0:
        return None
    step_ns = period_ns
    if last + 1 < len(ns):
        after = (int(ns[last + 1]) - before) / (count + 1)
        if abs(after - period_ns) < BURST_SHARE * period_ns:
            step_ns = after
    due = before + np.rint(step_ns * np.arange(1, count + 1)).astype(np.int64)
    # Never later than it arrived.
    return np.asarray(np.minimum(due, ns[first : last + 1]), dtype=np.int64)
