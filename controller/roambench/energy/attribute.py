"""Energy per phase by generalised least squares (ENERGY rule R3): what each phase draws, with its covariance.

The order of phases is fixed (idle, download, train, upload, wait), so a trapezoid cut at the borders always
leaks training power into the transfers: a bias that no repetition averages away. Instead every reading is

    reading_k = sum over spans of occupancy(window_k, span) * P_span + error_k

with P_span scattering about its phase type's mean, and a span's energy is P_span * its measured seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.attribution import Attribution
from roambench.energy.fit_check import fewest_offsets, locked_levels, restless_levels, worst_misfit
from roambench.energy.idle_curve import APART, work_of
from roambench.energy.integrate import span_stamps
from roambench.energy.lateness import (
    BOARD_LATENESS_S,
    LATENESS_BLUR_S,
    LATENESS_PRIOR_S,
    informative,
    likeliest_lateness,
)
from roambench.energy.least_squares import SP2_STEP_W, Design, Families, Fit, fit_levels, level_noise
from roambench.energy.near_transfers import Fitted
from roambench.energy.occupancy import SP2_WINDOW, Columns, MeterWindow
from roambench.energy.pieces import Pieces, pieces_of
from roambench.energy.samples import FreshSamples, PowerSamples, first_looks
from roambench.energy.span_powers import span_powers
from roambench.energy.steadiness import CLOCK_U_S, steadiness
from roambench.energy.transfer_kinds import kinds_of


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
    own lies between idle and moving. A span of `own_level_s` or longer gets a level of its own, which shares
    nothing with its type's mean.

    `fit_lateness` also finds how much later than `window` says the lines arrive against the phase stamps
    (USB buffers, borders stamped late, an emulation run faster than real time). 20 ms not accounted for
    turn the net energy of 0.5 s downloads by -6 %, 60 ms by -14 %; 2 s ones by less than 1 %. Short
    transfers hardly tell lateness from power: how late lines may be is `late_prior_s` (k = 1). `u_clock_s`
    is the standard uncertainty between the clocks of readings and phases; 0 where they are one (R2).

    A level that hardly any reading saw is held by a weak prior, the middle of the readings +- their range,
    so its energy stays physical and its uncertainty says that it was not measured.
    """
    cut = pieces_of(spans)
    names, level_of_span, families = _levels(cut, own_level_s)
    count = len(names)
    starts, ends = span_stamps(cut.spans)
    seconds = np.zeros(count)
    np.add.at(seconds, level_of_span[level_of_span >= 0], ((ends - starts) * 1e-9)[level_of_span >= 0])
    arrivals = samples
    if isinstance(arrivals, PowerSamples):
        arrivals = first_looks(arrivals, nominal_s, window.window_s)
    seen = replace(window, latch_s=min(window.latch_s, nominal_s)) if arrivals.fresh else window
    origin = int(starts[0]) if len(starts) else 0
    at_s, starts_s, ends_s = (np.multiply(ns - origin, 1e-9) for ns in (arrivals.samples.ns, starts, ends))
    watts = arrivals.samples.watts

    def design(late_s: float, chosen: Columns | slice = slice(None), jitter_s: float = 0.0) -> Design:
        late_at_s = at_s[chosen] - late_s
        return Design(late_at_s, starts_s, ends_s, level_of_span, count, seen, jitter_s, families)

    def fitted(late_s: float, chosen: Columns | slice = slice(None)) -> Fit:
        tried = design(late_s, chosen, LATENESS_BLUR_S)
        return fit_levels(tried, watts[chosen][tried.used], step_w, noise_w2)

    late_s, u_late_s = 0.0, u_clock_s
    noise_w2 = None
    if fit_lateness:
        # Readings near borders have few neighbours in one span: by those alone one lateness would find the
        # noise of a meter and the next one that of the whole run, and likelihoods would not compare.
        plain = design(0.0)
        noise_w2 = level_noise(plain, watts[plain.used], step_w) if plain.used.any() else None
        # From waiting to idling power hardly changes: a border there tells nothing.
        resting = np.where(np.isin(level_of_span, families.resting), 0, level_of_span)
        near = informative(at_s, starts_s, ends_s, resting, seen)
        late_s, u_late_s = likeliest_lateness(
            lambda tried_s: fitted(tried_s, near).surprise, prior_s=late_prior_s, u_clock_s=u_clock_s
        )
    final = design(late_s, jitter_s=u_late_s)
    fit = fit_levels(final, watts[final.used], step_w)
    powers = span_powers(final, fit, watts[final.used]) if fit.used_readings else None
    misfit = worst_misfit(final, fit, powers, watts[final.used], names) if powers is not None else None
    slope_w = np.zeros(count)
    if u_late_s and powers is not None:
        slope_w = (fitted(late_s + 0.025).watts - fitted(late_s - 0.025).watts) / 0.05 * u_late_s
    # A meter whose windows lie end to end misses nothing, and has no unknown age worth the search. Kinds of
    # a few transfers each have no readings to spare for it: wrong clocks would be found.
    alike = int(np.bincount(families.of_level).max()) == 1
    sparse = nominal_s > 1.5 * seen.window_s
    checked = None
    restless: tuple[str, ...] = ()
    if powers is not None and sparse:
        restless = restless_levels(final, powers, watts[final.used], names)
    told_apart = late_prior_s <= BOARD_LATENESS_S and u_clock_s <= CLOCK_U_S
    if powers is not None and sparse and alike and told_apart:
        pieces = [cut.spans[i] for i in final.fitted.tolist()]
        waits = [cut.waits[i] for i in final.fitted.tolist()]
        used = Fitted(
            final, fit, powers, watts[final.used], pieces, waits, names, step_w, at_s[final.used], late_s
        )
        checked = steadiness(used, seen)
    told, known = checked if checked is not None else (None, None)
    if told is not None and known is not None:
        fit, powers, slope_w = known.fit, known.powers, known.slope_w
        late_s, u_late_s = told.clock.late_s, CLOCK_U_S
    return Attribution(
        levels=names,
        watts=powers.level_watts if powers else fit.watts,
        covariance_w2=(powers.level_covariance if powers else fit.covariance) + np.outer(slope_w, slope_w),
        noise_sd_w=np.sqrt(fit.noise_w2),
        between_sd_w=powers.tau_w if powers else np.full(count, np.nan),
        seconds=seconds,
        readings=fit.readings,
        residual_sd_w=fit.residual_sd,
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
        steadiness=told,
        restless=restless,
        locked=locked_levels(at_s, starts_s, level_of_span, names, nominal_s) if sparse else (),
        offsets=fewest_offsets(at_s, starts_s, level_of_span, nominal_s),
    )


def _levels(cut: Pieces, own_level_s: float | None) -> tuple[tuple[str, ...], Columns, Families]:
    """Names of the levels (idle first), the level of each piece, -1 where nothing is to be fitted, and the
    family of each level: kinds of transfers of one direction are one, every other level is its own.
    """
    spans = cut.spans
    index: dict[str, int] = {Phase.IDLE.value: 0}
    family_of: dict[str, int] = {Phase.IDLE.value: 0}
    families = [0]
    waiting: dict[int, str] = {}
    level_of_span = np.full(len(spans), -1, dtype=np.int64)
    first, last = work_of(spans)
    for i, (span, kind) in enumerate(zip(spans, kinds_of(cut), strict=True)):
        if span.phase is Phase.LOST:
            continue
        apart = span.phase in APART and first < i < last
        family = span.phase.value if span.phase in ACTIVE_PHASES or apart else Phase.IDLE.value
        name = kind or family
        if cut.waits[i]:
            name = family = f"{span.phase.value} waiting"
        elif own_level_s is not None and span.phase in ACTIVE_PHASES and span.duration_s >= own_level_s:
            name = family = f"{span.phase.value}[{i}]"
        if name not in index:
            index[name] = len(index)
            if cut.waits[i]:
                waiting[index[name]] = span.phase.value
            families.append(family_of.setdefault(family, len(family_of)))
        level_of_span[i] = index[name]
    moves = {level: family_of[phase] for level, phase in waiting.items() if phase in family_of}
    resting = tuple(index[phase.value] for phase in APART if phase.value in index)
    return tuple(index), level_of_span, Families(np.array(families, dtype=np.int64), resting, moves)
