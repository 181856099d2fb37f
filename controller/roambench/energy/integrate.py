"""Whole-run energy: the trapezoid on real timestamps, gaps left unmeasured (rules R1, R3, R4, R5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import PhaseSpan
from roambench.energy.energy_value import Energy
from roambench.energy.readings.occupancy import SP2_STEP_W, SP2_WINDOW
from roambench.energy.readings.periods import steps_of
from roambench.energy.readings.samples import PowerSamples, Stamps, Watts, without_bursts

#: A Smart Power 2 value is the mean of a 264 ms window that ended 0..264 ms before the line was printed.
SP2_DELAY_S: Final = 0.26
#: Longer than this many nominal periods without a sample is a gap (R4).
GAP_PERIODS: Final = 2.5
#: Before the first and after the last sample half of that is bridged by holding its value.
EDGE_PERIODS: Final = GAP_PERIODS / 2.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Power over [start_ns, end_ns]: straight lines between knots, known only on covered segments.

    `at_s` (knots, seconds after `start_ns`, ascending) and `watts` have shape (knots,), `covered` shape
    (knots - 1,). There are no knots when nothing was measured.
    """

    start_ns: int
    end_ns: int
    at_s: Floats
    watts: Floats
    covered: npt.NDArray[np.bool_]
    _joules: Floats  # cumulative at the knots
    _seconds: Floats  # cumulative covered time at the knots
    _variance: Floats  # cumulative sampling variance, J^2
    _rounding_j: float = 0.0  # what the meter's steps leave, the same however long a power stays

    @property
    def duration_s(self) -> float:
        """Length of the whole interval, gaps included, s."""
        return (self.end_ns - self.start_ns) * 1e-9

    def energy(self) -> Energy:
        """Energy of the whole interval with its sampling uncertainty."""
        if not len(self.at_s):
            return Energy(gap_s=self.duration_s)
        seen_s = float(self._seconds[-1])
        return Energy(
            float(self._joules[-1]),
            float(np.hypot(np.sqrt(self._variance[-1]), self._rounding_j)),
            seen_s,
            max(0.0, self.duration_s - seen_s),
        )

    @property
    def step_across_w(self) -> float:
        """Power at the end minus power at the start: what a shift of the clock by 1 s would change, W."""
        return float(self.watts[-1] - self.watts[0]) if len(self.watts) else 0.0

    def covered_intervals(self) -> list[tuple[int, int]]:
        """The measured stretches as (start_ns, end_ns), ascending: integrate a truth over just these."""
        if not self.covered.any():
            return []
        edges = np.diff(np.concatenate(([False], self.covered, [False])).astype(np.int8))
        knots_ns = self.start_ns + np.rint(self.at_s * 1e9).astype(np.int64)
        starts = knots_ns[np.flatnonzero(edges == 1)]
        ends = knots_ns[np.flatnonzero(edges == -1)]
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def joules_between(self, from_ns: Stamps, to_ns: Stamps) -> Floats:
        """Trapezoid energy of many intervals, shape (intervals,); joules over gaps are not there."""
        return self._joules_until(to_ns) - self._joules_until(from_ns)

    def u_between(self, from_ns: Stamps, to_ns: Stamps) -> Floats:
        """Sampling uncertainty (k = 1) of the trapezoid energy of many intervals, shape (intervals,)."""
        if not len(self.at_s):
            return np.zeros(len(from_ns))
        until = [np.interp((t - self.start_ns) * 1e-9, self.at_s, self._variance) for t in (from_ns, to_ns)]
        return np.asarray(np.sqrt(np.maximum(until[1] - until[0], 0.0)), dtype=np.float64)

    def covered_between(self, from_ns: Stamps, to_ns: Stamps) -> Floats:
        """Measured seconds of many intervals, shape (intervals,)."""
        if not len(self.at_s):
            return np.zeros(len(from_ns))
        until = [np.interp((t - self.start_ns) * 1e-9, self.at_s, self._seconds) for t in (from_ns, to_ns)]
        return np.asarray(until[1] - until[0], dtype=np.float64)

    def _joules_until(self, stamps: Stamps) -> Floats:
        if not len(self.at_s):
            return np.zeros(len(stamps))
        t = np.clip((stamps - self.start_ns) * 1e-9, self.at_s[0], self.at_s[-1])
        left = np.clip(np.searchsorted(self.at_s, t, "right") - 1, 0, len(self.at_s) - 2)
        along = t - self.at_s[left]
        slope = np.diff(self.watts) / np.diff(self.at_s)
        partial = along * (self.watts[left] + 0.5 * slope[left] * along)
        return np.asarray(self._joules[left] + np.where(self.covered[left], partial, 0.0))


def power_curve(
    samples: PowerSamples,
    start_ns: int,
    end_ns: int,
    nominal_s: float = 1.0,
    delay_s: float = SP2_DELAY_S,
    window_s: float = SP2_WINDOW.window_s,
    step_w: float = SP2_STEP_W,
) -> PowerCurve:
    """The power curve of raw arrivals: bursts repaired, stamps moved back by `delay_s`, gaps marked.

    `delay_s` is the mean age of a value's middle, `window_s` how long it looked, `step_w` what it is
    rounded to.

    Pass the samples around the interval too: the last second needs a line that arrives after its end.
    """
    repaired = without_bursts(samples, nominal_s).samples
    length_s = (end_ns - start_ns) * 1e-9
    at = np.asarray((repaired.ns - start_ns) * 1e-9 - delay_s, dtype=np.float64)
    watts = repaired.watts
    if not len(at) or length_s <= 0.0:
        return _curve(start_ns, end_ns, np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_), np.empty(0))
    noise_w2 = _noise_variance(watts)
    passed_s = np.diff(at)
    covered = passed_s <= GAP_PERIODS * nominal_s
    stretch = steps_of(at, float(np.median(passed_s)) if len(at) > 1 else nominal_s, GAP_PERIODS * nominal_s)
    stretch = np.divide(stretch, passed_s, out=np.ones_like(passed_s), where=passed_s > 0.0)
    # The edges: hold the nearest value where it is near enough, or mark the edge as a gap.
    if at[0] > 0.0:
        covered = np.concatenate(([at[0] <= EDGE_PERIODS * nominal_s], covered))
        at, watts = np.concatenate(([0.0], at)), np.concatenate((watts[:1], watts))
        stretch = np.concatenate(([1.0], stretch))
    if at[-1] < length_s:
        covered = np.concatenate((covered, [length_s - at[-1] <= EDGE_PERIODS * nominal_s]))
        at, watts = np.concatenate((at, [length_s])), np.concatenate((watts, watts[-1:]))
        stretch = np.concatenate((stretch, [1.0]))
    # Cut at both ends; each end is now inside a segment (or on a knot).
    if len(at) < 2 or at[0] >= length_s or at[-1] <= 0.0:
        return _curve(start_ns, end_ns, np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_), np.empty(0))
    first = int(np.searchsorted(at, 0.0, "right")) - 1
    last = int(np.searchsorted(at, length_s, "left"))
    ends = np.interp([0.0, length_s], at, watts)
    at = np.concatenate(([0.0], at[first + 1 : last], [length_s]))
    watts = np.concatenate((ends[:1], watts[first + 1 : last], ends[1:]))
    measured_s = np.diff(at) * stretch[first:last]
    latch_s = max(0.0, 2.0 * delay_s - window_s)
    traits = (noise_w2, step_w, window_s, latch_s)
    return _curve(start_ns, end_ns, at, watts, covered[first:last], measured_s, *traits)


def trapezoid_by_span(curve: PowerCurve, spans: Sequence[PhaseSpan]) -> Floats:
    """The naive energy of each span, shape (spans,): biased for short ones, shown only beside the fit."""
    starts, ends = span_stamps(spans)
    return curve.joules_between(starts, ends)


def covered_by_span(curve: PowerCurve, spans: Sequence[PhaseSpan]) -> Floats:
    """Measured seconds of each span, shape (spans,)."""
    starts, ends = span_stamps(spans)
    return curve.covered_between(starts, ends)


def span_stamps(spans: Sequence[PhaseSpan]) -> tuple[Stamps, Stamps]:
    """Starts and ends as columns, shape (spans,) each."""
    starts = np.fromiter((span.start_ns for span in spans), dtype=np.int64, count=len(spans))
    ends = np.fromiter((span.end_ns for span in spans), dtype=np.int64, count=len(spans))
    return starts, ends


def _noise_variance(watts: Watts) -> float:
    """Variance of one sample in steady power, from the median step (which the edges do not move)."""
    if len(watts) < 3:
        return 0.0
    return float(np.median(np.abs(np.diff(watts))) / (0.6745 * np.sqrt(2.0))) ** 2


def _curve(
    start_ns: int,
    end_ns: int,
    at: Floats,
    watts: Floats,
    covered: npt.NDArray[np.bool_],
    measured_s: Floats,
    noise_w2: float = 0.0,
    step_w: float = 0.0,
    window_s: float = 0.0,
    latch_s: float = 0.0,
) -> PowerCurve:
    def cumulative(values: Floats) -> Floats:
        return np.concatenate(([0.0], np.cumsum(np.where(covered, values, 0.0))))

    if not len(at):
        empty = np.empty(0)
        return PowerCurve(start_ns, end_ns, at, watts, covered, empty, empty, empty)
    dt = np.diff(at)
    step = np.diff(watts)
    # A step of dP somewhere inside dt that the meter does not look at for u of it puts the trapezoid wrong by
    # at most dP u / 2 either way: a rectangular error, dP^2 u^2 / 12, and so does a window of unknown age.
    # Steps within a window show as two smaller ones. Lines that arrive early or late move steps by half of it
    # each. A sample's own noise stands for the part that the meter does not look at, three quarters of a
    # second for a Smart Power 2, nothing where windows lie end to end; the meter's is about a step.
    unseen_s = np.maximum(0.0, dt - window_s)
    usual_s = float(np.median(dt))
    jitter_s = float(np.median(np.abs(dt - usual_s))) / 0.6745
    split = 1.0 - min(1.0, window_s / max(usual_s, 1e-9)) / 3.0
    within = (np.square(unseen_s) + latch_s**2) / (12.0 * split) + jitter_s**2 / 4.0
    variance = np.square(step) * within + dt * (noise_w2 * unseen_s + min(noise_w2, step_w**2) * dt)
    return PowerCurve(
        start_ns,
        end_ns,
        at,
        watts,
        covered,
        cumulative(0.5 * measured_s * (watts[:-1] + watts[1:])),
        cumulative(dt),
        cumulative(variance),
        _rounding_j(watts[:-1], np.where(covered, dt, 0.0), step_w),
    )


def _rounding_j(watts: Watts, seconds: Floats, step_w: float) -> float:
    """Uncertainty left by rounding to `step_w`, J: the same error for as long as the meter shows the same
    value."""
    at_value_s = np.bincount(np.searchsorted(np.unique(watts), watts), seconds)
    return float(step_w / np.sqrt(12.0) * np.sqrt(np.square(at_value_s).sum()))
