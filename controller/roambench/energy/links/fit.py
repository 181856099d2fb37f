"""The parameters of Eq. 1 for a bench of one's own, by weighted least squares: P = alpha * rate + beta.

Every point of a sweep is the mean of its windows but spoilt ones. The intervals are those of ordinary least
squares over the windows: their scatter about the lines is all that is known of their errors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.errors import ConfigError
from roambench.contract.link_power import LinkPower
from roambench.energy.links.models import KnownLink, Matrix
from roambench.energy.links.throughput import Direction
from roambench.energy.links.windows import WindowPower

Numbers = npt.NDArray[np.float64]

#: A window this many standard deviations from its point's median was spoilt by something else.
_SPOILT: Final = 4.0
#: Points that scatter about the lines more than their windows among themselves, by chance once in a thousand.
_BENT_CHANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class LinkPoint:
    """One setting of the sweep: the mean of `windows` of them. `mbit_s` is the rate that really was."""

    direction: Direction
    size_mbit: float
    asked_mbit_s: float
    mbit_s: float
    net_w: float
    u_net_w: float
    windows: int
    transfers: int
    active_s: float


@dataclass(frozen=True, slots=True)
class LinkFit:
    """A device's parameters with the points they come from and how well the line fits.

    `residual_w` is measured minus fitted, shape (points,). `chi2_per_dof` well above 1 says that the board
    is no straight line (the covariance is widened by it). `beta_difference_mw` is beta of sending
    minus beta of receiving when each may have its own, with its 95 % half-width: Eq. 1 says 0.
    """

    known: KnownLink
    points: tuple[LinkPoint, ...]
    residual_w: Numbers
    chi2_per_dof: float
    r_squared: float
    beta_difference_mw: float
    half_width_beta_difference_mw: float

    @property
    def shares_beta(self) -> bool:
        """True if one beta serves both directions: the 95 % interval of their difference holds 0."""
        return abs(self.beta_difference_mw) <= self.half_width_beta_difference_mw


def points_of(powers: Sequence[WindowPower]) -> list[LinkPoint]:
    """The mean of every point's windows, ascending by direction, size and rate; windows that are too short
    for the meter (`WindowPower.counts`) are left out, and those that a background job spoilt.

    The points' uncertainties come from the scatter of windows of one point, all points together.
    """
    groups: dict[tuple[Direction, int, float], list[WindowPower]] = defaultdict(list)
    for power in powers:
        if not power.counts:
            continue
        point = power.window.point
        groups[point.direction, point.size_bytes, point.mbit_s].append(power)
    kept = _unspoilt([group for _, group in sorted(groups.items(), key=lambda item: item[0])])
    away = [u for group in kept for u in _away(group, _mean([power.net_w for power in group]))]
    freedom = len(away) - len(kept)
    scatter = math.sqrt(math.fsum(u * u for u in away) / freedom) if any(away) else 1.0
    return [_point(group, scatter) for group in kept]


def _away(group: Sequence[WindowPower], net_w: float) -> list[float]:
    return [abs(power.net_w - net_w) / power.u_net_w for power in group]


def _unspoilt(groups: Sequence[Sequence[WindowPower]]) -> list[list[WindowPower]]:
    """Groups of three windows or more without those that are far from their median."""
    away = [_away(group, float(np.median([power.net_w for power in group]))) for group in groups]
    scaled = [far * math.sqrt(len(each) / (len(each) - 1)) for each in away if len(each) > 2 for far in each]
    limit = (_SPOILT * 1.4826 * float(np.median(scaled)) if scaled else 0.0) or math.inf
    return [
        [power for power, far in zip(group, each, strict=True) if far <= limit or len(group) < 3]
        for group, each in zip(groups, away, strict=True)
    ]


def _point(group: Sequence[WindowPower], scatter: float) -> LinkPoint:
    point, count = group[0].window.point, len(group)
    return LinkPoint(
        point.direction,
        point.size_mbit,
        point.mbit_s,
        _mean([power.mbit_s for power in group]),
        _mean([power.net_w for power in group]),
        scatter * _mean([power.u_net_w for power in group]) / math.sqrt(count),
        count,
        sum(power.window.repeats for power in group),
        math.fsum(power.active_s for power in group),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def fit_link(
    name: str, points: Sequence[LinkPoint], *, u_gain: float, rounding_w: float = 0.0, u_idle_w: float = 0.0
) -> LinkFit:
    """Fit alpha_up, alpha_down and the common beta to one device's points.

    `u_gain` is the relative uncertainty of the meter's gain, which no fit can see; `rounding_w` is what its
    steps hide of a steady power: of the idle power in all points alike, of one rate in its points. By
    `u_idle_w` the idle power is wrong in all points alike, too. ConfigError
    unless both directions are there with two rates each, and more points than parameters.
    """
    rates = {way: {p.asked_mbit_s for p in points if p.direction == way} for way in ("up", "down")}
    if len(points) < 4 or any(len(found) < 2 for found in rates.values()):
        raise ConfigError(
            [
                f"link fit {name!r}: expected measured points at two rates or more in each direction, got "
                f"{len(rates['up'])} up and {len(rates['down'])} down; did the meter read during the sweep?"
            ]
        )
    up = np.array([p.direction == "up" for p in points])
    rate = np.array([p.mbit_s for p in points])
    watts = np.array([p.net_w for p in points])
    design = np.column_stack((np.where(up, rate, 0.0), np.where(up, 0.0, rate), np.ones(len(points))))
    error = _error_covariance(points, rounding_w)
    values, covariance, chi2 = _least_squares(design, watts, error)
    scale, dof = _scatter(points, chi2, len(points) - 3)
    covariance = covariance * scale
    covariance[2, 2] += rounding_w**2 + u_idle_w**2
    residual = watts - design @ values
    apart, half = _beta_difference(points, design, watts, error, up)
    return LinkFit(
        KnownLink(_power(name, values * 1e3), matrix_of(covariance * 1e6), dof, u_gain),
        tuple(points),
        residual,
        chi2 / (len(points) - 3),
        1.0 - float(residual @ residual) / float(np.square(watts - watts.mean()).sum()),
        apart * 1e3,
        half * 1e3,
    )


def pooled(name: str, fits: Sequence[LinkFit]) -> tuple[KnownLink, tuple[float, float, float]]:
    """Return the parameters of another device like these: the mean of the n fits, with the prediction's
    covariance V = S + S / n; and the scatter between devices (sd).

    S is the covariance of the fits, with n - 1 degrees of freedom (Student's t): how far a device is from the
    mean of all. S / n is how far that mean is from the mean of these. S holds all that differs from one
    device to the next, their meters' gains included, and is never taken as smaller than what the single fits
    leave open. One device has no S: the result is that device's fit, and nothing is known of others.
    """
    if not fits:
        raise ConfigError([f"link fit {name!r}: no device could be fitted"])
    if len(fits) == 1:
        return replace(fits[0].known, power=_power(name, fits[0].known.values)), (math.nan,) * 3
    values = np.array([fit.known.values for fit in fits])
    count = len(fits)
    scatter = np.atleast_2d(np.cov(values, rowvar=False))
    own = np.mean([fit.known.total_covariance for fit in fits], axis=0)
    # Matrices do not compare: whichever says more of every single parameter, with the correlations of both.
    both = scatter + own
    wider = np.sqrt(np.maximum(np.diag(scatter), np.diag(own)) / np.diag(both))
    scatter_at_least = both * np.outer(wider, wider)
    sd_up, sd_down, sd_beta = np.sqrt(np.diag(scatter)).tolist()
    known = KnownLink(
        _power(name, values.mean(axis=0)), matrix_of(scatter_at_least * (1.0 + 1.0 / count)), float(count - 1)
    )
    return known, (sd_up, sd_down, sd_beta)


def _error_covariance(points: Sequence[LinkPoint], rounding_w: float) -> Numbers:
    cells = [(p.direction, p.asked_mbit_s) for p in points]
    shared = np.array([[float(a == b) for b in cells] for a in cells])
    # Rates that differ a little are rounded alike, but not always.
    own = [p.u_net_w**2 + 0.25 * rounding_w**2 for p in points]
    return np.asarray(np.diag(own) + rounding_w**2 * shared)


def _scatter(points: Sequence[LinkPoint], chi2: float, dof: int) -> tuple[float, float]:
    """Variance of the windows about the lines over that within points, and its degrees of freedom.

    `chi2` with `dof` is that of the points about the lines. Both scatters together, unless the lines do not
    hold: then theirs alone.
    """
    within = sum(point.windows - 1 for point in points)
    bent = within and float(scipy.special.fdtrc(dof, within, chi2 / dof)) < _BENT_CHANCE
    if bent:
        return chi2 / dof, float(dof)
    return (within + chi2) / (within + dof), float(within + dof)


def _least_squares(design: Numbers, watts: Numbers, error: Numbers) -> tuple[Numbers, Numbers, float]:
    """Values, covariance and chi squared of generalised least squares."""
    weight = np.linalg.inv(error)
    covariance = np.linalg.inv(design.T @ weight @ design)
    values = covariance @ design.T @ weight @ watts
    residual = watts - design @ values
    return np.asarray(values), np.asarray(covariance), float(residual @ weight @ residual)


def _beta_difference(
    points: Sequence[LinkPoint], design: Numbers, watts: Numbers, error: Numbers, up: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """beta up minus beta down with a beta each, and its 95 % half-width: infinite with too few points."""
    dof = len(watts) - 4
    if dof < 1:
        return 0.0, math.inf
    own = np.column_stack((design, up.astype(np.float64)))
    values, covariance, chi2 = _least_squares(own, watts, error)
    scale, freedom = _scatter(points, chi2, dof)
    u = math.sqrt(covariance[3, 3] * scale)
    return float(values[3]), float(scipy.special.stdtrit(freedom, 0.975)) * u


def _power(name: str, values: Numbers) -> LinkPower:
    up, down, beta = values.tolist()
    return LinkPower(name, up, down, beta)


def matrix_of(values: Numbers) -> Matrix:
    """A covariance as a `KnownLink` has it, made symmetric."""
    a, b, c = (0.5 * (values + values.T)).tolist()
    return (a[0], a[1], a[2]), (b[0], b[1], b[2]), (c[0], c[1], c[2])
