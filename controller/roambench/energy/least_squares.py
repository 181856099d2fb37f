"""The least squares behind the split of energy: readings on occupancies, weighted by what each can know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import linalg, sparse

from roambench.energy.occupancy import Columns, Floats, MeterWindow, occupancy

#: Readings that lie in one phase alone; fewer than this do not tell that phase's noise.
MIN_PURE_READINGS: Final = 8
_PURE: Final = 1.0 - 1e-9
#: 3.81687 mW steps of the power register: no reading is better than this.
_QUANTUM_W2: Final = 3.81687e-3**2 / 12.0
_ITERATIONS: Final = 4  # one unweighted, three reweighted
#: Gauss-Legendre over the latch age: the reading is piecewise linear in it.
_AGE_NODES, _AGE_WEIGHTS = np.polynomial.legendre.leggauss(6)


class Design:
    """The occupancy of readings in levels, and how it would change with the unknown latch age."""

    def __init__(
        self,
        at_s: Floats,
        starts_s: Floats,
        ends_s: Floats,
        level_of_span: Columns,
        levels: int,
        window: MeterWindow,
    ) -> None:
        fitted = np.flatnonzero(level_of_span >= 0)
        self._starts, self._ends = starts_s[fitted], ends_s[fitted]
        self._to_levels = sparse.csr_array(
            (np.ones(len(fitted)), (np.arange(len(fitted)), level_of_span[fitted])),
            shape=(len(fitted), levels),
        )
        self._window = window
        whole = occupancy(at_s, self._starts, self._ends, window) @ self._to_levels
        self.used = np.asarray(whole.sum(axis=1)).ravel() > _PURE
        self.matrix: Any = whole[np.flatnonzero(self.used)]
        self.at_s = at_s[self.used]
        largest = self.matrix.max(axis=1).toarray().ravel() if len(self.at_s) else np.empty(0)
        self.pure = largest > _PURE
        # Only these depend on the age of the window.
        self._edge = np.flatnonzero(~self.pure)
        self._edge_at_ages = [
            occupancy(
                self.at_s[self._edge] - 0.5 * window.latch_s * (1.0 + node),
                self._starts,
                self._ends,
                MeterWindow(window.window_s, 0.0),
            )
            @ self._to_levels
            for node in _AGE_NODES
        ]
        weighted = list(zip(_AGE_WEIGHTS / 2.0, self._edge_at_ages, strict=True))
        mean = sum(weight * share for weight, share in weighted)
        square = sum(weight * share.power(2) for weight, share in weighted)
        self._age_spread: Any = square - mean.power(2)

    def age_variance(self, watts: Floats, variance_w2: Floats) -> Floats:
        """Variance of each reading over its unknown age, W^2, shape (readings,): (dP u_t)^2 at an edge.

        `variance_w2` is how well the powers are known, shape (levels,): a short phase whose power is still
        unknown must not look certain because it is thought to draw what its neighbours do.
        """
        variance = np.zeros(len(self.at_s))
        if len(self._edge):
            values = np.stack([occupied @ watts for occupied in self._edge_at_ages])
            weights = (_AGE_WEIGHTS / 2.0)[:, None]
            mean = (weights * values).sum(axis=0)
            variance[self._edge] = (weights * np.square(values - mean)).sum(axis=0)
            variance[self._edge] += self._age_spread @ variance_w2
        return variance


@dataclass(frozen=True, slots=True)
class Fit:
    watts: Floats
    covariance: Floats
    noise_w2: Floats
    correlation: Floats
    residual_sd: float
    prior_sd: float
    readings: Floats
    used_readings: int
    surprise: float  # -2 log likelihood, but for a constant


def fit_levels(design: Design, readings_w: Floats) -> Fit:
    """Iterated generalised least squares with a diagonal error model that the residuals and edges set."""
    matrix = design.matrix
    levels = matrix.shape[1]
    if not len(readings_w):
        nan = np.full(levels, np.nan)
        return Fit(nan, np.full((levels, levels), np.nan), nan, nan, np.nan, 0.0, np.zeros(levels), 0, 0.0)
    low, high = float(readings_w.min()), float(readings_w.max())
    prior_w = 0.5 * (low + high)
    prior_sd = max(high - low, 0.05 * abs(prior_w), 1e-3)
    noise_w2 = np.full(levels, max(float(np.var(readings_w)), _QUANTUM_W2))
    correlation = np.zeros(levels)
    watts = np.full(levels, prior_w)
    covariance = np.eye(levels) * prior_sd**2
    residual = readings_w - prior_w
    variance = np.ones(len(readings_w))
    edge = ~design.pure
    unsteady = 1.0
    for iteration in range(_ITERATIONS):
        variance = matrix @ (noise_w2 * (1.0 + correlation) / (1.0 - correlation))
        if iteration:
            variance = variance + unsteady * design.age_variance(watts, np.diag(covariance))
        weighted = matrix.multiply(1.0 / variance[:, None]).T.tocsr()
        normal = (weighted @ matrix).toarray() + np.eye(levels) / prior_sd**2
        right = weighted @ (readings_w - matrix @ np.full(levels, prior_w))
        factor = linalg.cho_factor(normal)
        watts = prior_w + linalg.cho_solve(factor, right)
        covariance = linalg.cho_solve(factor, np.eye(levels))
        residual = readings_w - matrix @ watts
        noise_w2, correlation = _noise(design, residual)
        if iteration and edge.any():
            # Arrivals that jitter, or borders stamped late: the edges scatter more than the age explains.
            ratio = np.square(residual[edge]).sum() / variance[edge].sum()
            unsteady = max(1.0, unsteady * float(ratio))
    # A steady power is rounded to the same step every time: no number of readings averages that away.
    covariance = covariance + _QUANTUM_W2 * np.eye(levels)
    return Fit(
        watts,
        covariance,
        noise_w2,
        correlation,
        float(np.sqrt(np.mean(np.square(residual)))),
        prior_sd,
        np.asarray(matrix.sum(axis=0), dtype=np.float64).ravel(),
        len(readings_w),
        float(np.sum(np.square(residual) / variance + np.log(variance))),
    )


def _noise(design: Design, residual: Floats) -> tuple[Floats, Floats]:
    """Variance and lag-1 correlation of the readings inside each level, from readings of one level alone."""
    levels = design.matrix.shape[1]
    pure = np.flatnonzero(design.pure)
    # A pure row has one entry near 1; sparse argmax would visit the rows one by one in Python.
    entries = design.matrix[pure].tocoo()
    main = entries.data > 0.5
    level = np.zeros(len(pure), dtype=np.int64)
    level[entries.row[main]] = entries.col[main]
    r = residual[pure]
    n = np.bincount(level, minlength=levels)
    square = np.bincount(level, np.square(r), levels)
    neighbours = np.flatnonzero((np.diff(pure) == 1) & (level[1:] == level[:-1]))
    product = np.bincount(level[neighbours], r[neighbours] * r[neighbours + 1], levels)
    pairs = np.bincount(level[neighbours], minlength=levels)
    pooled = float(square.sum() / n.sum()) if n.sum() else float(np.mean(np.square(residual)))
    enough = n >= MIN_PURE_READINGS
    noise_w2 = np.where(enough, square / np.maximum(n - 1, 1), pooled)
    noise_w2 = np.maximum(noise_w2, _QUANTUM_W2)
    mean_product = product / np.maximum(pairs, 1)
    correlation = np.where(
        enough & (pairs >= MIN_PURE_READINGS), np.clip(mean_product / noise_w2, 0.0, 0.95), 0.0
    )
    return noise_w2, correlation
