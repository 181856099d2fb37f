"""Energy per phase by generalised least squares (ENERGY rule R3): what each phase draws, with its covariance.

The order of phases is fixed (idle, download, train, upload, wait), so a trapezoid cut at the borders always
leaks training power into the transfers: a bias that no repetition averages away. Instead every reading is

    reading_k = sum over phases of occupancy(window_k, phase) * P_phase + error_k

and a span's energy is P_phase * its measured seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.integrate import PowerCurve, covered_by_span, span_stamps
from roambench.energy.occupancy import SP2_WINDOW, Floats, MeterWindow, occupancy
from roambench.energy.samples import PowerSamples, without_bursts

Columns = npt.NDArray[np.int64]

#: R7: a phase this long is resolved by itself, or repeated phases of its type that add up to 10 periods.
RESOLVED_SPAN_S: Final = 5.0
RESOLVED_PERIODS: Final = 10.0
#: Readings that lie in one phase alone; fewer than this do not tell that phase's noise.
MIN_PURE_READINGS: Final = 8
_PURE: Final = 1.0 - 1e-9
#: 3.81687 mW steps of the power register: no reading is better than this.
_QUANTUM_W2: Final = 3.81687e-3**2 / 12.0
_ITERATIONS: Final = 4  # one unweighted, three reweighted
#: Tried when lateness is fitted: from a clock 0.1 s ahead to lines 0.4 s late.
_LATENESS_S: Final = tuple(0.05 * k for k in range(-2, 9))
_LATENESS_PRIOR_S: Final = 0.1
#: The ages of real windows are not quite uniform: this scatter stays however long the run (virtual time).
_LATENESS_FLOOR_S: Final = 0.013
#: So many readings near borders place the lines to a few milliseconds; more only cost time.
_LATENESS_READINGS: Final = 2000
#: Gauss-Legendre over the latch age: the reading is piecewise linear in it.
_AGE_NODES, _AGE_WEIGHTS = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True, slots=True)
class SpanEnergy:
    """Energy of one span over its measured seconds; `u_level_w` is what spans of its type share."""

    covered_s: float
    gross_j: float
    net_j: float
    u_gross_j: float
    u_net_j: float
    u_level_w: float
    u_net_level_w: float
    resolved: bool


@dataclass(frozen=True, slots=True)
class Attribution:
    """Fitted power of each level (a phase type, or one long span): arrays of shape (levels,).

    `levels[0]` is the idle level. `covariance_w2` has shape (levels, levels). `noise_sd_w` is the scatter of
    single readings inside the level, `noise_correlation` their lag-1 correlation, `seconds` the time the
    spans of the level last, `readings` how many readings' worth of window looked at it. `residual_sd_w` is
    the root mean square of what the fit leaves over. `prior_sd_w` bounds a level that no reading saw.
    """

    levels: tuple[str, ...]
    watts: Floats
    covariance_w2: Floats
    noise_sd_w: Floats
    noise_correlation: Floats
    seconds: Floats
    readings: Floats
    residual_sd_w: float
    used_readings: int
    prior_sd_w: float
    lateness_s: float  # how much later than the window model says the lines arrived, and its uncertainty
    u_lateness_s: float
    nominal_s: float
    spans: tuple[PhaseSpan, ...]
    level_of_span: Columns  # shape (spans,), -1 for LOST

    @property
    def idle_w(self) -> float:
        return float(self.watts[0])

    @property
    def u_idle_w(self) -> float:
        return float(np.sqrt(self.covariance_w2[0, 0]))

    def watts_of(self, phase: Phase) -> tuple[float, float]:
        """Fitted power of a phase type and its standard uncertainty; KeyError if no span is of that type."""
        for span, level in zip(self.spans, self.level_of_span.tolist(), strict=True):
            if span.phase is phase and level >= 0:
                return float(self.watts[level]), float(np.sqrt(self.covariance_w2[level, level]))
        raise KeyError(f"no span of phase {phase.value}")

    def net_watts_of(self, phase: Phase) -> tuple[float, float]:
        """Power above the idle level and its standard uncertainty."""
        for span, level in zip(self.spans, self.level_of_span.tolist(), strict=True):
            if span.phase is phase and level >= 0:
                return float(self.watts[level] - self.watts[0]), float(self._u_net_w()[level])
        raise KeyError(f"no span of phase {phase.value}")

    def span_energies(self, curve: PowerCurve) -> list[SpanEnergy]:
        """Energy of each span over the seconds that `curve` covers, in span order; 0 J for LOST spans.

        Without a single usable reading nothing can be split: 0 J over 0 measured seconds.
        """
        if not self.used_readings:
            nothing = SpanEnergy(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False)
            return [nothing] * len(self.spans)
        covered_s = covered_by_span(curve, self.spans)
        starts, ends = span_stamps(self.spans)
        length_s = (ends - starts) * 1e-9
        level = np.maximum(self.level_of_span, 0)
        lost = self.level_of_span < 0
        seen_s = np.where(lost, 0.0, covered_s)
        u_level = np.where(lost, 0.0, np.sqrt(np.diag(self.covariance_w2))[level])
        u_net_level = np.where(lost, 0.0, self._u_net_w()[level])
        # The level is a mean over its spans; one span scatters around it like its seconds do.
        spread = np.clip(self.noise_correlation, 0.0, 0.95)
        scatter_w2 = np.square(self.noise_sd_w) * (1.0 + spread) / (1.0 - spread) * self.nominal_s
        own_j2 = scatter_w2[level] * seen_s
        known = np.sqrt(np.diag(self.covariance_w2)) < 0.5 * self.prior_sd_w
        long_enough = (length_s >= RESOLVED_SPAN_S) | (
            self.seconds[level] >= RESOLVED_PERIODS * self.nominal_s
        )
        resolved = long_enough & known[level] & ~lost & (seen_s > 0.0)
        gross = self.watts[level] * seen_s
        net = (self.watts[level] - self.watts[0]) * seen_s
        u_gross = np.sqrt(np.square(u_level * seen_s) + own_j2)
        # A span at the idle level has no net energy by definition, hence no uncertainty of it.
        u_net = np.where(level == 0, 0.0, np.sqrt(np.square(u_net_level * seen_s) + own_j2))
        columns = (covered_s, gross, net, u_gross, u_net, u_level, u_net_level, resolved)
        return [SpanEnergy(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _u_net_w(self) -> Floats:
        c = self.covariance_w2
        return np.asarray(np.sqrt(np.maximum(np.diag(c) + c[0, 0] - 2.0 * c[:, 0], 0.0)))


def attribute(
    samples: PowerSamples,
    spans: Sequence[PhaseSpan],
    *,
    nominal_s: float = 1.0,
    window: MeterWindow = SP2_WINDOW,
    separate_background: bool = False,
    own_level_s: float | None = None,
    fit_lateness: bool = False,
) -> Attribution:
    """Fit the power of every phase type of one device from its raw arrivals (device time, not shifted).

    `spans` are sorted and do not overlap (`timeline.complete_timeline`); readings whose window touches a
    LOST span or a hole are left out. Idle, absent and wait share one level unless `separate_background`.
    A span of `own_level_s` or longer gets a level of its own: for runs whose training power drifts.

    `fit_lateness` also finds how much later than `window` says the lines arrive against the phase stamps
    (USB buffers, borders stamped late, an emulation run faster than real time). 20 ms not accounted for
    turn the net energy of 0.5 s downloads by -6 %, 60 ms by -14 %; 2 s ones by less than 1 %.

    A level that hardly any reading saw is held by a weak prior, the middle of the readings +- their range,
    so its energy stays physical and its uncertainty says that it was not measured.
    """
    names, level_of_span = _levels(spans, separate_background, own_level_s)
    count = len(names)
    starts, ends = span_stamps(spans)
    seconds = np.zeros(count)
    np.add.at(seconds, level_of_span[level_of_span >= 0], ((ends - starts) * 1e-9)[level_of_span >= 0])
    arrivals = without_bursts(samples, nominal_s).samples
    origin = int(starts[0]) if len(starts) else 0
    at_s, starts_s, ends_s = (np.multiply(ns - origin, 1e-9) for ns in (arrivals.ns, starts, ends))

    def fitted(late_s: float, chosen: Columns | slice = slice(None)) -> _Fit:
        design = _Design(at_s[chosen] - late_s, starts_s, ends_s, level_of_span, count, window)
        return _fit(design, arrivals.watts[chosen][design.used])

    late_s = u_late_s = 0.0
    if fit_lateness:
        # What lies deep inside a phase says nothing about it.
        near = _near_borders(at_s, starts_s, level_of_span)[:_LATENESS_READINGS]
        late_s, u_late_s = _likeliest_lateness(lambda tried_s: fitted(tried_s, near).surprise)
    fit = fitted(late_s)
    if u_late_s:
        slope = (fitted(late_s + 0.025).watts - fitted(late_s - 0.025).watts) / 0.05
        fit = replace(fit, covariance=fit.covariance + np.outer(slope, slope) * u_late_s**2)
    return Attribution(
        levels=names,
        watts=fit.watts,
        covariance_w2=fit.covariance,
        noise_sd_w=np.sqrt(fit.noise_w2),
        noise_correlation=fit.correlation,
        seconds=seconds,
        readings=fit.readings,
        residual_sd_w=fit.residual_sd,
        used_readings=fit.used_readings,
        prior_sd_w=fit.prior_sd,
        lateness_s=late_s,
        u_lateness_s=u_late_s,
        nominal_s=nominal_s,
        spans=tuple(spans),
        level_of_span=level_of_span,
    )


def _levels(
    spans: Sequence[PhaseSpan], separate_background: bool, own_level_s: float | None
) -> tuple[tuple[str, ...], Columns]:
    """Names of the levels (idle first) and the level of each span, -1 where nothing is to be fitted."""
    index: dict[str, int] = {Phase.IDLE.value: 0}
    level_of_span = np.full(len(spans), -1, dtype=np.int64)
    for i, span in enumerate(spans):
        if span.phase is Phase.LOST:
            continue
        alone = span.phase in ACTIVE_PHASES or separate_background
        name = span.phase.value if alone else Phase.IDLE.value
        if own_level_s is not None and span.phase in ACTIVE_PHASES and span.duration_s >= own_level_s:
            name = f"{name}[{i}]"
        level_of_span[i] = index.setdefault(name, len(index))
    return tuple(index), level_of_span


class _Design:
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
class _Fit:
    watts: Floats
    covariance: Floats
    noise_w2: Floats
    correlation: Floats
    residual_sd: float
    prior_sd: float
    readings: Floats
    used_readings: int
    surprise: float  # -2 log likelihood, but for a constant


def _fit(design: _Design, readings_w: Floats) -> _Fit:
    """Iterated generalised least squares with a diagonal error model that the residuals and edges set."""
    matrix = design.matrix
    levels = matrix.shape[1]
    if not len(readings_w):
        nan = np.full(levels, np.nan)
        return _Fit(nan, np.full((levels, levels), np.nan), nan, nan, np.nan, 0.0, np.zeros(levels), 0, 0.0)
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
    return _Fit(
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


def _near_borders(at_s: Floats, starts_s: Floats, level_of_span: Columns) -> Columns:
    """Indices of the readings within a second after a change of level (or up to 0.5 s before it)."""
    borders = starts_s[1:][np.diff(level_of_span) != 0]
    if not len(borders) or not len(at_s):
        return np.empty(0, dtype=np.int64)
    last = np.searchsorted(borders, at_s + 0.5, "right") - 1
    return np.flatnonzero((last >= 0) & (at_s - borders[np.maximum(last, 0)] <= 1.0))


def _likeliest_lateness(surprise: Callable[[float], float]) -> tuple[float, float]:
    """The lateness with the least surprise and its standard uncertainty: a scan, a parabola at its minimum.

    A normal prior of 0 +- 0.1 s keeps a run that has few edges where the window model says.
    """

    def cost(late_s: float) -> float:
        return surprise(late_s) + (late_s / _LATENESS_PRIOR_S) ** 2

    here, best = min((cost(late_s), late_s) for late_s in _LATENESS_S)
    # Narrower than this and the parabola meets the kinks of the window's ends, wider and it is none.
    step = 0.5 * (_LATENESS_S[1] - _LATENESS_S[0])
    before, after = cost(best - step), cost(best + step)
    if before < here:
        before, here, after, best = cost(best - 2.0 * step), before, here, best - step
    elif after < here:
        before, here, after, best = here, after, cost(best + 2.0 * step), best + step
    bend = before - 2.0 * here + after
    if bend <= 0.0:
        return 0.0, _LATENESS_PRIOR_S
    move = min(1.0, max(-1.0, 0.5 * (before - after) / bend))
    return best + step * move, math.hypot(step * math.sqrt(2.0 / bend), _LATENESS_FLOOR_S)


def _noise(design: _Design, residual: Floats) -> tuple[Floats, Floats]:
    """Variance and lag-1 correlation of the readings inside each level, from readings of one level alone."""
    levels = design.matrix.shape[1]
    pure = np.flatnonzero(design.pure)
    rows = design.matrix[pure]
    level = rows.argmax(axis=1) if len(pure) else np.empty(0, dtype=np.int64)
    level = np.asarray(level).ravel()
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
