"""Energy of a phase without a model of its power: what the readings that touched it say, and their scatter.

The split (`attribute`) takes power to be constant while bytes move. Where that is wrong, one line a second
may not show it. This estimate assumes nothing of the kind: every reading that touches a phase counts once,
what its window saw of the phases around is taken off, and

    P = sum_k (reading_k - sum over other spans of occupancy * fitted power) / sum_k occupancy of the phase

(the ratio estimator of survey sampling, after Hajek). It is right on average for power of any shape if the
phase begins at random moments of the meter's period, and wide: short phases are hardly ever seen. How wide,
the scatter from span to span tells.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.attribution.attribution import Attribution
from roambench.energy.attribution.pieces import TAIL, TRANSFERS
from roambench.energy.attribution.span_energy import SpanEnergy
from roambench.energy.clocks.lateness import BOARD_LATENESS_S
from roambench.energy.energy_value import Energy, UncertaintyPart, total
from roambench.energy.idle.idle_curve import work_of
from roambench.energy.integrate import span_stamps
from roambench.energy.readings.occupancy import Columns, Floats, occupancy
from roambench.energy.readings.samples import PowerSamples

#: Fewer spans than this, or fewer windows' worth of readings in them, tell no scatter.
MIN_SPANS: Final = 4
MIN_WINDOWS: Final = 2.0
#: Next to a border means so many seconds from it, or half a span; fewer readings there tell nothing of it.
NEAR_S: Final = 1.5
MIN_READINGS: Final = 6
#: Share (k = 1) of what power changes by towards a border that it may have changed more at the border itself.
GOES_ON: Final = 1.0
#: Where ages are unknown, what a transfer ends or begins with looks like what the training beside it does: of
#: a training's net power such a share (k = 1) may be missing or added where windows see both. A governor that
#: takes 0.15 s to raise the clock beside a download that is hashed in its last 0.1 s comes to 0.15.
BESIDE_TRAINING: Final = 0.1
#: Phases that have this estimate; a `wait` before or after the work is idling and none of them.
ESTIMATED: Final = ACTIVE_PHASES | {Phase.WAIT}
TWO_SIGMA: Final = 0.977249868
#: What a figure's 2 u should be, relative, where the number of spans that would do is told.
WANTED: Final = 0.05


@dataclass(frozen=True, slots=True)
class DesignBased:
    """Mean net power of one phase type on one board and its standard uncertainty, W.

    `u_w` comes from the scatter of `spans` spans and is widened as Student's t for few of them, so that 2 u
    holds what it does for many. `u_shared_w` is the part of it that boards of one kind have in common: what a
    training beside a transfer begins or ends with (`BESIDE_TRAINING`).
    """

    device: str
    phase: Phase
    net_w: float
    u_w: float
    spans: int
    u_shared_w: float = 0.0

    def over(self, seconds: float) -> Energy:
        """Net energy of the phase's measured seconds, J."""
        own_w = math.sqrt(max(0.0, self.u_w**2 - self.u_shared_w**2))
        terms = (
            (UncertaintyPart.SAMPLING, f"{self.device} {self.phase.value} design-based", own_w * seconds),
            (UncertaintyPart.SAMPLING, f"borders of {self.phase.value}", self.u_shared_w * seconds),
        )
        return Energy(self.net_w * seconds, 0.0, seconds, 0.0, tuple(term for term in terms if term[2]))


@dataclass(frozen=True, slots=True)
class WithoutModel:
    """Net energy of a phase on all boards by this estimate, from `spans` spans."""

    net: Energy
    spans: int

    @property
    def spans_wanted(self) -> int | None:
        """How many spans would bring 2 u down to `WANTED` of the energy; None where it is hardly above 0."""
        if self.net.joules <= self.net.u_joules:
            return None
        return math.ceil(self.spans * (2.0 * self.net.u_joules / (WANTED * self.net.joules)) ** 2)


def together(estimates: Sequence[DesignBased | None], seconds: Sequence[float]) -> WithoutModel | None:
    """The estimates of several boards over their measured `seconds`; None where one has none."""
    found = [estimate for estimate in estimates if estimate is not None]
    if not found or len(found) < len(estimates):
        return None
    joules = (estimate.over(of) for estimate, of in zip(found, seconds, strict=True))
    return WithoutModel(total(joules), sum(estimate.spans for estimate in found))


def design_based(
    samples: PowerSamples,
    spans: Sequence[PhaseSpan],
    fit: Attribution,
    idle_w: float,
    late_prior_s: float = BOARD_LATENESS_S,
) -> dict[Phase, DesignBased]:
    """The estimate of each active phase and of waiting, where enough readings touched it.

    `samples` are calibrated first looks without the drift of the idle power, as `fit` saw them; `spans` are
    those that were given to `attribute`; `idle_w` is the idle power without drift. The fitted lateness may
    be true, or come of the very shape that the fit does not know: the estimate lies half way between with it
    and without, and half the difference is in its uncertainty. Lines that may be later than a board's
    (`late_prior_s`: an emulation that runs faster than real time) are taken to be as late as they are fitted.
    """
    if fit.spans_fit is None:
        return {}
    late = _Touched.of(samples, spans, fit, fit.lateness_s)
    prompt = _Touched.of(samples, spans, fit, 0.0)
    found = {}
    for phase in dict.fromkeys(span.phase for span in spans if span.phase in ESTIMATED):
        both = [touched.mean_of(phase, idle_w) for touched in (prompt, late)]
        if both[0] is not None and both[1] is not None:
            (one_w, u_one_w, beside), (other_w, u_other_w, _) = both[0], both[1]
            u_shared_w = 0.0
            if phase in TRANSFERS and beside and not fit.borne_out:
                u_shared_w = BESIDE_TRAINING * beside * max(fit.net_watts_of(Phase.TRAIN)[0], 0.0)
            u_w = math.hypot(max(u_one_w, u_other_w), 0.5 * (one_w - other_w), u_shared_w)
            count = sum(span.phase is phase for span in spans)
            mean_w = other_w if late_prior_s > BOARD_LATENESS_S else 0.5 * (one_w + other_w)
            found[phase] = DesignBased(spans[0].device, phase, mean_w, u_w, count, u_shared_w)
    return found


def in_doubt(fit: Attribution) -> frozenset[Phase]:
    """Phases whose fitted power the readings contradict: the training if that is what they contradict, the
    transfers if it is one of those, if lines seem to come too early, or if the meter does not see all of
    their time and its conversion clock does not bear them out: it was not found, or not looked for. They are,
    too, where boards do not wait as they should: a radio that is awake after a transfer is not known in one.
    Waiting always is: a tail of some tenths of a second is seen by readings at the border alone, which a fit
    hardly weighs, and by all of them if each counts once.

    None where sampling is locked to the rounds, since this estimate rests on random moments, and none for a
    contradiction in idle time.
    """
    if fit.locked:
        return frozenset()
    level = fit.misfit.level if fit.misfit is not None and fit.misfit.contradicts else ""
    phases = {phase for phase in ACTIVE_PHASES if level.startswith(phase.value)}
    clocked = fit.steadiness is not None and fit.steadiness.bears_out
    assumed = fit.window.misses_some(fit.nominal_s) or level in (Phase.WAIT.value, TAIL.name)
    if fit.too_early or (assumed and not clocked) or phases - {Phase.TRAIN}:
        phases |= ACTIVE_PHASES - {Phase.TRAIN}
    return frozenset(phases) | {Phase.WAIT}


def instead(
    parts: Sequence[SpanEnergy],
    spans: Sequence[PhaseSpan],
    found: Mapping[Phase, DesignBased],
    idle_w: float,
    u_idle_w: float,
    several: Collection[Phase] = (),
) -> list[SpanEnergy]:
    """The energies of spans with the mean net power of the phases in `found` made what is found there.

    What spans of a phase differ by stays theirs: all are taken to be wrong by one factor, so kinds of
    transfers keep their ratios. In phases of `several` kinds these are as uncertain as the fit has the power
    of each. `parts` are parallel to `spans`; the idle power as in `design_based`.
    """
    moved = list(parts)
    first, last = work_of(spans)
    works = [i for i, span in enumerate(spans) if span.phase in ACTIVE_PHASES or first < i < last]
    for phase, estimate in found.items():
        own = [i for i in works if spans[i].phase is phase and parts[i].covered_s]
        seconds = np.array([parts[i].covered_s for i in own])
        net_w = np.array([parts[i].gross_j for i in own]) / seconds - idle_w
        mean_w = float(net_w @ seconds / seconds.sum()) if len(own) else 0.0
        shares = net_w / mean_w if len(own) and net_w.min() > 0.0 else np.ones(len(own))
        for i, share in zip(own, shares.tolist(), strict=True):
            part = parts[i]
            u_kind_w = part.u_net_level_w if phase in several else 0.0
            u_level_w = math.hypot(estimate.u_w * share, u_kind_w)
            own_j2 = part.u_gross_j**2 - (part.u_level_w**2 + part.edge_w**2) * part.covered_s**2
            moved[i] = replace(
                part,
                gross_j=part.gross_j + share * (estimate.net_w - mean_w) * part.covered_s,
                u_gross_j=math.sqrt(max(own_j2, 0.0) + (u_level_w * part.covered_s) ** 2),
                u_level_w=u_level_w,
                edge_w=0.0,
            ).above(idle_w, u_idle_w)
    return moved


@dataclass(frozen=True, slots=True)
class _Touched:
    """Readings, shape (readings,), on fitted spans, under one lateness.

    `share` is sparse, shape (readings, fitted spans). `around_w` are the powers of the spans as those see
    them whose window just touches them at their start or their end, shape (2, fitted spans), and how well
    they are known (`u_around_w`).
    """

    phase_of: npt.NDArray[np.object_]
    span_of: Columns
    share: Any
    watts: Floats
    around_w: Floats
    u_around_w: Floats
    ends: npt.NDArray[np.int64]  # of each entry of `share`: 0 where the window looked at the span's start

    @classmethod
    def of(
        cls, samples: PowerSamples, spans: Sequence[PhaseSpan], fit: Attribution, late_s: float
    ) -> _Touched:
        assert fit.spans_fit is not None
        fitted = np.flatnonzero(fit.level_of_span >= 0)
        starts, ends = (ns[fitted] for ns in span_stamps(fit.spans))
        origin = int(starts[0])
        starts_s, ends_s = (np.multiply(ns - origin, 1e-9) for ns in (starts, ends))
        at_s = np.multiply(samples.ns - origin, 1e-9) - late_s
        share = occupancy(at_s, starts_s, ends_s, fit.window)
        whole = np.asarray(share.sum(axis=1)).ravel() > 1.0 - 1e-9
        share, watts, at_s = share[whole].tocoo(), samples.watts[whole], at_s[whole]
        power_w = fit.spans_fit.watts
        phase_of = np.array(
            [fit.spans[i].phase if fit.level_of_span[i] else Phase.IDLE for i in fitted.tolist()],
            dtype=object,
        )
        middle_s = 0.5 * (starts_s + ends_s)
        at_end = (at_s[share.row] - 0.5 * fit.window.support_s > middle_s[share.col]).astype(np.int64)
        # What windows that lie within a span, next to its border, see beside the span's fitted power.
        pure = share.data > 1.0 - 1e-9
        row, col = share.row[pure], share.col[pure]
        off_w = watts[row] - power_w[col]
        since_s = at_s[row] - fit.window.support_s - starts_s[col]
        reach_s = np.minimum(NEAR_S, 0.5 * (ends_s - starts_s))[col]
        near = (since_s <= reach_s, ends_s[col] - at_s[row] <= reach_s)
        # A piece that no window lies within is as uncertain as what its level shares.
        of_level = fit.level_of_span[fitted]
        around_w, u_around_w = np.tile(power_w, (2, 1)), np.tile(np.abs(fit.late_slope_w[of_level]), (2, 1))
        for level in np.unique(of_level).tolist():
            inside = of_level == level
            for side in (0, 1):
                own = off_w[near[side] & inside[col]]
                if len(own) >= MIN_READINGS:
                    # Power that changes towards a border goes on changing behind the last window in the span.
                    around_w[side, inside] += own.mean()
                    u_around_w[side, inside] = math.hypot(
                        own.std(ddof=1) / math.sqrt(len(own)), GOES_ON * own.mean()
                    )
        return cls(phase_of, fit.span_of[fitted], share, watts, around_w, u_around_w, at_end)

    def mean_of(self, phase: Phase, idle_w: float) -> tuple[float, float, float] | None:
        """Net power of a phase and its standard uncertainty, W, and what the power would lose per watt that
        trainings beside it draw more there; None where too little was seen of it.
        """
        own = self.phase_of[self.share.col] == phase
        row, data, count = self.share.row, self.share.data, len(self.watts)
        touched = np.bincount(row[own], data[own], count)
        beside = ~own & (touched[row] > 0.0)
        at = self.ends[beside], self.share.col[beside]
        others_w = np.bincount(row[beside], data[beside] * self.around_w[at], count)
        u_others = np.bincount(row[beside], data[beside] * self.u_around_w[at], count)
        above = self.watts - others_w - touched * idle_w  # of the readings that touch the phase
        # A window that saw two spans of the phase counts for each by its share.
        number, of = np.unique(self.span_of[self.share.col[own]], return_inverse=True)
        joules = np.bincount(of, data[own] / touched[row[own]] * above[row[own]])
        windows = np.bincount(of, data[own])
        if len(number) < MIN_SPANS or windows.sum() < MIN_WINDOWS:
            return None
        net_w = float(joules.sum() / windows.sum())
        off = joules - net_w * windows
        widened = float(scipy.special.stdtrit(len(number) - 1, TWO_SIGMA)) / 2.0
        scatter = widened * math.sqrt(len(number) / (len(number) - 1.0) * float(off @ off))
        trainings = beside & (self.phase_of[self.share.col] == Phase.TRAIN)
        seen = float(windows.sum())
        return net_w, math.hypot(scatter, float(u_others.sum())) / seen, float(data[trainings].sum()) / seen
