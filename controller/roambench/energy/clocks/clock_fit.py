"""Two hosts' clocks from four-stamp probes: offset, drift, and a bound at any time (rule R2). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

#: A burst of probes holds at least this many; the one with the shortest round trip counts.
MIN_PROBES: Final = 8
#: A worse bound than this is flagged: it is half of a 5 % error on a transfer of some seconds.
FLAG_BOUND_NS: Final = 100_000_000
#: A worse bound than this is refused (the limit that MLPerf Power sets as well).
REFUSE_BOUND_NS: Final = 400_000_000
#: No clock of a board is further from its controller's than ten years: both count from a boot.
MOST_OFFSET_NS: Final = 10 * 366 * 86_400 * 10**9
#: What a crystal may drift where nothing was measured: before the first, after the last, or from one burst.
UNKNOWN_DRIFT: Final = 100e-6


class ClockVerdict(StrEnum):
    """A verdict: phases stamped by one host may be laid over readings stamped by another."""

    GOOD = "good"
    FLAGGED = "flagged"  # known worse than 100 ms, or from too few probes
    REFUSED = "refused"  # known worse than 400 ms, or not at all


@dataclass(frozen=True, slots=True)
class ClockExchange:
    """One exchange: the asker stamps `t0_ns` and `t3_ns`, the answerer `t1_ns` and `t2_ns` in between."""

    t0_ns: int
    t1_ns: int
    t2_ns: int
    t3_ns: int

    @property
    def offset_ns(self) -> float:
        """Answerer's clock minus asker's, if both ways took equally long."""
        return 0.5 * ((self.t1_ns - self.t0_ns) + (self.t2_ns - self.t3_ns))

    @property
    def round_trip_ns(self) -> int:
        """Time on the wire; the offset is wrong by half of it at most."""
        return (self.t3_ns - self.t0_ns) - (self.t2_ns - self.t1_ns)


@dataclass(frozen=True, slots=True)
class ClockBurst:
    """Result of one burst of probes: at `at_ns` (asker's clock) the answerer's clock was ahead of the asker's
    by `offset_ns`, wrong by `bound_ns` at most; `probes` is how many were exchanged."""

    at_ns: int
    offset_ns: float
    bound_ns: float
    probes: int

    @classmethod
    def of(cls, probes: Sequence[ClockExchange]) -> ClockBurst:
        """The probe with the shortest round trip; ValueError without a possible one (round trip < 0)."""
        possible = [probe for probe in probes if probe.round_trip_ns >= 0]
        if not possible:
            raise ValueError(f"{len(probes)} clock probes, none of them possible")
        best = min(possible, key=lambda probe: probe.round_trip_ns)
        middle_ns = best.t0_ns + (best.t3_ns - best.t0_ns) // 2
        return cls(middle_ns, best.offset_ns, 0.5 * best.round_trip_ns, len(probes))


@dataclass(frozen=True, slots=True)
class ClockFit:
    """Offset of one clock to the asker's over a run: a straight line through its bursts.

    `drift` is seconds per second, `residual_ns` the largest distance of a burst from the line. Without a
    burst nothing is known: offset 0, bound infinite, refused.
    """

    bursts: tuple[ClockBurst, ...]
    offset_ns: float  # at the first burst
    drift: float
    residual_ns: float

    @classmethod
    def of(cls, bursts: Iterable[ClockBurst]) -> ClockFit:
        """Least squares weighted by the bounds; a single burst (or all at one time) shows no drift."""
        ordered = tuple(sorted(bursts, key=lambda burst: burst.at_ns))
        if not ordered:
            return cls((), 0.0, 0.0, 0.0)
        bare = cls(ordered, 0.0, 0.0, 0.0)
        found = np.array([burst.offset_ns for burst in ordered])
        first, second = bare._weights(np.array([0.0, 1e9])) @ found
        fit = cls(ordered, float(first), float(second - first) * 1e-9, 0.0)
        residual = max(abs(burst.offset_ns - fit.offset_ns_at(burst.at_ns)) for burst in ordered)
        return cls(ordered, fit.offset_ns, fit.drift, residual)

    def offset_ns_at(self, ns: int) -> float:
        """Answerer's clock minus asker's at `ns` of the asker's."""
        return float(self.offsets_ns_at(np.array([ns]))[0])

    def offsets_ns_at(self, ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The same for many stamps, same shape."""
        since = self._since_ns(ns)
        return np.asarray(self.offset_ns + self.drift * since)

    def bound_ns_at(self, ns: int) -> float:
        """Return how wrong `offset_ns_at` can be: the bursts' bounds as the line combines them, its residual,
        and 100 ppm of unwatched drift since the nearest burst outside of which `ns` lies.
        """
        if not self.bursts:
            return math.inf
        weights = self._weights(self._since_ns(np.array([ns])))[0]
        bounds = np.array([burst.bound_ns for burst in self.bursts])
        outside = max(0, self.bursts[0].at_ns - ns, ns - self.bursts[-1].at_ns)
        return float(np.abs(weights) @ bounds) + self.residual_ns + UNKNOWN_DRIFT * outside

    def worst_bound_ns(self, from_ns: int, to_ns: int) -> float:
        """The largest bound within a run, at one of its ends: the bound is convex."""
        return max(self.bound_ns_at(from_ns), self.bound_ns_at(to_ns))

    def verdict_over(self, from_ns: int, to_ns: int) -> ClockVerdict:
        """`verdict` for the whole of a run."""
        return self._judged(self.worst_bound_ns(from_ns, to_ns))

    @property
    def verdict(self) -> ClockVerdict:
        """By the largest bound from the first burst to the last."""
        if not self.bursts:
            return ClockVerdict.REFUSED
        return self.verdict_over(self.bursts[0].at_ns, self.bursts[-1].at_ns)

    def _judged(self, bound_ns: float) -> ClockVerdict:
        if bound_ns > REFUSE_BOUND_NS:
            return ClockVerdict.REFUSED
        if bound_ns > FLAG_BOUND_NS or any(burst.probes < MIN_PROBES for burst in self.bursts):
            return ClockVerdict.FLAGGED
        return ClockVerdict.GOOD

    def _since_ns(self, ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
        first_ns = self.bursts[0].at_ns if self.bursts else 0
        return np.asarray(np.asarray(ns, dtype=np.int64) - first_ns, dtype=np.float64)

    def _weights(self, since_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Weight of each burst's offset in the line's value: shape (stamps, bursts)."""
        at = self._since_ns(np.array([burst.at_ns for burst in self.bursts]))
        # A bound of nothing would shut the others out: no stamp is better than a microsecond.
        weight = np.array([1.0 / max(burst.bound_ns, 1e3) ** 2 for burst in self.bursts])
        weight /= weight.sum()
        centre = float(weight @ at)
        spread = float(weight @ np.square(at - centre))
        level = np.broadcast_to(weight, (len(since_ns), len(weight)))
        if spread < 1e9**2 * 1e-6:  # all within a millisecond: no drift to be seen
            return np.asarray(level)
        return np.asarray(level + np.outer(since_ns - centre, weight * (at - centre) / spread))


def moved(ns: npt.ArrayLike, reader: ClockFit, board: ClockFit) -> npt.NDArray[np.int64]:
    """Stamps of the reader's clock in the board's; both fits were asked by the board's controller.

    A fit's offset is the host's clock minus the asker's, so a stamp loses the reader's and gains the
    board's. Over the offset's own size the drift matters little: 100 ppm of 1 s is 0.1 ms.
    """
    there = asked(ns, reader)
    return there + np.rint(board.offsets_ns_at(there)).astype(np.int64)


def asked(ns: npt.ArrayLike, host: ClockFit) -> npt.NDArray[np.int64]:
    """Stamps of the host's clock in the asker's."""
    stamps = np.asarray(ns, dtype=np.int64)
    return stamps - np.rint(host.offsets_ns_at(stamps - _whole(host))).astype(np.int64)


def _whole(fit: ClockFit) -> int:
    """The fit's offset near the run: monotonic clocks of two hosts are apart by hours, offsets are large."""
    return round(fit.offset_ns)
