"""The power of every single span: its phase type's mean and a deviation of its own, both from the readings.

What is called a span here may be one of several that draw one power together, a unit: a transfer stalled.
Spans of one type differ: a board warms up, a radio fades. Each span i draws p_i = mu_type + d_i with d_i
scattering by tau_type, which the readings tell. Long spans are then believed by their own readings, short
ones by their type's mean, and what is left unknown of either is in the covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from roambench.energy.attribution.design import Design
from roambench.energy.attribution.least_squares import Fit
from roambench.energy.readings.occupancy import Columns, Floats

#: Spans this far apart are not in each other's column of the inverse; solving for each alone would take
#: seconds for the 4,000 spans of a long run.
_APART = 64
#: Fewer spans than this do not tell how far the spans of a kind scatter.
MIN_SPANS = 8


@dataclass(frozen=True, slots=True)
class SpanPowers:
    """Columns of shape (fitted spans,): power, its variance, how much of it the span's own readings told
    (0..1), its covariance with the idle level; per level the deviation `tau_w` and the mean `watts`. Spans
    of one unit (`unit_of`) have one power.
    """

    watts: Floats
    variance_w2: Floats
    own_share: Floats
    with_idle_w2: Floats
    level_watts: Floats
    level_covariance: Floats
    mean_covariance: Floats  # of the levels, without what rounding leaves
    tau_w: Floats
    unit_of: Columns
    _inverse: Any
    _spread: Floats  # shape (units, levels)

    def variance_of_sum(self, seconds: Floats) -> float:
        """Variance of the sum of power times `seconds`, J^2; `seconds` of shape (units,)."""
        weights = np.asarray(seconds @ self._spread)
        return float(seconds @ self._inverse.solve(seconds) + weights @ self.mean_covariance @ weights)


def span_powers(design: Design, fit: Fit, readings_w: Floats) -> SpanPowers:
    """Solve for all spans at once; the noise of the readings is taken from `fit`."""
    unit_of = design.unit_of_fitted
    level = design.level_of_fitted[np.unique(unit_of, return_index=True)[1]]
    levels, units = design.levels, len(level)
    by_unit = design.by_span()
    if units < len(unit_of):
        spans = np.arange(len(unit_of))
        by_unit = (by_unit @ scipy.sparse.csr_array((np.ones(len(spans)), (spans, unit_of)))).tocsr()
    quantum_w2 = fit.step_w**2 / 12.0
    to_levels = np.zeros((units, levels))
    to_levels[np.arange(units), level] = 1.0
    tau_w2 = _between(design, by_unit, level, fit, quantum_w2)
    weighted = by_unit.multiply((1.0 / fit.variance_w2)[:, None]).T.tocsr()
    information = weighted @ by_unit
    score = np.asarray(weighted @ (readings_w - fit.prior_w)).reshape(-1)
    precision = 1.0 / tau_w2[level]
    inverse = scipy.sparse.linalg.splu((information + scipy.sparse.diags_array(precision)).tocsc())
    to_means = information @ to_levels
    spread_own = inverse.solve(to_means)
    means = to_levels.T @ to_means - to_means.T @ spread_own
    factor = scipy.linalg.cho_factor(means + fit.precision_w2)
    own_score = inverse.solve(score)
    mean_w = scipy.linalg.cho_solve(factor, to_levels.T @ score - to_means.T @ own_score)
    mean_covariance = scipy.linalg.cho_solve(factor, np.eye(levels))
    spread = to_levels - spread_own
    diagonal = _diagonal(inverse, units)
    variance_w2 = diagonal + np.einsum("ij,jk,ik->i", spread, mean_covariance, spread) + quantum_w2
    return SpanPowers(
        watts=(fit.prior_w + own_score + spread @ mean_w)[unit_of],
        variance_w2=variance_w2[unit_of],
        own_share=np.clip(1.0 - diagonal * precision, 0.0, 1.0)[unit_of],
        with_idle_w2=(spread @ mean_covariance[:, 0])[unit_of],
        level_watts=fit.prior_w + mean_w,
        level_covariance=mean_covariance + quantum_w2 * np.eye(levels),
        mean_covariance=mean_covariance,
        tau_w=np.sqrt(tau_w2),
        unit_of=unit_of,
        _inverse=inverse,
        _spread=spread,
    )


def _between(design: Design, by_unit: Any, level: Columns, fit: Fit, quantum_w2: float) -> Floats:
    """Variance between the units of each level, shape (levels,), by the method of moments.

    A unit's readings give its deviation s/h with the variance 1/h that noise and unknown ages explain
    (less what the fitted mean took up); what the squares exceed that by, weighted by h^2, is the spans' own.
    Two or three spans do not tell it: a kind of fewer than `MIN_SPANS` takes that of its whole family. Nor do
    the few readings that see a transfer wait: there it is a share of what waiting may draw.
    """
    levels = design.levels
    weighted = by_unit.multiply((1.0 / fit.variance_w2)[:, None]).tocsr()
    score = np.asarray(weighted.T @ fit.residual_w).reshape(-1)  # scipy makes a number of a single span's
    known = np.asarray(by_unit.multiply(weighted).sum(axis=0)).ravel()
    first, second, third = (np.bincount(level, known**k, levels) for k in (1, 2, 3))
    whole = np.maximum(first, 1e-300)
    excess = np.bincount(level, np.square(score), levels) - (first - second / whole)
    weight = second - 2.0 * third / whole + np.square(second / whole)
    told = weight > 1e-9 * second
    found = np.divide(excess, weight, out=np.zeros(levels), where=told)
    family = design.families.of_level
    together, spare = (np.bincount(family, np.where(told, part, 0.0))[family] for part in (weight, excess))
    few = (np.bincount(level, minlength=levels) < MIN_SPANS) & (np.bincount(family)[family] > 1)
    found = np.divide(spare, together, out=found, where=few & (together > 0.0))
    least = np.full(levels, quantum_w2)
    for one, waiting in design.families.waits.items():
        least[one] += np.square(fit.kind_sd[one] * waiting.scatter / waiting.share_sd)
    return np.clip(found, least, fit.prior_sd**2)


def _diagonal(inverse: Any, size: int) -> Floats:
    """The diagonal of the inverse, from the sums of every `_APART`-th of its columns.

    Only neighbouring spans share readings, so a column dies away within some spans of its own.
    """
    column = np.arange(size) % _APART
    unit = np.zeros((size, min(size, _APART)))
    unit[np.arange(size), column] = 1.0
    return np.asarray(inverse.solve(unit)[np.arange(size), column])
