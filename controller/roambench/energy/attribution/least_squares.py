"""The least squares behind the split of energy: readings on occupancies, weighted by what each can know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from roambench.energy.attribution.design import Design, Families
from roambench.energy.readings.occupancy import Floats

#: Pairs of neighbours in one span; fewer than this do not tell their phase's noise.
MIN_PAIRS: Final = 8
#: Kinds of transfers of one direction may draw this many times more or less than all of them on average.
KIND_SHARE: Final = 2.0
_ITERATIONS: Final = 4  # one unweighted, three reweighted


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
        _, solved, failed = scipy.linalg.lapack.dposv(normal, np.column_stack((score, identity)))
        if failed:
            raise scipy.linalg.LinAlgError(f"the powers of {levels} levels cannot be solved for")
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
