"""Accounting one device: its readings and timeline become the rows of the ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import ACTIVE_PHASES, UNSTAMPED_PHASES, Outcome, Phase, PhaseSpan
from roambench.energy.energy_value import Energy, UncertaintyPart
from roambench.energy.idle.baseline import IdleBaselines, NoBaselines, idle_baselines
from roambench.energy.idle.heat import heat_of
from roambench.energy.idle.local_idle import (
    NEAR_S,
    IdleReadings,
    idle_lines,
    idle_readings,
    quiet_readings,
)
from roambench.energy.integrate import (
    GAP_PERIODS,
    Floats,
    PowerCurve,
    covered_by_span,
    power_curve,
    span_stamps,
    trapezoid_by_span,
)
from roambench.energy.ledger import LedgerRow
from roambench.energy.readings.occupancy import SP2_STEP_W, SP2_WINDOW, MeterWindow
from roambench.energy.readings.periods import places
from roambench.energy.readings.samples import PowerSamples, without_bursts
from roambench.energy.rest_checks import ArrivedPower, RestChecks, rest_checks
from roambench.energy.rests import GUARD_SHARE, QUIET_PHASES, Window, rest_of, windows_of
from roambench.energy.touching import BORDER_S, PRIOR_W, phase_powers
from roambench.energy.uncertainty import MeterCalibration
from roambench.energy.window_sums import (
    BEFORE_S,
    cells_of,
    gaps_in,
    sampling_j2,
    scatter,
    u_idle_j,
    window_sums,
)

#: Mean idle power under a window may lie off the straight line by this share of its change (k = 1).
BENT: Final = 0.15
#: Share of a line that counts as having seen a board at work while it waited.
UNSEEN_SHARE: Final = 0.1


class Method(StrEnum):
    """The way a device's joules were divided over its phases."""

    RESTS = "rests"  # sums of readings around each phase
    TOUCHING = "touching"  # phases touch: constant powers, a model
    NOTHING = "nothing"  # no reading


@dataclass(frozen=True, slots=True)
class Split:
    """The way the rows were made. `rest_s` and `guard_s` are 0 where phases touch, `idle_w` is NaN
    unmeasured.

    `excess` says by phase how much more the sums of its windows scatter than the meter's sampling explains.
    """

    method: Method
    rest_s: float
    guard_s: float
    idle_w: float
    excess: Mapping[Phase, float]
    checks: RestChecks


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """Everything known of one device's energy: its rows, the whole run, and how the rows were made.

    `idle` are the baselines before and after the work. `dark_s` of the covered time is time without power in
    which nothing was read.
    """

    device: str
    rows: list[LedgerRow]
    whole_run: Energy  # without the meter's own part; `uncertainty.with_meter` adds it
    curve: PowerCurve
    split: Split
    idle: IdleBaselines | NoBaselines
    period_s: float
    dark_s: float = 0.0


@dataclass(slots=True)
class _Columns:
    """Values of each span, shape (spans,): joules above idle, idle power, and uncertainties in J.

    `own_j` is the span's own, `idle_j` of the net energy and `idle_gross_j` of the gross one come of the
    board's idle power, `level_j` is shared by all spans of the phase, or, with its sign, by all that have one
    `sharing`, the phases of their window. `border_j` is the span's own, too, but as much is in the span
    beside it, with the other sign. `missed_j` is of the whole run's energy: how far lines that fell here or
    there miss the span's power; 0 where `own_j` has that.
    """

    above_j: Floats
    idle_w: Floats
    own_j: Floats
    idle_j: Floats
    idle_gross_j: Floats
    level_j: Floats
    border_j: Floats
    missed_j: Floats
    sharing: dict[int, str] = field(init=False, default_factory=dict)

    @classmethod
    def empty(cls, count: int) -> _Columns:
        return cls(*(np.zeros(count) for _ in range(8)))


def account_device(
    samples: PowerSamples,
    spans: Sequence[PhaseSpan],
    outcomes: Mapping[str, Outcome],
    step_of_training: Mapping[str, int],
    calibration: MeterCalibration,
    start_ns: int,
    end_ns: int,
    nominal_s: float = 1.0,
    *,
    window: MeterWindow = SP2_WINDOW,
    step_w: float = SP2_STEP_W,
    u_clock_s: float = 0.0,
) -> DeviceAccount:
    """Account one device: `spans` is its complete timeline (see `timeline.complete_timeline`).

    A training without an outcome in `outcomes` is pending. An upload's row carries the round of its training.
    `nominal_s`, `window` and `step_w` are the meter's traits, `u_clock_s` is the standard uncertainty between
    the clocks of readings and phases.
    """
    device = spans[0].device if spans else ""
    corrected = PowerSamples(samples.ns, calibration.correct(samples.watts))
    delay_s = 0.5 * window.support_s
    curve = power_curve(corrected, start_ns, end_ns, nominal_s, delay_s, window.window_s, step_w)
    steady = without_bursts(corrected, nominal_s).samples
    origin_ns = spans[0].start_ns if spans else start_ns
    at_s, watts = np.multiply(steady.ns - origin_ns, 1e-9), steady.watts
    period_s = float(np.median(np.diff(at_s))) if len(at_s) > 1 else nominal_s
    seen = _Board(at_s, watts, spans, curve, nominal_s, period_s, window, step_w, u_clock_s)
    columns, split = _split(seen)
    edges_j = curve.step_across_w * (BEFORE_S / 3.0 + u_clock_s)
    # How far the sums of phases scatter holds for the whole, too, where the meter does not look all the time;
    # one that does sees the board's power vary.
    unseen = max(0.0, 1.0 - window.window_s / period_s)
    at_work = ACTIVE_PHASES | UNSTAMPED_PHASES
    worked = np.array([span.phase in at_work for span in spans], np.bool_)
    own_j, aside_j = (unseen * float(np.linalg.norm(columns.own_j[which])) for which in (worked, ~worked))
    # Lines that missed a phase do not show what they missed; its power by those that saw another does.
    own_j = max(own_j, float(np.linalg.norm(columns.missed_j)))
    # Without power a board draws nothing, which no meter has to see.
    off = [span for span in spans if span.phase is Phase.OFF]
    dark_s = math.fsum(span.duration_s for span in off) - float(covered_by_span(curve, off).sum())
    seen_j = curve.energy()
    seen_j = replace(seen_j, covered_s=seen_j.covered_s + dark_s, gap_s=max(0.0, seen_j.gap_s - dark_s))
    sampled_j = math.hypot(aside_j, math.sqrt(max(0.0, own_j**2 - curve.energy().u_joules ** 2)))
    return DeviceAccount(
        device,
        _rows(spans, columns, curve, calibration, outcomes, step_of_training),
        seen_j.with_terms(
            (UncertaintyPart.EDGES, device, edges_j),
            (UncertaintyPart.SAMPLING, "", sampled_j),
        ),
        curve,
        split,
        idle_baselines(corrected, spans, window, step_w),
        period_s,
        dark_s,
    )


@dataclass(frozen=True, slots=True)
class _Board:
    """The readings that a meter made of one device: arrivals in seconds after the timeline's start and watts,
    shape (readings,), the timeline, the seconds that count, and the meter's traits."""

    at_s: Floats
    watts: Floats
    spans: Sequence[PhaseSpan]
    curve: PowerCurve
    nominal_s: float
    period_s: float  # median time from line to line
    window: MeterWindow
    step_w: float
    u_clock_s: float


def _split(seen: _Board) -> tuple[_Columns, Split]:
    """Return what each span drew, by sums around rests where there are any, else by constant powers."""
    spans, rest_s = seen.spans, rest_of(seen.spans)
    if not len(seen.at_s) or not spans:
        return _Columns.empty(len(spans)), Split(Method.NOTHING, 0.0, 0.0, np.nan, {}, RestChecks())
    windows = windows_of(spans, GUARD_SHARE * rest_s) if rest_s else []
    if windows:
        chosen = quiet_readings(seen.at_s, spans, windows, seen.window)
        quiet = idle_readings(seen.at_s[chosen], seen.watts[chosen], seen.period_s)
        if quiet is not None:
            return _around_rests(seen, windows, chosen, quiet, rest_s)
    return _touching(seen)


def _around_rests(
    seen: _Board,
    windows: Sequence[Window],
    chosen: npt.NDArray[np.bool_],
    quiet: IdleReadings,
    rest_s: float,
) -> tuple[_Columns, Split]:
    """Sums over `windows` above lines through the readings `chosen` as quiet, and what is left to the
    background."""
    at_s, spans, guard_s = seen.at_s, seen.spans, GUARD_SHARE * rest_s
    heat = heat_of(quiet.at_s, quiet.watts, spans)
    warm = heat.shape(quiet.at_s)
    quiet = replace(quiet, watts=quiet.watts - heat.idle_w * warm)
    warmth = heat.shape(at_s)
    watts = seen.watts - heat.idle_w * warmth
    lines = idle_lines(quiet, windows)
    cells_s = cells_of(at_s, seen.period_s, GAP_PERIODS * seen.nominal_s)
    delay_s = 0.5 * seen.window.support_s
    before_s = BEFORE_S + 3.0 * seen.u_clock_s
    sums = window_sums(at_s, watts, cells_s, windows, lines, quiet, seen.period_s, before_s, delay_s)
    columns = _Columns.empty(len(spans))
    origin_ns = spans[0].start_ns
    starts_s, ends_s = (np.multiply(stamps - origin_ns, 1e-9) for stamps in span_stamps(spans))
    # Idle power at any moment: the lines within the windows, and straight from one to the next.
    knots_s = np.concatenate([[w.start_s, w.until_s] for w in windows])
    knots_w = np.concatenate([lines.at(j, np.array([w.start_s, w.until_s])) for j, w in enumerate(windows)])
    far_s, far_w = _far_from_windows(quiet, windows)
    order = np.argsort(np.concatenate((knots_s, far_s)), kind="stable")
    knots_s, knots_w = np.concatenate((knots_s, far_s))[order], np.concatenate((knots_w, far_w))[order]
    middles_s = np.stack((starts_s, 0.5 * (starts_s + ends_s), ends_s))
    warm_then = np.stack([heat.shape(moments_s) for moments_s in middles_s])
    middles = np.interp(middles_s, knots_s, knots_w) + heat.idle_w * warm_then
    columns.idle_w[:] = np.array([1.0, 4.0, 1.0]) / 6.0 @ middles
    # Readings outside of all windows are those of the background span in the middle of what they saw.
    middle_s = at_s - delay_s
    home = np.clip(places(starts_s, middle_s, "right") - 1, 0, len(spans) - 1)
    inside = sums.window_of >= 0
    outside = ~inside & (at_s >= 0.0) & (at_s <= ends_s[-1])
    warm_j = np.bincount(sums.window_of[inside], (cells_s * warmth)[inside], len(windows))
    above_w = watts - np.interp(at_s, knots_s, knots_w)
    columns.above_j += np.bincount(home[outside], (cells_s * above_w)[outside], len(spans))
    # Within one they are those of the last active span that had begun by then, which is when they arrived
    # where the meter saw a whole rest before it.
    active = [[i for i in w.active if spans[i].duration_s > 0.0] or [*w.active] for w in windows]
    first, every = np.cumsum([0, *map(len, active)]), np.concatenate(active)
    apart_s = starts_s[every] - np.append(-np.inf, ends_s[every[:-1]])
    begun = places(starts_s[every] + np.maximum(0.0, delay_s - 0.5 * apart_s), at_s[inside], "right") - 1
    owner = every[np.maximum(begun, first[sums.window_of[inside]])]
    parts_j = np.asarray(np.bincount(owner, (cells_s * above_w)[inside], len(spans)), np.float64)
    covered_s = covered_by_span(seen.curve, spans)
    columns.own_j[:] = quiet.sd_w * np.sqrt(np.maximum(covered_s * seen.period_s, 0.0))
    _widen_lost(columns, seen)
    every_s = sum(w.until_s - w.start_s for w in windows)
    u_idle_w = u_idle_j(range(len(windows)), windows, lines, quiet, seen.step_w) / every_s
    background = np.array([span.phase not in QUIET_PHASES for span in spans])
    columns.idle_j[:] = np.where(background, u_idle_w * covered_s, 0.0)
    # Waiting is sampled, too, and a line is as old as the meter's window: borders leave something open. What
    # few lines saw of it may have been more: as if a share of a line had seen the board at work.
    phases = np.array([span.phase.value for span in spans])
    unseen_s = UNSEEN_SHARE * seen.period_s
    worked_s = max(sum(w.end_s - w.start_s for w in windows), seen.period_s)
    unseen_j = unseen_s * abs(float(sums.joules.sum())) / worked_s
    for phase in set(phases[background]) - ACTIVE_PHASES:
        of = (phases == phase) & (covered_s > 0.0)
        power_w = (abs(float(columns.above_j[of].sum())) + unseen_j) / (float(covered_s[of].sum()) + unseen_s)
        sampled_j2 = sampling_j2(power_w, covered_s[of], seen.period_s, seen.window.window_s)
        columns.own_j[of] = np.sqrt(np.square(columns.own_j[of]) + sampled_j2)
        columns.level_j[of] = power_w * np.minimum(BORDER_S, covered_s[of])
    excess: dict[Phase, float] = {}
    hidden_s, whole = gaps_in(at_s, windows, GAP_PERIODS * seen.nominal_s, delay_s)
    kinds = [tuple(dict.fromkeys(spans[i].phase for i in w.active)) for w in windows]
    for kind in dict.fromkeys(kinds):
        own = [j for j, other in enumerate(kinds) if other == kind]
        length_s = np.array([windows[j].end_s - windows[j].start_s for j in own]) - hidden_s[own]
        u_j, excess_of_kind = scatter(
            sums.joules[own], length_s, sums.noise_j2[own], seen.period_s, seen.window.window_s, whole[own]
        )
        if len(kind) == 1:
            excess[kind[0]] = excess_of_kind
        whole_s = np.array([windows[j].until_s - windows[j].start_s for j in own])
        # Between two ends idle power need not be on the straight line: a board warms up at once, or late.
        bent_j = BENT * float(np.abs(lines.slope_w_per_s[own]) @ np.square(whole_s))
        # What the last quarter of the guards brought tells how much may come after them.
        after_j = 0.5 * abs(float(sums.last_quarter_j[own].sum()))
        warm_s = sum(
            float(warm_j[j]) - lines.mean_of(j, warm) * (windows[j].until_s - windows[j].start_s) for j in own
        )
        heat_j = heat.u_w * warm_s if heat.idle_w else 0.0
        shared_j = math.hypot(u_idle_j(own, windows, lines, quiet, seen.step_w), bent_j, after_j, heat_j)
        idle_w = shared_j / float(whole_s.sum())
        for j, u, seconds in zip(own, u_j.tolist(), whole_s.tolist(), strict=True):
            _share_out(columns, spans, windows[j], parts_j, float(sums.joules[j]), u, idle_w * seconds)
    _doubt_borders(columns, seen, windows)
    total_s = float(covered_s.sum())
    split = Split(
        Method.RESTS,
        rest_s,
        guard_s,
        float(columns.idle_w @ covered_s) / total_s if total_s else float("nan"),
        excess,
        rest_checks(
            ArrivedPower(at_s, watts),
            ArrivedPower(at_s[chosen], watts[chosen]),
            heat,
            spans,
            windows,
            sums.joules,
            sums.last_quarter_j,
            seen.period_s,
            guard_s,
        ),
    )
    return columns, split


def _widen_lost(columns: _Columns, seen: _Board) -> None:
    """Widen LOST time, in which the board's work is unknown: its joules are as uncertain as what was sampled
    of it."""
    sampled_j = seen.curve.u_between(*span_stamps(seen.spans))
    lost = np.array([span.phase in UNSTAMPED_PHASES for span in seen.spans], np.bool_)
    columns.own_j[lost] = np.maximum(columns.own_j, sampled_j)[lost]


def _share_out(
    columns: _Columns,
    spans: Sequence[PhaseSpan],
    window: Window,
    parts_j: Floats,
    joules: float,
    u_j: float,
    idle_j: float,
) -> None:
    """A window's joules to its active span, or to each that of its lines; what lies between idles."""
    seconds = np.array([spans[i].duration_s for i in window.active])
    shares = seconds / seconds.sum() if seconds.sum() > 0.0 else np.full(len(seconds), 1.0 / len(seconds))
    for i, share in zip(window.active, shares.tolist(), strict=True):
        columns.above_j[i] = joules if len(shares) == 1 else parts_j[i]
        columns.own_j[i] = u_j * np.sqrt(share)
        columns.idle_j[i] = share * idle_j
        columns.idle_gross_j[i] = max(
            0.0, share * idle_j * (1.0 - seconds.sum() / (window.until_s - window.start_s))
        )


def _doubt_borders(columns: _Columns, seen: _Board, windows: Sequence[Window]) -> None:
    """Widen spans that share a window: what one has too much at their border, the other has too little.

    A border is as uncertain as where phases touch, in all windows of these phases alike, and by the time from
    line to line and what a line sees, in each window otherwise. Both cancel within one phase. Phases that are
    further apart are in no line together.
    """
    spans = seen.spans
    power_w = {}
    for phase in {spans[i].phase for w in windows for i in w.active}:
        own = [i for w in windows for i in w.active if spans[i].phase is phase]
        seconds = math.fsum(spans[i].duration_s for i in own)
        power_w[phase] = abs(float(columns.above_j[own].sum())) / seconds if seconds else 0.0
    border_s = math.hypot(BORDER_S, seen.u_clock_s)
    line_s = math.hypot(seen.period_s, seen.window.support_s) / math.sqrt(12.0)
    for window in windows:
        kind = sorted({spans[i].phase for i in window.active})
        for k, (before, after) in enumerate(pairwise(window.active)):
            apart_s = (spans[after].start_ns - spans[before].end_ns) * 1e-9
            if apart_s > border_s + seen.window.support_s:
                continue
            alike = spans[before].phase is spans[after].phase
            common_s, own_s = (math.hypot(border_s, line_s), 0.0) if alike else (border_s, line_s)
            watts = max(power_w[spans[i].phase] for i in (before, after))
            for i, place in ((before, k), (after, k + 1)):
                side = (-1.0) ** (place if alike else kind.index(spans[i].phase))
                columns.level_j[i] += side * common_s * watts
                columns.border_j[i] = math.hypot(columns.border_j[i], own_s * watts)
                columns.sharing[i] = ", ".join(kind)


def _far_from_windows(quiet: IdleReadings, windows: Sequence[Window]) -> tuple[Floats, Floats]:
    """Moments and idle power where no window is near: means of the quiet readings of each `NEAR_S`."""
    starts = np.array([window.start_s for window in windows])
    ends = np.array([window.until_s for window in windows])
    place = places(starts, quiet.at_s)
    after_s = np.append(starts, np.inf)[place] - quiet.at_s
    before_s = quiet.at_s - np.concatenate(([-np.inf], ends))[place]
    far = np.minimum(after_s, before_s) > NEAR_S
    bins = np.floor(quiet.at_s[far] / NEAR_S).astype(np.int64)
    of_bin = np.cumsum(np.diff(bins, prepend=bins[:1]) > 0)
    count = np.bincount(of_bin)
    return tuple(np.bincount(of_bin, column[far]) / count for column in (quiet.at_s, quiet.watts))  # type: ignore[return-value]


def _touching(seen: _Board) -> tuple[_Columns, Split]:
    """Constant powers by phase: what is left where boards did not rest."""
    spans = seen.spans
    powers = phase_powers(seen.at_s, seen.watts, spans, seen.window, seen.u_clock_s)
    columns = _Columns.empty(len(spans))
    covered_s = covered_by_span(seen.curve, spans)
    measured_j = trapezoid_by_span(seen.curve, spans)
    idle_w = powers.watts.get(Phase.IDLE, min(powers.watts.values(), default=0.0))
    columns.idle_w[:] = idle_w
    u_idle_w = powers.u_w.get(Phase.IDLE, PRIOR_W)
    missed_j = np.sqrt(sampling_j2(1.0, covered_s, seen.period_s, seen.window.window_s))
    for i, span in enumerate(spans):
        seconds, level = float(covered_s[i]), powers.of(span.phase)
        columns.own_j[i] = powers.scatter_w * np.sqrt(seconds)
        columns.idle_j[i] = u_idle_w * seconds
        if span.phase in UNSTAMPED_PHASES:  # read here and there: what the board did there is not known
            columns.above_j[i] = measured_j[i] - idle_w * seconds
        elif level is not Phase.IDLE:
            columns.above_j[i] = (powers.watts[level] - idle_w) * seconds
            columns.level_j[i] = np.hypot(powers.u_w[level] * seconds, powers.border_j[i])
            if span.phase in ACTIVE_PHASES and seconds:
                above_w = np.hypot(powers.watts[level] - idle_w, powers.u_w[level])
                columns.missed_j[i] = missed_j[i] * above_w
    _widen_lost(columns, seen)
    return columns, Split(Method.TOUCHING, 0.0, 0.0, idle_w, {}, RestChecks())


def _rows(
    spans: Sequence[PhaseSpan],
    columns: _Columns,
    curve: PowerCurve,
    calibration: MeterCalibration,
    outcomes: Mapping[str, Outcome],
    step_of_training: Mapping[str, int],
) -> list[LedgerRow]:
    """The ledger's rows, parallel to `spans`, with the uncertainty of their meter."""
    covered_s = covered_by_span(curve, spans) if spans else np.zeros(0)
    naive_j = trapezoid_by_span(curve, spans) if spans else np.zeros(0)
    rows = []
    for i, span in enumerate(spans):
        active = span.phase in ACTIVE_PHASES
        # A cloud aggregation's model on its way to a device belongs to no training: it has no outcome.
        serves = active and bool(span.train_order_id)
        seconds, above_j = float(covered_s[i]), float(columns.above_j[i]) if covered_s[i] else 0.0
        gross_j = above_j + float(columns.idle_w[i]) * seconds
        off = span.phase is Phase.OFF
        net_j = 0.0 if off or span.phase in QUIET_PHASES else above_j
        own_j, border_j, idle_j, idle_gross_j, level_j = (
            float(column[i]) if seconds else 0.0
            for column in (
                *(columns.own_j, columns.border_j),
                *(columns.idle_j, columns.idle_gross_j, columns.level_j),
            )
        )
        read = seconds / span.duration_s if off and span.duration_s else 1.0
        rows.append(
            LedgerRow(
                device=span.device,
                step=step_of_training.get(span.train_order_id, span.step) if active else span.step,
                phase=span.phase,
                outcome=outcomes.get(span.train_order_id, Outcome.PENDING) if serves else None,
                train_order_id=span.train_order_id,
                duration_s=span.duration_s,
                covered_s=span.duration_s if off else seconds,
                gross_j=gross_j if seconds else 0.0,
                net_j=net_j,
                u_own_j=math.hypot(own_j, border_j),
                naive_j=float(naive_j[i]),
                u_gain=calibration.u_gain,
                u_offset_w=read * calibration.u_offset_w,
                u_idle_j=0.0 if off else idle_j,
                u_idle_gross_j=idle_gross_j,
                u_level_j=level_j,
                sharing=columns.sharing.get(i, ""),
                u_reference=calibration.u_reference,
                reference=calibration.reference,
            )
        )
    return rows
