"""Energy per phase by generalised least squares (rule R3): what each phase draws, with its covariance.

The order of phases is fixed (idle, download, train, upload, wait), so a trapezoid cut at the borders always
leaks training power into the transfers: a bias that no repetition averages away. Instead every reading is

    reading_k = sum over spans of occupancy(window_k, span) * P_span + error_k

with P_span scattering about its phase type's mean, and a span's energy is P_span * its measured seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.attribution import Attribution
from roambench.energy.attribution.constant_powers import ConstantPowers, ReadingArrays, apart, constant_powers
from roambench.energy.attribution.fit_check import (
    fewest_offsets,
    locked_levels,
    restless_levels,
    worst_misfit,
)
from roambench.energy.attribution.near_transfers import Fitted
from roambench.energy.attribution.pieces import ENDING, STARTING, TAIL, TRANSFERS, pieces_of
from roambench.energy.attribution.span_powers import MIN_SPANS
from roambench.energy.attribution.steadiness import (
    CLOCK_U_S,
    Known,
    NoClock,
    Steadiness,
    fit_known,
    steadiness,
)
from roambench.energy.clocks.lateness import BOARD_LATENESS_S, LATENESS_PRIOR_S
from roambench.energy.readings.occupancy import SP2_STEP_W, SP2_WINDOW, Floats, MeterWindow
from roambench.energy.readings.samples import FreshSamples, PowerSamples, first_looks

#: Windows that spans before trainings last at least, where the beginnings of trainings are told apart.
WINDOWS_BEFORE: Final = 3.0


def attribute(
    samples: PowerSamples | FreshSamples,
    spans: Sequence[PhaseSpan],
    *,
    nominal_s: float = 1.0,
    window: MeterWindow = SP2_WINDOW,
    step_w: float = SP2_STEP_W,
    own_level_s: float | None = None,
    fit_lateness: bool = False,
    late_prior_s: float = LATENESS_PRIOR_S,
    u_clock_s: float = 0.0,
) -> Attribution:
    """Fit the power of every span of one device from its raw arrivals (device time, not shifted), or from
    their `first_looks`, of which an idle power that moves may have been taken off.

    `spans` are sorted and do not overlap (`timeline.complete_timeline`); readings whose window touches a
    LOST span or a hole are left out. What is stamped idle is one level, and so is all background before and
    after the work (the baselines, R8). A wait or an absence within it has a level of its own: there records
    are drained and a radio dies down, which is no idling. Transfers share a level where they
    ran at about the same rate (`transfer_kinds`). One whose first and last bytes are stamped waits before
    and after them (`pieces_of`): the waiting of a direction is one more level, which without readings of its
    own lies between idle and moving. Trainings that are seen to begin with another power than they go on with
    have a level for their beginnings. Where the meter's clock was looked for and bears nothing out, all have
    one for their beginnings, and one for their ends unless transfers are seen to have a shape. A span of
    `own_level_s` or longer gets a level of its own, which shares nothing with its type's mean.

    `fit_lateness` also finds how much later than `window` says the lines arrive against the phase stamps
    (USB buffers, borders stamped late, an emulation run faster than real time). 20 ms not accounted for
    turn the net energy of 0.5 s downloads by -6 %, 60 ms by -14 %; 2 s ones by less than 1 %. Short
    transfers hardly tell lateness from power: how late lines may be is `late_prior_s` (k = 1). `u_clock_s`
    is the standard uncertainty between the clocks of readings and phases; 0 where they are one (R2).

    A level that hardly any reading saw is held by a weak prior, the middle of the readings +- their range,
    so its energy stays physical and its uncertainty says that it was not measured.
    """
    arrivals = samples
    if isinstance(arrivals, PowerSamples):
        arrivals = first_looks(arrivals, nominal_s, window.window_s)
    seen = replace(window, latch_s=min(window.latch_s, nominal_s)) if arrivals.fresh else window
    origin_ns = spans[0].start_ns if spans else 0
    at_s, watts = np.multiply(arrivals.samples.ns - origin_ns, 1e-9), arrivals.samples.watts
    readings = ReadingArrays(
        origin_ns, at_s, watts, seen, step_w, late_prior_s if fit_lateness else None, u_clock_s
    )
    chosen = constant_powers(pieces_of(spans), readings, own_level_s)
    begun = None
    if own_level_s is None and _beginnings_show(spans, seen):
        begun = constant_powers(pieces_of(spans, apart={STARTING}), readings, own_level_s)
        if begun.apart(STARTING):
            chosen = begun
    sparse = seen.misses_some(nominal_s)
    steady, known, no_clock = None, None, None
    if sparse and any(span.phase in TRANSFERS for span in spans):
        steady, known, no_clock = _clocked(chosen, readings, late_prior_s)
    if steady is not None and begun is not None:
        chosen, steady, known = _trainings_apart(spans, readings, chosen, begun, steady, known)
    cut, names, level_of_span = chosen.cut, chosen.levels, chosen.level_of_span
    final, fit, powers, slope_w = chosen.design, chosen.fit, chosen.powers, chosen.slope_w
    late_s, u_late_s, starts_s = chosen.late_s, chosen.u_late_s, chosen.starts_s
    begins = ~cut.amid
    misfit = None
    if powers is not None:
        misfit = worst_misfit(final, fit, powers, watts[final.used], names, dense=not sparse)
    restless: tuple[str, ...] = ()
    if powers is not None and sparse:
        restless = restless_levels(final, powers, watts[final.used], names)
    if steady is not None and known is not None:
        fit, powers, slope_w = known.fit, known.powers, known.slope_w
        late_s, u_late_s = steady.clock.late_s, CLOCK_U_S
    return Attribution(
        levels=names,
        watts=powers.level_watts if powers else fit.watts,
        covariance_w2=(powers.level_covariance if powers else fit.covariance) + np.outer(slope_w, slope_w),
        noise_sd_w=np.sqrt(fit.noise_w2),
        between_sd_w=powers.tau_w if powers else np.full(len(names), np.nan),
        seconds=chosen.seconds,
        readings=fit.readings,
        used_readings=fit.used_readings,
        prior_sd_w=fit.kind_sd,
        lateness_s=late_s,
        u_lateness_s=u_late_s,
        late_slope_w=slope_w,
        nominal_s=nominal_s,
        window=seen,
        spans=cut.spans,
        span_of=cut.span_of,
        level_of_span=level_of_span,
        spans_fit=powers,
        misfit=misfit,
        steadiness=steady,
        no_clock=no_clock,
        restless=restless,
        locked=locked_levels(at_s, starts_s[begins], level_of_span[begins], names, nominal_s)
        if sparse
        else (),
        offsets=fewest_offsets(at_s, starts_s[begins], level_of_span[begins], nominal_s),
    )


def _clocked(
    fit: ConstantPowers, readings: ReadingArrays, late_prior_s: float
) -> tuple[Steadiness | None, Known | None, NoClock | None]:
    """What the meter's conversion clock says of the transfers, the fit with the ages that it tells, and why
    it says nothing: each None where there is none.
    """
    not_looked_for = _not_looked_for(readings.window, late_prior_s, readings.u_clock_s)
    if not_looked_for is not None:
        return None, None, not_looked_for
    found = steadiness(_fitted(fit, readings), readings.window) if fit.powers is not None else None
    if found is None:
        return None, None, NoClock.FEW
    steady, known = found
    unclear = not steady.clock.found and not steady.contradicts
    return steady, known, NoClock.UNCLEAR if unclear else None


def _trainings_apart(
    spans: Sequence[PhaseSpan],
    readings: ReadingArrays,
    chosen: ConstantPowers,
    begun: ConstantPowers,
    steady: Steadiness,
    known: Known | None,
) -> tuple[ConstantPowers, Steadiness, Known | None]:
    """The fit in place of the `chosen` one, now that the clock was looked for, with what it says of that.

    Readings of unknown age did not tell how trainings begin (`begun`: the fit in which they do), and cannot
    tell how they end from how an upload begins. Those of known age may; where none are known, both stay
    uncertain. A shape that is found in transfers is none of a training's end.
    """
    if steady.contradicts:
        return begun, steady, known
    if not steady.bears_out:
        ended = constant_powers(pieces_of(spans, apart={STARTING, ENDING}), readings, None)
        return replace(ended, slope_w=_doubted(ended, begun)), steady, known
    if known is None:
        return chosen, steady, None
    parts = {STARTING} if chosen is begun else set()
    for part in [ENDING, STARTING] if not parts else [ENDING]:
        tried = constant_powers(pieces_of(spans, apart={*parts, part}), readings, None, chosen)
        also, misfit = fit_known(_fitted(tried, readings), steady.clock)
        if apart(part, tried.levels, also.powers, also.slope_w):
            chosen, known, steady = tried, also, replace(steady, misfit=misfit)
            parts.add(part)
    return chosen, steady, known


def _fitted(chosen: ConstantPowers, readings: ReadingArrays) -> Fitted:
    """A fit as the search for the meter's clock asks for it."""
    assert chosen.powers is not None
    final, cut = chosen.design, chosen.cut
    pieces = [cut.spans[i] for i in final.fitted.tolist()]
    waits = [cut.parts[i] not in (None, TAIL) for i in final.fitted.tolist()]
    watts, at_s = readings.watts[final.used], readings.at_s[final.used]
    return Fitted(
        final,
        chosen.fit,
        chosen.powers,
        watts,
        pieces,
        waits,
        chosen.levels,
        readings.step_w,
        at_s,
        chosen.late_s,
        cut.amid[final.fitted],
    )


def _not_looked_for(window: MeterWindow, late_prior_s: float, u_clock_s: float) -> NoClock | None:
    """Why the meter's conversion clock is not looked for, or None."""
    if not window.latch_s:
        return NoClock.NONE
    if late_prior_s > BOARD_LATENESS_S:
        return NoClock.FASTER
    return NoClock.HOSTS if u_clock_s > CLOCK_U_S else None


def _doubted(fit: ConstantPowers, other: ConstantPowers) -> Floats:
    """`slope_w` of a fit that may be as wrong as half of what parts its levels from those of the other, whose
    trainings go on to their end.
    """
    watts = dict(zip(other.levels, other.fit.watts.tolist(), strict=True))
    ending = f"{Phase.TRAIN.value} {ENDING.name}"
    same_w = [watts[name if name != ending else Phase.TRAIN.value] for name in fit.levels]
    apart_w = 0.5 * (np.array(same_w) - fit.fit.watts)
    larger = np.where(np.abs(apart_w) > np.abs(fit.slope_w), apart_w, fit.slope_w)
    return np.asarray(np.copysign(np.hypot(apart_w, fit.slope_w), larger))


def _beginnings_show(spans: Sequence[PhaseSpan], window: MeterWindow) -> bool:
    """Whether readings can tell what trainings begin with: there are some, and what comes before them lasts.

    A shape of short transfers and a shape of the training after them look alike.
    """
    before_s = [a.duration_s for a, b in pairwise(spans) if b.phase is Phase.TRAIN]
    return len(before_s) >= MIN_SPANS and float(np.median(before_s)) >= WINDOWS_BEFORE * window.window_s
