"""What readings looked at, in levels of equal power: the design of the least squares behind the split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from roambench.energy.readings.occupancy import Columns, Floats, MeterWindow, level_occupancy, occupancy

_PURE: Final = 1.0 - 1e-9
_AGE_NODES, _AGE_WEIGHTS = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Prior for the power of a part of a span in which no byte moves, or a training begins: `share` of the
    way from idle to what the rest of it, the family `moving`, draws, ± `share_sd` of that way (k = 1); single
    ones at least `scatter` of it about their mean."""

    moving: int
    share: float
    share_sd: float
    scatter: float


@dataclass(frozen=True)
class Families:
    """Which levels draw alike. `of_level`, shape (levels,): levels of one number are kinds of one phase type.

    Levels `resting` are equally noisy: a board at rest. `waits` are the levels of
    such parts.
    """

    of_level: Columns
    resting: tuple[int, ...] = ()
    waits: Mapping[int, Waiting] = field(default_factory=dict)

    @cached_property
    def contrasts(self) -> Floats:
        """Of each level of a part its power above its share of the way, by level: shape (waits, levels)."""
        contrasts = np.zeros((len(self.waits), len(self.of_level)))
        for row, (level, waiting) in zip(contrasts, self.waits.items(), strict=True):
            row[level], row[0] = 1.0, waiting.share - 1.0
            kinds = self.of_level == waiting.moving
            row[kinds] = -waiting.share / np.count_nonzero(kinds)
        return contrasts

    @cached_property
    def noise_of_level(self) -> Columns:
        """Shape (levels,): levels of one number are equally noisy."""
        number = np.arange(len(self.of_level))
        number[list(self.resting)] = 0
        return number


class Design:
    """The occupancy of readings in levels, and how it would change with the unknown latch age.

    `matrix` has shape (used readings, levels); `used` marks the readings whose whole window lies in fitted
    spans, `pure` those of them that look at one level alone. `fitted` are the indices of the fitted spans,
    `level_of_fitted` their levels, `starts_s` and `ends_s` their borders, `unit_of_fitted` numbers what draws
    one power: each alone, unless `power_of` (`Pieces`) says that some do together. `jitter_s` is how
    uncertain (k = 1) each arrival is on top of the age: a window thought to lie just inside a phase may have
    begun in the one before. Each level is its own family by default.
    """

    def __init__(
        self,
        at_s: Floats,
        starts_s: Floats,
        ends_s: Floats,
        level_of_span: Columns,
        levels: int,
        window: MeterWindow,
        jitter_s: float = 0.0,
        families: Families | None = None,
        power_of: Columns | None = None,
    ) -> None:
        self.levels = levels
        self.families = Families(np.arange(levels)) if families is None else families
        self.fitted = np.flatnonzero(level_of_span >= 0)
        self.level_of_fitted = level_of_span[self.fitted]
        own = self.fitted if power_of is None else power_of[self.fitted]
        self.unit_of_fitted = np.unique(own, return_inverse=True)[1]
        self.starts_s, self.ends_s, self._window = starts_s[self.fitted], ends_s[self.fitted], window
        self._reach_s = math.sqrt(3.0) * jitter_s
        whole = self._in_levels(at_s, window)
        wide = whole
        if jitter_s:
            wider = MeterWindow(window.support_s + 2.0 * self._reach_s, 0.0)
            wide = self._in_levels(at_s + self._reach_s, wider)
        self.used = wide.sum(axis=1) > _PURE
        self.matrix = whole[self.used]
        self.at_s = at_s[self.used]
        self.pure = wide[self.used].max(axis=1, initial=0.0) > _PURE
        # Only these depend on the age of the window.
        self._edge = np.flatnonzero(~self.pure)
        shares, shifts_s = np.ones(1), np.zeros(1)
        if jitter_s:
            shares, shifts_s = np.array([1.0, 4.0, 1.0]) / 6.0, np.array([-self._reach_s, 0.0, self._reach_s])
        self._weights = np.outer(shares, _AGE_WEIGHTS / 2.0).ravel()
        shifted_s = self.at_s[self._edge] + shifts_s[:, None]
        seen_s = shifted_s[:, None] - 0.5 * window.latch_s * (1.0 + _AGE_NODES[:, None])
        aged = self._in_levels(seen_s.ravel(), MeterWindow(window.window_s, 0.0))
        self._edge_at_ages = aged.reshape(len(self._weights), len(self._edge), levels)
        mean = np.einsum("a,akl->kl", self._weights, self._edge_at_ages)
        square = np.einsum("a,akl->kl", self._weights, np.square(self._edge_at_ages))
        self._age_spread = square - np.square(mean)

    def _in_levels(self, at_s: Floats, window: MeterWindow) -> Floats:
        return level_occupancy(at_s, self.starts_s, self.ends_s, window, self.level_of_fitted, self.levels)

    def by_span(self) -> Any:
        """The occupancy in single spans: sparse CSR, shape (used readings, fitted spans)."""
        return occupancy(self.at_s, self.starts_s, self.ends_s, self._window)

    def arrivals(self) -> tuple[Columns, Floats]:
        """Of each reading the fitted span in which it arrived and the seconds since that began."""
        at = np.maximum(np.searchsorted(self.starts_s, self.at_s, "left") - 1, 0)
        return at, np.asarray(self.at_s - self.starts_s[at])

    @cached_property
    def homes(self) -> tuple[Columns, Columns]:
        """Of each pure reading, in order: the span in which its window ends, and its level."""
        at = np.searchsorted(self.starts_s, self.at_s[self.pure], "left") - 1
        return at, self.level_of_fitted[at]

    def age_variance(self, watts: Floats, variance_w2: Floats) -> Floats:
        """Variance of each reading over its unknown age, W^2, shape (readings,): (dP u_t)^2 at an edge.

        `variance_w2` is how well the powers are known, shape (levels,): a short phase whose power is still
        unknown must not look certain because it is thought to draw what its neighbours do.
        """
        variance = np.zeros(len(self.at_s))
        values = self._edge_at_ages @ watts
        weights = self._weights[:, None]
        mean = (weights * values).sum(axis=0)
        variance[self._edge] = (weights * np.square(values - mean)).sum(axis=0)
        variance[self._edge] += self._age_spread @ variance_w2
        return variance
