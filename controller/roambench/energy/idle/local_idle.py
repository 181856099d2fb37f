"""Idle power around each window: a straight line through the quiet readings nearby."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import PhaseSpan
from roambench.energy.integrate import span_stamps
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.periods import nearby
from roambench.energy.rests import QUIET_PHASES, Window

#: Quiet readings within this many seconds of a window tell its idle power, those that are nearer more.
REACH_S: Final = 80.0
NEAR_S: Final = 8.0
#: A meter may average for so much longer than its type says before a reading of quiet time is not one, s.
MARGIN_S: Final = 0.25
#: How fast idle power may change around a window (k = 1), W/s: a board that cools by 0.1 W in a minute.
SLOPE_W_PER_S: Final = 0.002
#: Fewer quiet readings than this tell no scatter, and no idle power.
MIN_READINGS: Final = 8

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IdleReadings:
    """Readings of a board at rest, shape (readings,): arrivals in seconds after the timeline's start, watts.

    `sd_w` is their scatter about the idle power nearby, `alike` the correlation of two that are one period
    apart.
    """

    at_s: Floats
    watts: Floats
    sd_w: float
    alike: float
    period_s: float

    def variance_of(self, weights: Floats) -> float:
        """Variance of the sum of `weights` times the readings, shape (readings,), W²: the scatter is a
        first-order autoregression, so that readings near each other are wrong together."""
        # What a reading carries of those before it: of one, then of two, of four, until none is left.
        keep = np.exp(np.log(max(self.alike, 1e-9)) * np.diff(self.at_s, prepend=np.inf) / self.period_s)
        keep[:1] = 0.0
        carried, back = keep * np.append(0.0, weights[:-1]), 1
        while back < len(keep) and keep.max() > 1e-18:
            carried[back:] += keep[back:] * carried[:-back]
            keep[back:] *= keep[:-back].copy()
            keep[:back] = 0.0
            back *= 2
        return self.sd_w**2 * max(float(weights @ (weights + 2.0 * carried)), 0.0)


@dataclass(frozen=True, slots=True)
class IdleLines:
    """One line for each window: power at its middle and slope, shape (windows,).

    `weights`, one array for each window, say how much each of the readings from `first` on is in its mean
    idle power.
    """

    middle_s: Floats
    watts: Floats
    slope_w_per_s: Floats
    first: Indices
    weights: tuple[Floats, ...]

    def at(self, window: int, at_s: Floats) -> Floats:
        """Idle power of a window at some moments, W, same shape."""
        return np.asarray(self.watts[window] + self.slope_w_per_s[window] * (at_s - self.middle_s[window]))

    def mean_of(self, window: int, column: Floats) -> float:
        """Return what `column`, shape (readings,), adds to the mean idle power of a window if readings have
        it."""
        weights, first = self.weights[window], self.first[window]
        return float(weights @ column[first : first + len(weights)])


def quiet_readings(
    at_s: Floats, spans: Sequence[PhaseSpan], windows: Sequence[Window], window: MeterWindow
) -> npt.NDArray[np.bool_]:
    """Return which readings, by their arrival, saw quiet phases alone and no guard, shape (readings,)."""
    quiet = np.zeros(len(at_s), dtype=np.bool_)
    origin_ns = spans[0].start_ns if spans else 0
    starts, ends = (np.multiply(stamps - origin_ns, 1e-9) for stamps in span_stamps(spans))
    begin: float | None = None
    for span, start, end in zip(spans, starts.tolist(), ends.tolist(), strict=True):
        if span.phase not in QUIET_PHASES:
            begin = None
            continue
        begin = start if begin is None else begin
        first, last = np.searchsorted(
            at_s, [max(start, begin + window.support_s + MARGIN_S), end], side="right"
        )
        quiet[first:last] = True
    for measured in windows:
        first, last = np.searchsorted(at_s, [measured.start_s, measured.until_s], side="right")
        quiet[first:last] = False
    return quiet


def idle_readings(at_s: Floats, watts: Floats, period_s: float) -> IdleReadings | None:
    """Quiet readings with their scatter; None where there are too few."""
    if len(at_s) < MIN_READINGS:
        return None
    # About the mean of their neighbours within half a minute: slow drift is the lines' business.
    low, high = nearby(at_s, NEAR_S)
    sums = np.concatenate(([0.0], np.cumsum(watts)))
    count = high - low
    residual = watts - (sums[high] - sums[low]) / count
    freedom = max(1.0, float(np.sum(1.0 - 1.0 / count)))
    sd_w = float(np.sqrt(np.square(residual).sum() / freedom))
    pairs = np.flatnonzero(np.diff(at_s) < 1.5 * period_s)
    alike = 0.0
    if len(pairs) >= MIN_READINGS and sd_w > 0.0:
        alike = float(residual[pairs] @ residual[pairs + 1] / len(pairs) / sd_w**2)
    return IdleReadings(at_s, watts, sd_w, min(max(alike, 0.0), 0.95), period_s)


def idle_lines(quiet: IdleReadings, windows: Sequence[Window]) -> IdleLines:
    """The line of each window, by weighted least squares with a weak belief that idle power is steady."""
    count = len(windows)
    middle_s, watts, slopes = np.zeros(count), np.zeros(count), np.zeros(count)
    first = np.zeros(count, dtype=np.int64)
    weights: list[Floats] = []
    steady = (max(quiet.sd_w, 1e-4) / SLOPE_W_PER_S) ** 2
    for j, window in enumerate(windows):
        nearest_s = _nearest_s(quiet.at_s, window)
        reach_s = max(REACH_S, 2.0 * nearest_s)
        low, high = np.searchsorted(quiet.at_s, [window.start_s - reach_s, window.until_s + reach_s])
        at_s, seen_w = quiet.at_s[low:high], quiet.watts[low:high]
        away_s = np.maximum(np.maximum(window.start_s - at_s, at_s - window.until_s), 0.0)
        weight = np.exp(-(away_s - nearest_s) / NEAR_S)
        middle_s[j] = 0.5 * (window.start_s + window.until_s)
        x = at_s - middle_s[j]
        a, b, c = weight.sum(), weight @ x, weight @ (x * x) + steady
        determinant = a * c - b * b
        level = (c - b * x) * weight / determinant
        slope = (a * x - b) * weight / determinant
        watts[j], slopes[j] = level @ seen_w, slope @ seen_w
        first[j] = low
        weights.append(level)
    return IdleLines(middle_s, watts, slopes, first, tuple(weights))


def _nearest_s(at_s: Floats, window: Window) -> float:
    """Seconds from a window to the quiet reading next to it."""
    after = int(np.searchsorted(at_s, window.until_s, side="right"))
    before = int(np.searchsorted(at_s, window.start_s, side="right")) - 1
    away = [at_s[after] - window.until_s] if after < len(at_s) else []
    if before >= 0:
        away.append(window.start_s - at_s[before])
    return max(0.0, float(min(away, default=0.0)))
