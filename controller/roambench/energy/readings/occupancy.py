"""The phase that each reading looked at: a meter's averaging window, blurred by its unknown age, over
spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.meters.traits import TRAITS

Floats = npt.NDArray[np.float64]
Columns = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MeterWindow:
    """A value printed at t is the mean over [t - age - window_s, t - age], age uniform in [0, latch_s].

    The expected weight of the past is then two boxcars convolved: a trapezoid (a triangle when they are
    equal) that ends at t and is `support_s` long.
    """

    window_s: float
    latch_s: float

    @property
    def support_s(self) -> float:
        """Length of the past that a printed value can depend on, s."""
        return self.window_s + self.latch_s

    def weight_within(self, delay_s: Floats) -> Floats:
        """Share of the weight on the last `delay_s` seconds before the reading, 0..1, same shape."""
        w, a = self.window_s, self.latch_s
        if a == 0.0:
            return np.clip(delay_s / w, 0.0, 1.0)
        if w == 0.0:
            return np.clip(delay_s / a, 0.0, 1.0)
        u = np.clip(delay_s, 0.0, self.support_s)
        area = (
            u * u
            - np.square(np.maximum(u - w, 0.0))
            - np.square(np.maximum(u - a, 0.0))
            + np.square(np.maximum(u - w - a, 0.0))
        )
        return np.asarray(area / (2.0 * w * a))


_SP2: Final = TRAITS.load("smartpower2")
SP2_WINDOW: Final = MeterWindow(_SP2.window_s, _SP2.latch_s)
#: What its watts are rounded to.
SP2_STEP_W: Final = _SP2.step_w


def level_occupancy(
    at_s: Floats, starts_s: Floats, ends_s: Floats, window: MeterWindow, level: Columns, levels: int
) -> Floats:
    """Share of each reading's window spent in the spans of each level: dense, shape (readings, levels).

    Spans are sorted and do not overlap. A row sums to 1 where the spans cover the whole window.
    """
    rows, columns, _ = _touched(at_s, starts_s, ends_s, window)
    share = _shares(at_s, starts_s, ends_s, window, rows, columns)
    summed = np.bincount(rows * levels + level[columns], share, len(at_s) * levels)
    return np.asarray(summed.reshape(len(at_s), levels))


def _touched(
    at_s: Floats, starts_s: Floats, ends_s: Floats, window: MeterWindow
) -> tuple[Columns, Columns, Columns]:
    """Pairs of a reading and a span that its window may touch, and where each reading's pairs begin."""
    low = np.searchsorted(ends_s, at_s - window.support_s, "right")
    high = np.searchsorted(starts_s, at_s, "left")
    counts = np.maximum(high - low, 0)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    rows = np.repeat(np.arange(len(at_s)), counts)
    columns = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts) + np.repeat(low, counts)
    return rows, columns, offsets


def _shares(
    at_s: Floats, starts_s: Floats, ends_s: Floats, window: MeterWindow, rows: Columns, columns: Columns
) -> Floats:
    t = at_s[rows]
    return window.weight_within(t - starts_s[columns]) - window.weight_within(t - ends_s[columns])
