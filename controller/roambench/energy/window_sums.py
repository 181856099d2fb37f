"""The net energy of each window as a plain sum, and how far such sums scatter.

    E = sum over the readings that arrived in (start, end + guard] of seconds_k * (watts_k - idle(t_k))

`seconds_k` is the time that a line stands for (`cells_of`). Nothing is assumed of the power's shape. What a
meter misses between its lines is another part of it every time, since starts are spread over its period
(`rounds.dither_s`): the scatter of the sums is their uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.energy.idle.local_idle import IdleLines, IdleReadings
from roambench.energy.readings.periods import Floats, Indices, steps_of
from roambench.energy.rests import Window

#: Clocks of phases and lines may differ by so much: a line that old was not printed before its phase, s.
BEFORE_S: Final = 0.1
#: The expectation of the scatter counts as this many sums.
PRIOR_FREEDOM: Final = 4.0
#: Windows that lie end to end leave no sampling error but that of their clock's jitter; as a share of
#: (power x period)^2.
LEAST_SHARE: Final = 0.0002
#: Sums that are needed to tell what does not grow with their duration.
_MIN_FOR_OFFSET: Final = 8


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Shape (windows,) each. `window_of` tells each reading's window, -1 for none."""

    joules: Floats  # net
    noise_j2: Floats  # what the readings' own noise adds to the variance of `joules`
    last_quarter_j: Floats  # what arrived in the last quarter of the guard
    window_of: Indices


def window_sums(
    at_s: Floats,
    watts: Floats,
    cells_s: Floats,
    windows: Sequence[Window],
    lines: IdleLines,
    quiet: IdleReadings,
    period_s: float,
    before_s: float,
    delay_s: float,
) -> WindowSums:
    """Sum each window. `cells_s` are the seconds that each reading stands for; readings that arrived up to
    `before_s` before a start belong to the window, too: clocks differ, and the board rested. A reading shows
    the power of `delay_s` before: where the guard is cut, those of the phase come after it."""
    count = len(windows)
    joules, noise_j2, last_quarter_j = (np.zeros(count) for _ in range(3))
    window_of = np.full(len(at_s), -1, dtype=np.int64)
    taken_s = -math.inf
    for j, window in enumerate(windows):
        begin_s = max(window.start_s - before_s, taken_s)
        until_s = max(window.until_s, window.end_s + delay_s) if window.cut else window.until_s
        first, last = np.searchsorted(at_s, [begin_s, until_s], side="right").tolist()
        taken_s = until_s
        inside = slice(first, last)
        above_w = watts[inside] - lines.at(j, at_s[inside])
        cells = cells_s[inside]
        joules[j] = cells @ above_w
        middle = (at_s[inside] > window.start_s + period_s) & (at_s[inside] <= window.end_s)
        guard_s = window.until_s - window.end_s
        quarter = at_s[inside] > window.until_s - 0.25 * guard_s
        last_quarter_j[j] = 0.0 if window.cut else cells[quarter] @ above_w[quarter]
        noise_j2[j] = quiet.sd_w**2 * float(cells @ cells) + _unseen_j2(above_w[middle], cells[middle])
        window_of[inside] = j
    return WindowSums(joules, noise_j2, last_quarter_j, window_of)


def cells_of(at_s: Floats, period_s: float, longest_s: float) -> Floats:
    """Seconds that each reading stands for, shape (readings,): half of those to either neighbour, none across
    a gap longer than `longest_s`."""
    half = 0.5 * np.where(np.diff(at_s) <= longest_s, steps_of(at_s, period_s, longest_s), 0.0)
    return np.append(half, 0.0) + np.append(0.0, half) if len(at_s) else np.zeros(0)


def gaps_in(
    at_s: Floats, windows: Sequence[Window], longest_s: float, delay_s: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Seconds of each window's phases that gaps longer than `longest_s` hide, and which windows have no gap,
    shape (windows,) each. A line shows the power of `delay_s` before."""
    starts_s, ends_s, untils_s = np.array([(w.start_s, w.end_s, w.until_s) for w in windows]).T
    knots_s = np.concatenate(([min(at_s[0], starts_s[0])], at_s, [max(at_s[-1], untils_s[-1])]))
    steps_s = np.diff(knots_s)
    dark_s = np.concatenate(([0.0], np.cumsum(np.where(steps_s > longest_s, steps_s, 0.0))))
    hidden_s = [
        np.interp(until_s, knots_s, dark_s) - np.interp(from_s, knots_s, dark_s)
        for from_s, until_s in ((starts_s + delay_s, ends_s + delay_s), (starts_s, untils_s))
    ]
    return hidden_s[0], hidden_s[1] <= 0.0


def scatter(
    sums_j: Floats,
    durations_s: Floats,
    noise_j2: Floats,
    period_s: float,
    window_s: float,
    whole: npt.NDArray[np.bool_] | slice = slice(None),
) -> tuple[Floats, float]:
    """Standard uncertainty of each sum of one phase, J, shape (sums,), and by how much their scatter exceeds
    what a meter's sampling explains (1: not at all).

    The sums' scatter about a straight line over their durations says how far what is expected
    (`sampling_j2`) holds. `durations_s` is what was seen; only the sums that are `whole` lie about the line:
    those with a gap miss part of the power's shape.
    """
    total_s = float(durations_s.sum())
    power_w = abs(float(sums_j.sum())) / total_s if total_s > 0.0 else 0.0
    expected_j2 = sampling_j2(power_w, durations_s, period_s, window_s) + noise_j2 + 1e-12
    long_s = durations_s[whole]
    columns = [long_s]
    if len(long_s) >= _MIN_FOR_OFFSET and np.ptp(long_s) > 0.05 * long_s.mean():
        columns.append(np.ones(len(long_s)))
    freedom, chi2 = max(0, len(long_s) - len(columns)), 0.0
    if len(long_s):
        design = np.column_stack(columns) / np.sqrt(expected_j2[whole])[:, None]
        scaled = sums_j[whole] / np.sqrt(expected_j2[whole])
        fitted, *_ = np.linalg.lstsq(design, scaled, rcond=None)
        chi2 = float(np.square(scaled - design @ fitted).sum())
    excess = (PRIOR_FREEDOM + chi2) / (PRIOR_FREEDOM + freedom)
    # Two of these u hold what two of a normal distribution do.
    student = float(scipy.special.stdtrit(PRIOR_FREEDOM + freedom, 0.97725)) / 2.0
    return np.sqrt(expected_j2 * excess) * student, excess


def sampling_j2(power_w: float, durations_s: Floats, period_s: float, window_s: float) -> Floats:
    """Variance of a sum over a phase of steady power that a meter sees every `period_s` for `window_s`, J^2.

    Lines are samples of a rectangle that the meter's window has smoothed. What they make of it varies with
    its place between them by the rectangle's power at the multiples of the lines' frequency: in the mean over
    durations P^2 period^2 / pi^2 * sum over k of sinc^2(k window / period) / k^2, which is P^2 period^2 / 6
    for a meter that only looks for an instant.
    """
    k = np.arange(1, 65)[:, None]
    smooth = np.square(np.sinc(k * window_s / period_s)) / np.square(np.pi * k)
    # A phase of less than half a period has the power that its duration leaves it, longer ones the mean.
    known = 2.0 * np.square(np.sin(np.pi * k * durations_s / period_s))
    share = (smooth * np.where(durations_s < 0.5 * period_s, known, 1.0)).sum(axis=0)
    return np.asarray(np.square(power_w * period_s) * np.maximum(share, LEAST_SHARE))


def u_idle_j(
    chosen: Sequence[int], windows: Sequence[Window], lines: IdleLines, quiet: IdleReadings, step_w: float
) -> float:
    """Standard uncertainty that the idle power leaves in the sum over the `chosen` windows, J."""
    weights = np.zeros(len(quiet.at_s))
    seconds = 0.0
    for j in chosen:
        length_s = windows[j].until_s - windows[j].start_s
        weights[lines.first[j] : lines.first[j] + len(lines.weights[j])] += length_s * lines.weights[j]
        seconds += length_s
    # Noise of less than half a step does not average the rounding away.
    rounding_w = step_w / math.sqrt(12.0) if quiet.sd_w < 0.5 * step_w else 0.0
    return math.hypot(math.sqrt(quiet.variance_of(weights)), rounding_w * seconds)


def _unseen_j2(above_w: Floats, cells_s: Floats) -> float:
    """Return what scatter from line to line within a phase adds: half the mean square of the differences
    between neighbours, for each of its lines."""
    if len(above_w) < 3:
        return 0.0
    return 0.5 * float(np.mean(np.square(np.diff(above_w)))) * float(cells_s @ cells_s)
