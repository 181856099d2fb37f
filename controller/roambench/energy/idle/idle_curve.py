"""Idle power of a board at any moment of its run: slow drift and the warmth of its trainings.

Idle readings see b + g(t) + h(t); waiting and absent ones a level of their own more, and all of them what an
active phase leaves behind, by the seconds since its end (a radio's tail, a stick that falls asleep). b is
constant, g a stationary drift (a Gauss process, covariance s^2 exp(-dt / tau)), h the training's 0/1 signal
through first-order lags: a warm chip leaks more, whatever it does. All is linear, so the posterior is one
least squares; how large drift, warmth and tails are is not chosen but averaged over, by how likely they make
the readings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.idle.baseline import BASELINE_PHASES, MARGIN_S
from roambench.energy.integrate import span_stamps
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import PowerSamples

Floats = npt.NDArray[np.float64]
Columns = npt.NDArray[np.int64]

#: Seconds from knot to knot of the drift, linear in between.
KNOT_S: Final = 15.0
#: (s in W, tau in s) of the drift: none to speak of, a room's, a cold board's first minutes, a restless one.
DRIFTS: Final = ((0.002, 100.0), (0.02, 100.0), (0.15, 300.0), (0.08, 60.0))
#: Time constants of a board's heat, s, and how much each may draw in a training that never ends (k = 1), W:
#: next to nothing, or as much as a small fan.
HEAT_S: Final = (60.0, 150.0, 400.0)
HEATS_W: Final = (0.002, 0.15)
#: How far the constant may be from the mean reading, waiting and absence from idling, and what comes after
#: an active phase from what comes later (k = 1), W.
LEVEL_W: Final = 3.0
WAIT_W: Final = 0.5
TAILS_W: Final = (0.002, 0.2)
#: Borders of what comes after an active phase, s; what comes before the first is left out.
TAIL_S: Final = (1.0, 2.0, 4.0, 7.0, 10.0)
#: Background phases with a level of their own within the work.
APART: Final = (Phase.WAIT, Phase.ABSENT)
#: Fewer idle readings than this tell no drift.
MIN_READINGS: Final = 8


@dataclass(frozen=True, slots=True)
class IdleCurve:
    """Idle power of one board, with the uncertainty of its mean over any time: `level_w` and what is above.

    `drift_w`, shape (knots,), and `heat_w`, shape (time constants,), are posterior means.
    """

    start_s: float
    drift_w: Floats
    heat_w: Floats
    level_w: float
    _step_w: float
    _heat: Heat
    _models: tuple[tuple[float, _Posterior], ...]

    def above_level(self, at_s: Floats) -> Floats:
        """Idle power above `level_w` at some moments, W, same shape."""
        knots = self.start_s + KNOT_S * np.arange(len(self.drift_w))
        return np.asarray(np.interp(at_s, knots, self.drift_w) + self._heat.at(at_s) @ self.heat_w)

    def u_mean_w(self, at_s: Floats, weights: Floats) -> tuple[float, float]:
        """Standard uncertainty of the idle power's weighted mean over some moments, W, and how much of it
        comes of not knowing how idle power moves: of that boards of one kind are wrong together.
        """
        rows = _rows(at_s, self.start_s, len(self.drift_w))
        weights = weights / weights.sum()
        own = (rows[1] * weights[:, None]).ravel()
        knots: Floats = np.bincount(rows[0].ravel(), own, len(self.drift_w)).astype(np.float64)
        apart = np.zeros(len(APART) + len(TAIL_S) - 1)
        fixed = np.concatenate(([1.0], weights @ self._heat.at(at_s), apart))
        means = np.array([model.mean(knots, fixed) for _, model in self._models])
        shares = np.array([share for share, _ in self._models])
        variances = np.array([model.variance(knots, fixed) for _, model in self._models])
        variance = shares @ (variances + np.square(means - shares @ means))
        shared_w = math.sqrt(max(0.0, float(variance - variances.min())))
        # A steady power is rounded to the same step every time: no number of readings averages that away.
        return float(np.sqrt(variance + self._step_w**2 / 12.0)), shared_w


@dataclass(frozen=True, slots=True)
class Heat:
    """The board's trainings through first-order lags: what share of its final warmth it has, per `HEAT_S`."""

    borders_s: Floats  # ascending; between them the board trains or not
    trains: Floats  # 0 or 1 from each border on
    states: Floats  # at the borders, shape (borders, time constants)

    @classmethod
    def of(cls, spans: Sequence[PhaseSpan], origin_ns: int) -> Heat:
        """Warmth along a partition of the run's time, cold before its first span; seconds count from
        `origin_ns`."""
        borders, trains, states = [], [], []
        state, last_s, on = np.zeros(len(HEAT_S)), None, 0.0
        for span in spans:
            at_s = (span.start_ns - origin_ns) * 1e-9
            if last_s is not None:
                state = on + (state - on) * np.exp(-(at_s - last_s) / np.array(HEAT_S))
            on, last_s = float(span.phase is Phase.TRAIN), at_s
            borders.append(at_s)
            trains.append(on)
            states.append(state)
        return cls(np.array(borders), np.array(trains), np.array(states))

    def at(self, at_s: Floats) -> Floats:
        """Shape (moments, time constants)."""
        index = np.maximum(np.searchsorted(self.borders_s, at_s, "right") - 1, 0)
        since_s = np.maximum(at_s - self.borders_s[index], 0.0)
        on = self.trains[index][:, None]
        decay = np.exp(-since_s[:, None] / np.array(HEAT_S))
        return np.asarray(on + (self.states[index] - on) * decay)


@dataclass(frozen=True, slots=True)
class _Posterior:
    """Drift at the knots and fixed columns (constant, heat, levels apart, tails), given one (s, tau)."""

    knots_w: Floats
    fixed_w: Floats
    log_likelihood: float
    _band: Floats  # banded Cholesky factor of the knots' precision
    _solved: Floats  # that inverse times the border, shape (knots, fixed)
    _schur: tuple[Floats, bool]

    def mean(self, knots: Floats, fixed: Floats) -> float:
        return float(knots @ self.knots_w + fixed @ self.fixed_w)

    def variance(self, knots: Floats, fixed: Floats) -> float:
        rest = fixed - knots @ self._solved
        own = knots @ scipy.linalg.cho_solve_banded((self._band, True), knots)
        return float(own + rest @ scipy.linalg.cho_solve(self._schur, rest))


def idle_curve(
    samples: PowerSamples, spans: Sequence[PhaseSpan], window: MeterWindow, step_w: float, origin_ns: int
) -> IdleCurve | None:
    """Fit the idle power of a board to its raw arrivals; None where too few readings saw it idling.

    Those count whose whole window lies inside a background span, a second after any active one. Seconds are
    counted from `origin_ns`.
    """
    if not spans:
        return None
    chosen, apart, home = _background(samples, spans, window)
    idles = ~apart[:, : len(APART)].any(axis=1)
    if np.count_nonzero(idles) < MIN_READINGS:
        return None
    at_s = np.multiply(samples.ns[chosen] - origin_ns, 1e-9) - 0.5 * window.support_s
    watts = samples.watts[chosen]
    level_w = float(watts[idles].mean())
    heat = Heat.of(spans, origin_ns)
    start_s = (spans[0].start_ns - origin_ns) * 1e-9
    knots = int(np.ceil((spans[-1].end_ns - spans[0].start_ns) * 1e-9 / KNOT_S)) + 2
    steps = np.diff(watts)[np.diff(home) == 0]
    noise_w2 = max(float(0.5 * np.mean(np.square(steps))) if len(steps) else 0.0, step_w**2 / 12.0)
    fixed = np.column_stack((np.ones(len(at_s)), heat.at(at_s), apart.astype(np.float64)))
    rows = _rows(at_s, start_s, knots)
    found = [
        _posterior(rows, fixed, watts - level_w, noise_w2, knots, drift, _prior_w2(heat_w, tail_w))
        for drift, heat_w, tail_w in product(DRIFTS, HEATS_W, TAILS_W)
    ]
    weights = np.exp([model.log_likelihood - max(m.log_likelihood for m in found) for model in found])
    shares = weights / weights.sum()
    drift_w = shares @ np.array([model.knots_w for model in found])
    heat_w = shares @ np.array([model.fixed_w[1 : 1 + len(HEAT_S)] for model in found])
    constant_w = float(shares @ np.array([model.fixed_w[0] for model in found]))
    models = tuple(
        (share, model) for share, model in zip(shares.tolist(), found, strict=True) if share > 1e-4
    )
    return IdleCurve(start_s, drift_w, heat_w, level_w + constant_w, step_w, heat, models)


def _background(
    samples: PowerSamples, spans: Sequence[PhaseSpan], window: MeterWindow
) -> tuple[Columns, npt.NDArray[np.bool_], Columns]:
    """Indices of the readings that saw only background; whether each is waiting, absent, or so long after an
    active phase, shape (readings, columns); and the span each arrived in.
    """
    starts, ends = span_stamps(spans)
    home = np.clip(np.searchsorted(starts, samples.ns, "right") - 1, 0, len(spans) - 1)
    active = np.array([span.phase in ACTIVE_PHASES for span in spans], dtype=np.bool_)
    quiet = np.array([span.phase in BASELINE_PHASES for span in spans], dtype=np.bool_)
    last_ns = np.maximum.accumulate(np.where(active, ends, np.iinfo(np.int64).min // 2))
    # A window that begins so long after the border has not seen what was before it.
    reach_ns = round((window.support_s + MARGIN_S) * 1e9)
    since_s = (samples.ns - round(window.support_s * 1e9) - last_ns[home]) * 1e-9
    inside = quiet[home] & (samples.ns - reach_ns >= starts[home]) & (samples.ns <= ends[home])
    chosen = np.flatnonzero(inside & (since_s >= TAIL_S[0]))
    first, last = work_of(spans)
    within = (home[chosen] > first) & (home[chosen] < last)
    columns = [
        within & np.array([span.phase is phase for span in spans], dtype=np.bool_)[home[chosen]]
        for phase in APART
    ]
    age_s = since_s[chosen]
    columns += [(age_s >= low) & (age_s < high) for low, high in pairwise(TAIL_S)]
    return chosen, np.column_stack(columns), home[chosen]


def work_of(spans: Sequence[PhaseSpan]) -> tuple[int, int]:
    """Indices between which (neither included) waiting and absence are part of the work: from the first
    active span up to the idling after the last one, or to that one where nothing after it is stamped idle.
    Before and after that a board idles under any name (`BASELINE_PHASES`).
    """
    active = [i for i, span in enumerate(spans) if span.phase in ACTIVE_PHASES]
    if not active:
        return 0, 0
    idle = (i for i in range(active[-1], len(spans)) if spans[i].phase is Phase.IDLE)
    return active[0], next(idle, active[-1])


def _rows(at_s: Floats, start_s: float, knots: int) -> tuple[Columns, Floats]:
    """Each moment between two knots: their indices and shares, shape (moments, 2) each."""
    place = np.clip((at_s - start_s) / KNOT_S, 0.0, knots - 1.000001)
    left = place.astype(np.int64)
    share = place - left
    return np.column_stack((left, left + 1)), np.column_stack((1.0 - share, share))


def _prior_w2(heat_w: float, tail_w: float) -> Floats:
    """Prior variance of the fixed columns."""
    sd_w = [LEVEL_W, *[heat_w] * len(HEAT_S), *[WAIT_W] * len(APART), *[tail_w] * (len(TAIL_S) - 1)]
    return np.square(sd_w)


def _posterior(
    rows: tuple[Columns, Floats],
    fixed: Floats,
    watts: Floats,
    noise_w2: float,
    knots: int,
    drift: tuple[float, float],
    prior_w2: Floats,
) -> _Posterior:
    """Bordered banded least squares: O(knots + readings)."""
    s_w, tau_s = drift
    index, share = rows
    repeat = np.exp(-KNOT_S / tau_s)
    innovation_w2 = s_w**2 * (1.0 - repeat**2)
    band = np.zeros((2, knots))
    band[0] = (1.0 + repeat**2) / innovation_w2
    band[0, 0], band[0, -1] = 1.0 / s_w**2 + repeat**2 / innovation_w2, 1.0 / innovation_w2
    band[1, :-1] = -repeat / innovation_w2
    for side in (0, 1):
        band[0] += np.bincount(index[:, side], np.square(share[:, side]), knots) / noise_w2
    band[1] += np.bincount(index[:, 0], share[:, 0] * share[:, 1], knots) / noise_w2
    border = np.zeros((knots, fixed.shape[1]))
    score = np.zeros(knots)
    for side in (0, 1):
        np.add.at(border, index[:, side], share[:, side, None] * fixed / noise_w2)
        score += np.bincount(index[:, side], share[:, side] * watts, knots) / noise_w2
    factor = scipy.linalg.cholesky_banded(band, lower=True)
    both = scipy.linalg.cho_solve_banded((factor, True), np.column_stack((border, score)))
    solved, own = both[:, :-1], both[:, -1]
    fixed_score = fixed.T @ watts / noise_w2
    schur = fixed.T @ fixed / noise_w2 + np.diag(1.0 / prior_w2) - border.T @ solved
    schur_factor = scipy.linalg.cho_factor(schur)
    fixed_w = scipy.linalg.cho_solve(schur_factor, fixed_score - border.T @ own)
    knots_w = own - solved @ fixed_w
    explained = score @ knots_w + fixed_score @ fixed_w
    log_precision = 2.0 * np.log(factor[0]).sum() + 2.0 * np.log(np.diag(schur_factor[0])).sum()
    log_prior = np.log(s_w**2) + (knots - 1) * np.log(innovation_w2) + np.log(prior_w2).sum()
    log_likelihood = 0.5 * (explained - log_precision - log_prior)
    return _Posterior(knots_w, fixed_w, float(log_likelihood), factor, solved, schur_factor)
