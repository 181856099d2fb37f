"""The energy ledger: joules by device, round, phase and fate."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from roambench.contract.phases import ACTIVE_PHASES, Fate, Phase, PhaseSpan
from roambench.energy.attribute import attribute
from roambench.energy.attribution import Attribution, Verdict
from roambench.energy.baseline import IdleBaselines, idle_baselines
from roambench.energy.energy_value import Energy, Part, Term
from roambench.energy.energy_value import total as sum_of
from roambench.energy.integrate import PowerCurve, power_curve, trapezoid_by_span
from roambench.energy.lateness import LATENESS_PRIOR_S
from roambench.energy.least_squares import SP2_STEP_W
from roambench.energy.occupancy import SP2_WINDOW, MeterWindow
from roambench.energy.samples import PowerSamples
from roambench.energy.uncertainty import MeterCalibration

Key = TypeVar("Key", bound=Hashable)
Kind = Literal["gross", "net"]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Energy of one device in one phase, attributed to one training where it served one.

    `gross_j` includes the board's idle power, `net_j` does not. `u_gross_j` and `u_net_j` are standard
    uncertainties. `naive_j` is the trapezoid per phase, shown beside. `covered_s` is how much of
    `duration_s` was seen by the meter; a gap is never filled in.

    Rows of one board share errors: its meter's gain (relative `u_gain`, of which `u_reference` is that of
    the `reference` it was calibrated against) and offset (`u_offset_w`, which cancels in net), its clock
    (`edge_w`, `net_edge_w`, signed), in net its idle power (`u_idle_w`), and for one phase the fitted power
    (`u_level_w`, `u_net_level_w`). They are inside `u_gross_j` and `u_net_j` already; `energy` tells them
    apart, so that sums of rows come out right.
    """

    device: str
    step: int  # the round in which the training was ordered; for background phases the step itself
    phase: Phase
    fate: Fate | None  # None for background phases
    train_order_id: str
    duration_s: float
    covered_s: float
    gross_j: float
    net_j: float
    u_gross_j: float
    u_net_j: float
    naive_j: float
    resolved: bool = True  # False: too short for this meter (ENERGY rule R7), see the uncertainty
    u_gain: float = 0.0
    u_offset_w: float = 0.0
    u_level_w: float = 0.0
    u_net_level_w: float = 0.0
    edge_w: float = 0.0
    net_edge_w: float = 0.0
    u_idle_w: float = 0.0
    u_reference: float = 0.0
    reference: str = ""

    def energy(self, kind: Kind = "gross") -> Energy:
        """The row as an energy that adds up with the rows of this and of other boards."""
        joules, u_j = (self.gross_j, self.u_gross_j) if kind == "gross" else (self.net_j, self.u_net_j)
        shared = [term for term in self._shared(joules, kind) if term[2]]
        own_j2 = u_j * u_j - math.fsum(u * u for _, _, u in shared)
        if own_j2 > 0.0:
            shared.append((Part.SAMPLING, "", math.sqrt(own_j2)))
        gap_s = max(0.0, self.duration_s - self.covered_s)
        return Energy(joules, 0.0, self.covered_s, gap_s, tuple(shared))

    def _shared(self, joules: float, kind: Kind) -> list[Term]:
        """What the row shares with others, by whom."""
        gross = kind == "gross"
        board, level = self.device, f"{self.device} {self.phase.value}"
        own_gain = math.sqrt(max(0.0, self.u_gain**2 - self.u_reference**2))
        return [
            (Part.GAIN, board, own_gain * joules),
            (Part.GAIN, f"reference {self.reference}", self.u_reference * joules),
            (Part.OFFSET, board, self.u_offset_w * self.covered_s if gross else 0.0),
            (Part.SAMPLING, level, (self.u_level_w if gross else self.u_net_level_w) * self.covered_s),
            (Part.EDGES, board, (self.edge_w if gross else self.net_edge_w) * self.covered_s),
            (Part.BASELINE, board, 0.0 if gross else -self.u_idle_w * self.covered_s),
        ]


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """Everything known of one device's energy: its rows, the whole run, and the fit behind the rows.

    `idle` are the baselines before and after, None where there were none. `verdicts` says of each phase type
    whether the meter was fast enough for it (R7).
    """

    device: str
    rows: list[LedgerRow]
    whole_run: Energy  # without the meter's own part; `uncertainty.with_meter` adds it
    curve: PowerCurve
    attribution: Attribution
    idle: IdleBaselines | None
    verdicts: Mapping[Phase, Verdict]


def account_device(
    samples: PowerSamples,
    spans: Sequence[PhaseSpan],
    fates: Mapping[str, Fate],
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

    A training without a fate in `fates` is pending. An upload's row carries the round of its training.
    `nominal_s`, `window` and `step_w` are the meter's traits. `fit_lateness` finds how late the lines
    arrive, `late_prior_s` is how late they may, `u_clock_s` the uncertainty between the meter's clock and
    the board's, as `attribute` explains them.
    Net energies leave out the fitted idle power; where the baselines before and after the run differ
    (rule R8), the straight line between them.
    """
    device = spans[0].device if spans else ""
    corrected = PowerSamples(samples.ns, calibration.correct(samples.watts))
    delay_s = 0.5 * window.support_s
    curve = power_curve(corrected, start_ns, end_ns, nominal_s, delay_s, window.window_s, step_w)
    fit = attribute(
        corrected,
        spans,
        nominal_s=nominal_s,
        window=window,
        step_w=step_w,
        fit_lateness=fit_lateness,
        late_prior_s=late_prior_s,
        u_clock_s=u_clock_s,
    )
    idle = idle_baselines(corrected, spans, window, step_w)
    parts = fit.span_energies(curve)
    naive = trapezoid_by_span(curve, spans)
    rows = []
    for i, span in enumerate(spans):
        active = span.phase in ACTIVE_PHASES
        part = parts[i]
        gross, net, u_net, u_idle_w = part.gross_j, part.net_j, part.u_net_j, part.u_idle_w
        if span.phase is Phase.LOST:
            # The meter was read here and there but nobody knows what the board did: measured, not fitted.
            gross = float(naive[i])
            net = gross - fit.idle_w * part.covered_s if part.covered_s else 0.0
        if idle is not None and idle.drifted and (active or span.phase is Phase.LOST):
            net = gross - idle.watts_in(span.start_ns, span.end_ns) * part.covered_s
            less_j2 = (idle.u_watts**2 - u_idle_w**2) * part.covered_s**2
            u_net, u_idle_w = math.sqrt(max(0.0, u_net**2 + less_j2)), idle.u_watts
        offset_j = calibration.u_offset_w * part.covered_s
        rows.append(
            LedgerRow(
                device=span.device,
                step=step_of_training.get(span.train_order_id, span.step) if active else span.step,
                phase=span.phase,
                # A cloud aggregation's model on its way to a device belongs to no training: it has no fate.
                fate=fates.get(span.train_order_id, Fate.PENDING) if active and span.train_order_id else None,
                train_order_id=span.train_order_id,
                duration_s=span.duration_s,
                covered_s=part.covered_s,
                gross_j=gross,
                net_j=net,
                u_gross_j=math.hypot(part.u_gross_j, calibration.u_gain * gross, offset_j),
                u_net_j=math.hypot(u_net, calibration.u_gain * net),
                naive_j=float(naive[i]),
                resolved=part.resolved,
                u_gain=calibration.u_gain,
                u_offset_w=calibration.u_offset_w,
                u_level_w=part.u_level_w,
                u_net_level_w=part.u_net_level_w,
                edge_w=part.edge_w,
                net_edge_w=part.net_edge_w,
                u_idle_w=u_idle_w,
                u_reference=calibration.u_reference,
                reference=calibration.reference,
            )
        )
    edges_j = curve.step_across_w * fit.u_lateness_s
    return DeviceAccount(
        device,
        rows,
        curve.energy().with_terms((Part.EDGES, device, edges_j)),
        curve,
        fit,
        idle,
        {phase: fit.verdict_of(phase) for phase in dict.fromkeys(span.phase for span in spans)},
    )


def build_ledger(
    samples: PowerSamples,
    spans: Sequence[PhaseSpan],
    fates: Mapping[str, Fate],
    step_of_training: Mapping[str, int],
    calibration: MeterCalibration,
    start_ns: int,
    end_ns: int,
    nominal_s: float = 1.0,
    *,
    fit_lateness: bool = True,
) -> list[LedgerRow]:
    """The rows of `account_device`: one per span, in order of time."""
    return account_device(
        samples,
        spans,
        fates,
        step_of_training,
        calibration,
        start_ns,
        end_ns,
        nominal_s,
        fit_lateness=fit_lateness,
    ).rows


def total(rows: Iterable[LedgerRow], kind: Kind = "gross") -> Energy:
    """Sum of rows with the errors they share: gain, offset, clock and idle power per board, fitted power
    per board and phase. Shared errors add linearly, boards and the rest in quadrature (R9).
    """
    return sum_of(row.energy(kind) for row in rows)


def totals_by(
    rows: Iterable[LedgerRow], key: Callable[[LedgerRow], Key], kind: Kind = "gross"
) -> dict[Key, Energy]:
    """`total` of each group of rows, groups in order of first appearance."""
    groups: dict[Key, list[LedgerRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return {name: total(group, kind) for name, group in groups.items()}


def totals_by_fate(rows: Iterable[LedgerRow], kind: Kind = "gross") -> dict[Fate | None, Energy]:
    return totals_by(rows, lambda row: row.fate, kind)


def totals_by_phase(rows: Iterable[LedgerRow], kind: Kind = "gross") -> dict[Phase, Energy]:
    return totals_by(rows, lambda row: row.phase, kind)
