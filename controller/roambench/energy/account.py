"""Accounting one device: its readings and timeline become the rows of the ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Outcome, Phase, PhaseSpan
from roambench.energy.attribution.attribute import attribute
from roambench.energy.attribution.attribution import Attribution, Resolution
from roambench.energy.attribution.design_based import DesignBased, design_based, in_doubt, instead
from roambench.energy.attribution.span_energy import SpanEnergy
from roambench.energy.clocks.lateness import LATENESS_PRIOR_S
from roambench.energy.energy_value import Energy, UncertaintyPart
from roambench.energy.idle.baseline import IdleBaselines, NoBaselines, idle_baselines
from roambench.energy.idle.idle_curve import APART, IdleCurve, idle_curve, work_of
from roambench.energy.integrate import Floats, PowerCurve, power_curve, span_stamps, trapezoid_by_span
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.energy.readings.occupancy import SP2_STEP_W, SP2_WINDOW, MeterWindow
from roambench.energy.readings.samples import FreshSamples, PowerSamples, split_looks
from roambench.energy.uncertainty import MeterCalibration

#: Standard uncertainties within which the rows add up to the whole run.
CLOSURE_U: Final = 3.0


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """Everything known of one device's energy: its rows, the whole run, and the fit behind the rows.

    `idle` are the baselines before and after the work. `resolutions` says of each phase type whether the
    meter was fast enough for it (R7). `design_based` are the estimates beside the split. `closure_u` is how
    much more the rows hold than the trapezoid over the same seconds, in standard uncertainties.
    """

    device: str
    rows: list[LedgerRow]
    whole_run: Energy  # without the meter's own part; `uncertainty.with_meter` adds it
    curve: PowerCurve
    attribution: Attribution
    idle: IdleBaselines | NoBaselines
    resolutions: Mapping[Phase, Resolution]
    design_based: Mapping[Phase, DesignBased]
    closure_u: float

    @property
    def closed(self) -> bool:
        """Whether the split adds up to the whole run: two ways of reading the same lines agree."""
        return abs(self.closure_u) <= CLOSURE_U

    @property
    def contradicted(self) -> bool:
        """Whether the readings speak against what the split assumes, or against its sum."""
        return self.attribution.contradicted or not self.closed


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
    fit_lateness: bool = True,
    late_prior_s: float = LATENESS_PRIOR_S,
    u_clock_s: float = 0.0,
) -> DeviceAccount:
    """Account one device: `spans` is its complete timeline (see `timeline.complete_timeline`).

    A training without an outcome in `outcomes` is pending. An upload's row carries the round of its training.
    `nominal_s`, `window` and `step_w` are the meter's traits. `fit_lateness` finds how late the lines
    arrive, `late_prior_s` is how late they may, `u_clock_s` the uncertainty between the meter's clock and
    the board's, as `attribute` explains them.
    Net energies leave out the idle power of their own moment (`idle_curve`); where too few readings saw the
    board idling, the level that the fit has for it.
    """
    device = spans[0].device if spans else ""
    corrected = PowerSamples(samples.ns, calibration.correct(samples.watts))
    delay_s = 0.5 * window.support_s
    curve = power_curve(corrected, start_ns, end_ns, nominal_s, delay_s, window.window_s, step_w)
    looks, nominal_s, window_s = split_looks(corrected, nominal_s, window.window_s)
    steady, window = looks.samples, replace(window, window_s=window_s)
    delay_s = 0.5 * window.support_s
    idling = idle_curve(steady, spans, window, step_w, start_ns)
    if idling is not None:
        seen_s = np.multiply(steady.ns - start_ns, 1e-9) - delay_s
        steady = PowerSamples(steady.ns, steady.watts - idling.above_level(seen_s))
    fit = attribute(
        FreshSamples(steady, looks.fresh),
        spans,
        nominal_s=nominal_s,
        window=window,
        step_w=step_w,
        fit_lateness=fit_lateness,
        late_prior_s=late_prior_s,
        u_clock_s=u_clock_s,
    )
    idle = idle_baselines(corrected, spans, window, step_w)
    level_w = fit.idle_w if idling is None else idling.level_w
    unmodelled = design_based(steady, spans, fit, level_w, late_prior_s)
    preferred = {phase: unmodelled[phase] for phase in in_doubt(fit) & unmodelled.keys()}
    several = {phase for phase in preferred if fit.several_kinds(phase)}
    parts = instead(fit.span_energies(curve), spans, preferred, level_w, fit.u_idle_w, several)
    naive = trapezoid_by_span(curve, spans)
    u_naive = curve.u_between(*span_stamps(spans))
    above_w, u_idle_of = _idle_of(idling, spans, [part.covered_s for part in parts], start_ns)
    first, last = work_of(spans)
    late_shared = min(1.0, fit.u_lateness_s / late_prior_s) if fit_lateness and late_prior_s else 0.0
    waiting_w = {phase: fit.u_waiting_w(phase) for phase in ACTIVE_PHASES}
    rows = []
    for i, span in enumerate(spans):
        active, part = span.phase in ACTIVE_PHASES, parts[i]
        works = active or span.phase is Phase.LOST or (span.phase in APART and first < i < last)
        above_j, u_idle_shared_w = float(above_w[i]) * part.covered_s, 0.0
        if span.phase is Phase.LOST:
            part = _sampled(part, float(naive[i]) - above_j, float(u_naive[i]), fit)
        if works and span.phase in u_idle_of:
            u_idle_w, u_idle_shared_w = u_idle_of[span.phase]
            part = part.above(level_w, u_idle_w)
        estimate = preferred.get(span.phase)
        border_w = waiting_w.get(span.phase, 0.0) if estimate is None else estimate.u_shared_w
        # A cloud aggregation's model on its way to a device belongs to no training: it has no outcome.
        serves = active and bool(span.train_order_id)
        rows.append(
            _row(
                span,
                part,
                calibration,
                step=step_of_training.get(span.train_order_id, span.step) if active else span.step,
                outcome=outcomes.get(span.train_order_id, Outcome.PENDING) if serves else None,
                gross_j=part.gross_j + above_j,
                naive_j=float(naive[i]),
                design_based=works and estimate is not None,
                late_shared=late_shared,
                u_idle_shared_w=u_idle_shared_w,
                u_border_shared_w=min(border_w, part.u_level_w, part.u_net_level_w),
            )
        )
    edges_j = curve.step_across_w * fit.u_lateness_s
    whole_run = curve.energy().with_terms(
        (UncertaintyPart.EDGES, device, edges_j), (UncertaintyPart.SAMPLING, "", fit.unseen_j)
    )
    return DeviceAccount(
        device,
        rows,
        whole_run,
        curve,
        fit,
        idle,
        {phase: fit.resolution_of(phase) for phase in dict.fromkeys(span.phase for span in spans)},
        unmodelled,
        _closure_u(rows, whole_run),
    )


def _sampled(part: SpanEnergy, gross_j: float, u_gross_j: float, fit: Attribution) -> SpanEnergy:
    """The energy of LOST time: the meter was read here and there but nobody knows what the board did, so it
    is measured and not fitted.
    """
    return replace(
        part,
        gross_j=gross_j,
        u_gross_j=u_gross_j,
        net_j=gross_j - fit.idle_w * part.covered_s,
        u_net_j=math.hypot(u_gross_j, fit.u_idle_w * part.covered_s),
        u_idle_w=fit.u_idle_w,
    )


def _row(
    span: PhaseSpan,
    part: SpanEnergy,
    calibration: MeterCalibration,
    *,
    step: int,
    outcome: Outcome | None,
    gross_j: float,
    naive_j: float,
    design_based: bool,
    late_shared: float,
    u_idle_shared_w: float,
    u_border_shared_w: float,
) -> LedgerRow:
    """A span's row: `part` with its idle power's drift (in `gross_j`) and the uncertainty of its meter."""
    offset_j = calibration.u_offset_w * part.covered_s
    return LedgerRow(
        device=span.device,
        step=step,
        phase=span.phase,
        outcome=outcome,
        train_order_id=span.train_order_id,
        duration_s=span.duration_s,
        covered_s=part.covered_s,
        gross_j=gross_j,
        net_j=part.net_j,
        u_gross_j=math.hypot(part.u_gross_j, calibration.u_gain * gross_j, offset_j),
        u_net_j=math.hypot(part.u_net_j, calibration.u_gain * part.net_j),
        naive_j=naive_j,
        resolved=part.resolved,
        u_gain=calibration.u_gain,
        u_offset_w=calibration.u_offset_w,
        u_level_w=part.u_level_w,
        u_net_level_w=part.u_net_level_w,
        edge_w=part.edge_w,
        net_edge_w=part.net_edge_w,
        u_idle_w=part.u_idle_w,
        u_reference=calibration.u_reference,
        reference=calibration.reference,
        design_based=design_based,
        late_shared=late_shared,
        u_idle_shared_w=u_idle_shared_w,
        u_border_shared_w=u_border_shared_w,
    )


def _closure_u(rows: Sequence[LedgerRow], whole_run: Energy) -> float:
    """By how much the rows exceed the trapezoid over their seconds, in standard uncertainties of both but for
    the meter's gain and offset, which both share; 0 where nothing was measured.
    """
    split = Ledger.of(rows).total("gross")
    terms_j = (u for part, _, u in split.terms if part not in (UncertaintyPart.GAIN, UncertaintyPart.OFFSET))
    u_j = math.hypot(whole_run.u_joules, *terms_j)
    return (split.joules - math.fsum(row.naive_j for row in rows)) / u_j if u_j else 0.0


def _idle_of(
    idling: IdleCurve | None, spans: Sequence[PhaseSpan], covered_s: Sequence[float], start_ns: int
) -> tuple[Floats, dict[Phase, tuple[float, float]]]:
    """Mean idle power of each span above its level, shape (spans,), and by phase type how well the idle
    power under all its spans together is known (`IdleCurve.u_mean_w`).
    """
    if idling is None:
        return np.zeros(len(spans)), {}
    starts, ends = (np.multiply(stamps - start_ns, 1e-9) for stamps in span_stamps(spans))
    middles = 0.5 * (starts + ends)
    drift_w = idling.above_level(np.concatenate((starts, middles, ends))).reshape(3, -1)
    phases, seen_s = np.array([span.phase.value for span in spans]), np.array(covered_s)
    u_idle_of = {}
    for phase in {span.phase for span in spans}:
        inside = (phases == phase.value) & (seen_s > 0.0)
        if inside.any():
            u_idle_of[phase] = idling.u_mean_w(middles[inside], seen_s[inside])
    return np.asarray(np.array([1.0, 4.0, 1.0]) / 6.0 @ drift_w), u_idle_of
