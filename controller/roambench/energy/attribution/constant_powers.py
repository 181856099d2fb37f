"""One power for each phase type (or kind of transfer), from readings of which nobody knows the age; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.energy.attribution.design import Design, Families, Waiting
from roambench.energy.attribution.least_squares import Fit, fit_levels, level_noise
from roambench.energy.attribution.pieces import STARTING, TAIL, Pieces, SpanPart
from roambench.energy.attribution.span_powers import SpanPowers, span_powers
from roambench.energy.attribution.transfer_kinds import kinds_of
from roambench.energy.clocks.lateness import LATENESS_BLUR_S, informative, likeliest_lateness
from roambench.energy.idle.idle_curve import APART, work_of
from roambench.energy.integrate import span_stamps
from roambench.energy.readings.occupancy import Columns, Floats, MeterWindow

#: Standard deviations from which on trainings are taken to begin or end with another power. It is low: where
#: they do not, that costs some certainty; where they do and it is not seen, transfers are wrong.
APART_Z: Final = 0.75


@dataclass(frozen=True, slots=True)
class ReadingArrays:
    """Arrivals (s since `origin_ns`) and watts, both of shape (readings,); the meter's window and step.

    `late_prior_s` (k = 1) is how late lines may be, None where that is not to be found out; `u_clock_s` the
    uncertainty between the clocks of readings and phases.
    """

    origin_ns: int
    at_s: Floats
    watts: Floats
    window: MeterWindow
    step_w: float
    late_prior_s: float | None
    u_clock_s: float


@dataclass(frozen=True, slots=True)
class ConstantPowers:
    """The fit, its pieces and levels (see `Attribution`, whose columns these are)."""

    cut: Pieces
    levels: tuple[str, ...]
    level_of_span: Columns
    families: Families
    starts_s: Floats  # of the pieces
    seconds: Floats
    late_s: float
    u_late_s: float
    design: Design
    fit: Fit
    powers: SpanPowers | None
    slope_w: Floats

    def apart(self, part: SpanPart) -> bool:
        """Whether trainings are seen to begin (or end) with another power than the rest of them has."""
        return self.powers is not None and apart(part, self.levels, self.powers, self.slope_w)


def apart(part: SpanPart, levels: tuple[str, ...], powers: SpanPowers, slope_w: Floats) -> bool:
    """Whether `levels` have one of that `part` of trainings, and it differs from what lies beside it."""
    own, whole = (f"{Phase.TRAIN.value} {one.name}" for one in (part, TAIL))
    if part is not STARTING or whole not in levels:
        whole = Phase.TRAIN.value
    if own not in levels or whole not in levels:
        return False
    contrast = np.zeros(len(levels))
    contrast[[levels.index(own), levels.index(whole)]] = 1.0, -1.0
    moved_w = float(contrast @ slope_w)
    u_w2 = float(contrast @ powers.level_covariance @ contrast) + moved_w**2
    return abs(float(contrast @ powers.level_watts)) > APART_Z * float(np.sqrt(u_w2))


def constant_powers(
    cut: Pieces, readings: ReadingArrays, own_level_s: float | None, like: ConstantPowers | None = None
) -> ConstantPowers:
    """Fit the pieces; `attribute` tells what shares a level, and what `own_level_s` is. Lines are as late as
    in the fit that this one is `like`; without one, that is found out.
    """
    names, level_of_span, families = _levels(cut, own_level_s)
    count = len(names)
    starts, ends = span_stamps(cut.spans)
    seconds = np.zeros(count)
    np.add.at(seconds, level_of_span[level_of_span >= 0], ((ends - starts) * 1e-9)[level_of_span >= 0])
    starts_s, ends_s = (np.multiply(ns - readings.origin_ns, 1e-9) for ns in (starts, ends))
    at_s, watts, step_w = readings.at_s, readings.watts, readings.step_w

    def design(late_s: float, chosen: Columns | slice = slice(None), jitter_s: float = 0.0) -> Design:
        late_at_s = at_s[chosen] - late_s
        return Design(
            late_at_s,
            starts_s,
            ends_s,
            level_of_span,
            count,
            readings.window,
            jitter_s,
            families,
            cut.power_of,
        )

    def fitted(late_s: float, chosen: Columns | slice = slice(None)) -> Fit:
        tried = design(late_s, chosen, LATENESS_BLUR_S)
        return fit_levels(tried, watts[chosen][tried.used], step_w, noise_w2)

    late_s, u_late_s = 0.0, readings.u_clock_s
    noise_w2 = None
    if like is not None:
        late_s, u_late_s = like.late_s, like.u_late_s
    elif readings.late_prior_s is not None:
        # Readings near borders have few neighbours in one span: by those alone one lateness would find the
        # noise of a meter and the next one that of the whole run, and likelihoods would not compare.
        plain = design(0.0)
        noise_w2 = level_noise(plain, watts[plain.used], step_w) if plain.used.any() else None
        # From waiting to idling power hardly changes: a border there tells nothing.
        # Nor does that of a stall: it passed through buffers, and lies in the middle of what is not known.
        resting = np.where(np.isin(level_of_span, families.resting), 0, level_of_span)
        moves = np.maximum.accumulate(np.where(cut.amid, 0, np.arange(len(resting))))
        near = informative(at_s, starts_s, ends_s, resting[moves], readings.window)
        late_s, u_late_s = likeliest_lateness(
            lambda tried_s: fitted(tried_s, near).surprise,
            prior_s=readings.late_prior_s,
            u_clock_s=readings.u_clock_s,
        )
    final = design(late_s, jitter_s=u_late_s)
    fit = fit_levels(final, watts[final.used], step_w)
    powers = span_powers(final, fit, watts[final.used]) if fit.used_readings else None
    slope_w = np.zeros(count)
    if u_late_s and powers is not None and like is None:
        slope_w = (fitted(late_s + 0.025).watts - fitted(late_s - 0.025).watts) / 0.05 * u_late_s
    return ConstantPowers(
        cut, names, level_of_span, families, starts_s, seconds, late_s, u_late_s, final, fit, powers, slope_w
    )


def _levels(cut: Pieces, own_level_s: float | None) -> tuple[tuple[str, ...], Columns, Families]:
    """Names of the levels (idle first), the level of each piece, -1 where nothing is to be fitted, and the
    family of each level: kinds of transfers of one direction are one, every other level is its own.
    """
    spans = cut.spans
    index: dict[str, int] = {Phase.IDLE.value: 0}
    family_of: dict[str, int] = {Phase.IDLE.value: 0}
    families = [0]
    others: dict[int, tuple[str, SpanPart]] = {}
    level_of_span = np.full(len(spans), -1, dtype=np.int64)
    first, last = work_of(spans)
    whole_s = np.bincount(cut.power_of, [span.duration_s for span in spans])[cut.power_of]
    for i, (span, kind) in enumerate(zip(spans, kinds_of(cut), strict=True)):
        if span.phase is Phase.LOST:
            continue
        apart = span.phase in APART and first < i < last
        family = span.phase.value if span.phase in ACTIVE_PHASES or apart else Phase.IDLE.value
        name = kind or family
        part = cut.parts[i]
        if part is TAIL:
            name = family = f"train {TAIL.name}" if span.phase is Phase.TRAIN else TAIL.name
        elif part is not None:
            name = family = f"{span.phase.value} {part.name}"
        elif own_level_s is not None and span.phase in ACTIVE_PHASES and whole_s[i] >= own_level_s:
            name = family = f"{span.phase.value}[{cut.power_of[i]}]"
        if name not in index:
            index[name] = len(index)
            if part is not None and part is not TAIL:
                others[index[name]] = (span.phase.value, part)
            families.append(family_of.setdefault(family, len(family_of)))
        level_of_span[i] = index[name]
    waits = {
        level: Waiting(family_of[phase], part.share, part.share_sd, part.scatter)
        for level, (phase, part) in others.items()
        if phase in family_of
    }
    resting = tuple(index[name] for name in (*(phase.value for phase in APART), TAIL.name) if name in index)
    return tuple(index), level_of_span, Families(np.array(families, dtype=np.int64), resting, waits)
