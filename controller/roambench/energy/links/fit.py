"""The parameters of Eq. 1 for a bench of one's own, by weighted least squares: P = alpha * rate + beta.

Every point of a sweep is the median of its windows (EEMBC). Points of one direction and rate share what the
meter's steps hide (a steady power is always rounded the same way), so their errors are not independent.
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
from roambench.energy.readings.occupancy import SP2_STEP_W

Numbers = npt.NDArray[np.float64]

#: Two roundings, active and idle: what a Smart Power 2 hides however long it looks.
SP2_QUANTUM_W: Final = SP2_STEP_W / math.sqrt(6.0)
#: The median of normal values scatters more than their mean: variance of it over that of the mean, by their
#: number from 1 on, and of many.
_MEDIAN_VARIANCE: Final = (1.0, 1.0, 1.346, 1.193, 1.434, 1.288, 1.473, 1.346, 1.495, 1.383)
_MEDIAN_VARIANCE_OF_MANY: Final = math.pi / 2.0


@dataclass(frozen=True, slots=True)
class LinkPoint:
    """One setting of the sweep: the median over its windows. `mbit_s` is the rate that really was."""

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
    is no straight line (the covariance is already widened by it). `beta_difference_mw` is beta of sending
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
        """Whether one beta serves both directions: the 95 % interval of their difference holds 0."""
        return abs(self.beta_difference_mw) <= self.half_width_beta_difference_mw


def points_of(powers: Sequence[WindowPower]) -> list[LinkPoint]:
    """The median of every point's windows, ascending by direction, size and rate; windows that are too short
    for the meter (`WindowPower.counts`) are left out.

    The windows' own uncertainties are widened, all alike, when windows of one point scatter more than they
    say; the factor is a median too, so that one window spoilt by a background job widens nothing.
    """
    groups: dict[tuple[Direction, int, float], list[WindowPower]] = defaultdict(list)
    for power in powers:
        if not power.counts:
            continue
        point = power.window.point
        groups[point.direction, point.size_bytes, point.mbit_s].append(power)
    surprises = [
        abs(power.net_w - float(np.median([other.net_w for other in group])))
        / power.u_net_w
        * math.sqrt(len(group) / (len(group) - 1))
        for group in groups.values()
        if len(group) > 1
        for power in group
    ]
    widened = max(1.0, 1.4826 * float(np.median(surprises))) if surprises else 1.0
    return [_point(group, widened) for _, group in sorted(groups.items(), key=lambda item: item[0])]


def _point(group: Sequence[WindowPower], widened: float) -> LinkPoint:
    point, count = group[0].window.point, len(group)
    median_variance = (*_MEDIAN_VARIANCE, _MEDIAN_VARIANCE_OF_MANY)[min(count - 1, len(_MEDIAN_VARIANCE))]
    u_w = widened * float(np.median([power.u_net_w for power in group])) / math.sqrt(count)
    return LinkPoint(
        point.direction,
        point.size_mbit,
        point.mbit_s,
        float(np.median([power.mbit_s for power in group])),
        float(np.median([power.net_w for power in group])),
        u_w * math.sqrt(median_variance),
        count,
        sum(power.window.repeats for power in group),
        math.fsum(power.active_s for power in group),
    )


def fit_link(
    name: str, points: Sequence[LinkPoint], *, u_gain: float, quantum_w: float = SP2_QUANTUM_W
) -> LinkFit:
    """Fit alpha_up, alpha_down and the common beta to one device's points.

    `u_gain` is the relative uncertainty of the meter's gain, which no fit can see. ConfigError unless both
    directions are there with two rates each, and more points than parameters.
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
    error = _error_covariance(points, quantum_w)
    values, covariance, chi2 = _least_squares(design, watts, error)
    dof = len(points) - 3
    covariance = covariance * max(1.0, chi2 / dof)
    residual = watts - design @ values
    apart, half = _beta_difference(design, watts, error, up)
    return LinkFit(
        KnownLink(_power(name, values * 1e3), _matrix(covariance * 1e6), float(dof), u_gain),
        tuple(points),
        residual,
        chi2 / dof,
        1.0 - float(residual @ residual) / float(np.square(watts - watts.mean()).sum()),
        apart * 1e3,
        half * 1e3,
    )


def pooled(name: str, fits: Sequence[LinkFit]) -> tuple[KnownLink, tuple[float, float, float]]:
    """The mean device: mean of the fits, its covariance from their scatter; and that scatter (sd).

    The scatter between devices holds all that differs from one to the next, their meters' gains included.
    It is never taken as smaller than what the single fits leave open. With one device it is that device's
    fit, and nothing is known of others.
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
    known = KnownLink(_power(name, values.mean(axis=0)), _matrix(scatter_at_least / count), float(count - 1))
    return known, (sd_up, sd_down, sd_beta)


def _error_covariance(points: Sequence[LinkPoint], quantum_w: float) -> Numbers:
    cells = [(p.direction, p.asked_mbit_s) for p in points]
    shared = np.array([[float(a == b) for b in cells] for a in cells])
    return np.asarray(np.diag([p.u_net_w**2 for p in points]) + quantum_w**2 * shared)


def _least_squares(design: Numbers, watts: Numbers, error: Numbers) -> tuple[Numbers, Numbers, float]:
    """Values, covariance and chi squared of generalised least squares."""
    weight = np.linalg.inv(error)
    covariance = np.linalg.inv(design.T @ weight @ design)
    values = covariance @ design.T @ weight @ watts
    residual = watts - design @ values
    return np.asarray(values), np.asarray(covariance), float(residual @ weight @ residual)


def _beta_difference(
    design: Numbers, watts: Numbers, error: Numbers, up: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """beta up minus beta down with a beta each, and its 95 % half-width; not told with too few points."""
    dof = len(watts) - 4
    if dof < 1:
        return 0.0, math.inf
    own = np.column_stack((design, up.astype(np.float64)))
    values, covariance, chi2 = _least_squares(own, watts, error)
    u = math.sqrt(covariance[3, 3] * max(1.0, chi2 / dof))
    return float(values[3]), float(scipy.special.stdtrit(dof, 0.975)) * u


def _power(name: str, values: Numbers) -> LinkPower:
    up, down, beta = values.tolist()
    return LinkPower(name, up, down, beta)


def _matrix(values: Numbers) -> Matrix:
    a, b, c = (0.5 * (values + values.T)).tolist()
    return (a[0], a[1], a[2]), (b[0], b[1], b[2]), (c[0], c[1], c[2])
