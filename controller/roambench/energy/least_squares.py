"""The least squares behind the split of energy: readings on occupancies, weighted by what each can know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from scipy import linalg

from roambench.energy.readings.occupancy import Columns, Floats, MeterWindow, level_occupancy, occupancy

#: Pairs of neighbours in one span; fewer than this do not tell their phase's noise.
MIN_PAIRS: Final = 8
#: Kinds of transfers of one direction may draw this many times more or less than all of them on average.
KIND_SHARE: Final = 2.0
_PURE: Final = 1.0 - 1e-9
_ITERATIONS: Final = 4  # one unweighted, three reweighted
_AGE_NODES, _AGE_WEIGHTS = np.polynomial.legendre.leggauss(6)
SP2_STEP_W: Final = 3.81687e-3  # of a Smart Power 2's power register


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


@dataclass(frozen=True, slots=True)
class Fit:
    """Levels of a device: their power and covariance, the noise inside them, the variance of each reading."""

    watts: Floats
    covariance: Floats
    noise_w2: Floats
    variance_w2: Floats  # of a reading about its spans' own powers, shape (used readings,)
    residual_w: Floats  # shape (used readings,)
    step_w: float
    prior_w: float
    prior_sd: float
    precision_w2: Floats  # of the prior of the levels, 1/W^2, shape (levels, levels)
    kind_sd: Floats  # how far the prior lets a level be from its family, shape (levels,)
    readings: Floats
    used_readings: int
    surprise: float  # -2 log likelihood, but for a constant

    @property
    def residual_sd(self) -> float:
        """Root mean square of the residuals, W; NaN without a used reading."""
        return float(np.sqrt(np.mean(np.square(self.residual_w)))) if self.used_readings else np.nan


def fit_levels(design: Design, readings_w: Floats, step_w: float, noise_w2: Floats | None = None) -> Fit:
    """Iterated generalised least squares with a diagonal error model that the residuals and edges set.

    `step_w` is the meter's smallest step: no reading is better than a twelfth of its square. `noise_w2` is
    the noise inside each level where it is known better than these readings tell (`level_noise`).
    """
    matrix = design.matrix
    levels = design.levels
    if not len(readings_w):
        nan, none = np.full(levels, np.nan), np.empty(0)
        unknown = np.full((levels, levels), np.nan)
        zeros = np.zeros(levels)
        return Fit(nan, unknown, nan, none, none, step_w, np.nan, 0.0, np.eye(levels), zeros, zeros, 0, 0.0)
    quantum_w2 = step_w**2 / 12.0
    low, high = float(readings_w.min()), float(readings_w.max())
    prior_w = 0.5 * (low + high)
    prior_sd = max(high - low, 0.05 * abs(prior_w), 1e-3)
    noise_w2 = level_noise(design, readings_w, step_w) if noise_w2 is None else noise_w2
    scatter_w2 = np.full(levels, max(float(np.var(readings_w)), quantum_w2))
    watts = np.full(levels, prior_w)
    covariance = np.eye(levels) * prior_sd**2
    residual = readings_w - prior_w
    variance = np.ones(len(readings_w))
    age_w2 = np.zeros(len(readings_w))
    edge = ~design.pure
    identity = np.eye(levels)
    unsteady = 1.0
    kind_sd = np.full(levels, prior_sd)
    for iteration in range(_ITERATIONS):
        if iteration:
            age_w2 = unsteady * design.age_variance(watts, np.diag(covariance))
            kind_sd = _kind_sd(design, watts, prior_sd)
        precision = _precision(design.families, prior_sd, kind_sd)
        variance = matrix @ scatter_w2 + age_w2
        weighted = matrix.T / variance
        normal = weighted @ matrix + precision
        score = weighted @ (readings_w - prior_w)
        _, solved, failed = linalg.lapack.dposv(normal, np.column_stack((score, identity)))
        if failed:
            raise linalg.LinAlgError(f"the powers of {levels} levels cannot be solved for")
        watts, covariance = prior_w + solved[:, 0], solved[:, 1:]
        residual = readings_w - matrix @ watts
        scatter_w2 = _scatter(design, residual, noise_w2)
        if iteration and edge.any():
            # Arrivals that jitter, or borders stamped late: the edges scatter more than the age explains.
            ratio = np.square(residual[edge]).sum() / variance[edge].sum()
            unsteady = max(1.0, unsteady * float(ratio))
    # A steady power is rounded to the same step every time: no number of readings averages that away.
    covariance = covariance + quantum_w2 * np.eye(levels)
    return Fit(
        watts,
        covariance,
        noise_w2,
        matrix @ noise_w2 + age_w2,
        residual,
        step_w,
        prior_w,
        prior_sd,
        precision,
        kind_sd,
        matrix.sum(axis=0),
        len(readings_w),
        float(np.sum(np.square(residual) / variance + np.log(variance))),
    )


def _kind_sd(design: Design, watts: Floats, prior_sd: float) -> Floats:
    """How far the power of a level may be from that of its family (k = 1), shape (levels,).

    `KIND_SHARE` times what the family draws above the first level, idle; `prior_sd` for a level that is a
    family by itself. It is wide on purpose: readings that know a kind to 20 % move it by 1 % of the way to
    its family, and a kind that no reading saw is known to be a transfer and not a training. For a level in
    which transfers wait see `Waiting`.
    """
    family, size = design.families.of_level, design.matrix.sum(axis=0)
    count = np.bincount(family)
    weight = np.bincount(family, size)
    mean = np.bincount(family, size * watts) / np.maximum(weight, 1e-300)
    above = np.where(weight > 0.0, KIND_SHARE * np.abs(mean - watts[0]), prior_sd)
    sd = np.clip(above, 1e-3 * prior_sd, prior_sd)
    kind_sd = np.where(count[family] > 1, sd[family], prior_sd)
    for level, waiting in design.families.waits.items():
        if weight[waiting.moving] > 0.0:
            share_w = waiting.share_sd * abs(float(mean[waiting.moving] - watts[0]))
            kind_sd[level] = np.clip(share_w, 1e-3 * prior_sd, prior_sd)
    return np.asarray(kind_sd)


def _precision(families: Families, prior_sd: float, kind_sd: Floats) -> Floats:
    """Inverse of the prior covariance of the levels: families lie `prior_sd` about the middle of the
    readings, the levels of a family `kind_sd` about the family, and a level of waiting `kind_sd` about its
    share of the way from idle to its family.
    """
    family = families.of_level
    _, first, size = np.unique(family, return_index=True, return_counts=True)
    kind_w2, several = np.square(kind_sd[first[family]]), size[family] > 1
    share = prior_sd**2 / (kind_w2 + size[family] * prior_sd**2)
    alike = (family[:, None] == family) & several
    precision = np.where(alike, -share / kind_w2, 0.0)
    np.fill_diagonal(precision, precision.diagonal() + 1.0 / np.where(several, kind_w2, prior_sd**2))
    levels = list(families.waits)
    contrasts = families.contrasts / kind_sd[levels, None]
    return np.asarray(precision + contrasts.T @ contrasts)


def level_noise(design: Design, readings_w: Floats, step_w: float) -> Floats:
    """Variance of a reading about the power that its neighbours tell, per level, from pure readings.

    Half the mean square of successive differences inside one span (von Neumann): what changes more slowly
    than the meter reads is no noise, it is followed span by span (`span_powers`). Levels with too few
    pairs take the variance of all pairs, or that of all readings where there are none.
    """
    number = design.families.noise_of_level
    span, home = design.homes
    pure = np.flatnonzero(design.pure)
    pair = np.flatnonzero((np.diff(pure) == 1) & (np.diff(span) == 0))
    half_squares = 0.5 * np.square(readings_w[pure[pair + 1]] - readings_w[pure[pair]])
    level = number[home[pair]]
    pairs = np.bincount(level, minlength=design.levels)
    sums = np.bincount(level, half_squares, design.levels)
    pooled = float(half_squares.mean()) if len(pair) >= MIN_PAIRS else float(np.var(readings_w))
    noise_w2 = np.where(pairs >= MIN_PAIRS, sums / np.maximum(pairs, 1), pooled)
    return np.maximum(noise_w2[number], step_w**2 / 12.0)


def _scatter(design: Design, residual: Floats, noise_w2: Floats) -> Floats:
    """Variance of the readings inside each level about its mean: noise, drift and all."""
    number = design.families.noise_of_level
    home = number[design.homes[1]]
    square = np.square(residual[design.pure])
    readings = np.bincount(home, minlength=design.levels)
    sums = np.bincount(home, square, design.levels)
    pooled = float(square.mean()) if len(square) else float(np.mean(np.square(residual)))
    found = np.where(readings >= MIN_PAIRS, sums / np.maximum(readings - 1, 1), pooled)
    return np.maximum(found[number], noise_w2)
