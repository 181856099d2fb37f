"""The energy ledger: joules by device, round, phase and fate."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from roambench.contract.phases import ACTIVE_PHASES, Fate, Phase, PhaseSpan
from roambench.energy.attribute import Attribution, attribute
from roambench.energy.energy_value import Energy
from roambench.energy.integrate import PowerCurve, power_curve, trapezoid_by_span
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

    Rows of one board share errors: its meter's gain (relative `u_gain`) and offset (`u_offset_w`, which
    cancels in net), and for one phase the fitted power (`u_level_w`, `u_net_level_w`). They are inside
    `u_gross_j` and `u_net_j` already; `total` needs them to add rows up rightly.
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


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """Everything known of one device's energy: its rows, the whole run, and the fit behind the rows."""

    device: str
    rows: list[LedgerRow]
    whole_run: Energy  # sampling uncertainty only; `uncertainty.with_meter` adds the meter's
    curve: PowerCurve
    attribution: Attribution


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
    fit_lateness: bool = True,
) -> DeviceAccount:
    """Account one device: `spans` is its complete timeline (see `timeline.complete_timeline`).

    A training without a fate in `fates` is pending. An upload's row carries the round of its training.
    `fit_lateness` finds how late the lines arrive, as `attribute` explains it.
    """
    corrected = PowerSamples(samples.ns, calibration.correct(samples.watts))
    curve = power_curve(corrected, start_ns, end_ns, nominal_s)
    fit = attribute(corrected, spans, nominal_s=nominal_s, fit_lateness=fit_lateness)
    parts = fit.span_energies(curve)
    naive = trapezoid_by_span(curve, spans)
    rows = []
    for i, span in enumerate(spans):
        active = span.phase in ACTIVE_PHASES
        part = parts[i]
        gross, net = part.gross_j, part.net_j
        if span.phase is Phase.LOST:
            # The meter was read here and there but nobody knows what the board did: measured, not fitted.
            gross = float(naive[i])
            net = gross - fit.idle_w * part.covered_s if part.covered_s else 0.0
        u_gain = calibration.u_gain
        offset_j = calibration.u_offset_w * part.covered_s
        rows.append(
            LedgerRow(
                device=span.device,
                step=step_of_training.get(span.train_order_id, span.step) if active else span.step,
                phase=span.phase,
                fate=fates.get(span.train_order_id, Fate.PENDING) if active else None,
                train_order_id=span.train_order_id,
                duration_s=span.duration_s,
                covered_s=part.covered_s,
                gross_j=gross,
                net_j=net,
                u_gross_j=math.hypot(part.u_gross_j, u_gain * gross, offset_j),
                u_net_j=math.hypot(part.u_net_j, u_gain * net),
                naive_j=float(naive[i]),
                resolved=part.resolved,
                u_gain=u_gain,
                u_offset_w=calibration.u_offset_w,
                u_level_w=part.u_level_w,
                u_net_level_w=part.u_net_level_w,
            )
        )
    return DeviceAccount(spans[0].device if spans else "", rows, curve.energy(), curve, fit)


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
    """Sum of rows with the errors they share: gain and offset per board, fitted power per board and phase.

    Shared errors add linearly, boards and the rest in quadrature (R9).
    """
    joules = covered_s = gap_s = independent = 0.0
    level: dict[tuple[str, Phase], float] = {}
    gain: dict[str, float] = {}
    offset: dict[str, float] = {}
    for row in rows:
        energy_j, u_j = (row.gross_j, row.u_gross_j) if kind == "gross" else (row.net_j, row.u_net_j)
        level_j = (row.u_level_w if kind == "gross" else row.u_net_level_w) * row.covered_s
        gain_j = row.u_gain * energy_j
        offset_j = row.u_offset_w * row.covered_s if kind == "gross" else 0.0
        joules += energy_j
        covered_s += row.covered_s
        gap_s += max(0.0, row.duration_s - row.covered_s)
        level[row.device, row.phase] = level.get((row.device, row.phase), 0.0) + level_j
        gain[row.device] = gain.get(row.device, 0.0) + gain_j
        offset[row.device] = offset.get(row.device, 0.0) + offset_j
        independent += max(0.0, u_j * u_j - level_j * level_j - gain_j * gain_j - offset_j * offset_j)
    shared = sum(u * u for part in (level, gain, offset) for u in part.values())
    return Energy(joules, math.sqrt(independent + shared), covered_s, gap_s)


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
