"""What the analysis makes of an emulated run, beside the truth: one row of figures per run and quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fidelity.emulated import EmulatedRun, Scenario, emulated
from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import DeviceAccount, account_device
from roambench.energy.clocks.clock_fit import ClockBurst, ClockFit, moved
from roambench.energy.clocks.lateness import BOARD_LATENESS_S
from roambench.energy.clocks.meter_clock import sample_stamps
from roambench.energy.energy_value import Energy
from roambench.energy.integrate import PowerCurve
from roambench.energy.ledger import Ledger
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import UNUSABLE, PowerSamples
from roambench.energy.uncertainty import with_meter
from roambench.meters.emulator.electric.signal import PowerSignal

PHASES: Final = (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)
TRANSFERS: Final = (Phase.DOWNLOAD, Phase.UPLOAD)
RECTANGULAR: Final = 1.0 / math.sqrt(3.0)


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity of one run: what was measured, its standard uncertainty, the truth; `naive_j` and
    `trapezoid_j` are what the sum of P x 1 s and the trapezoid per phase say. `resolved` is R7's verdict.
    """

    run: int
    what: str
    measured_j: float
    u_j: float
    true_j: float
    naive_j: float
    trapezoid_j: float
    resolved: bool

    @property
    def z(self) -> float:
        return (self.measured_j - self.true_j) / self.u_j

    @property
    def error(self) -> float:
        return self.measured_j / self.true_j - 1.0

    @property
    def held(self) -> bool:
        return abs(self.measured_j - self.true_j) <= 2.0 * self.u_j


@dataclass(frozen=True, slots=True)
class Outcome:
    scenario: Scenario
    figures: list[Figure]


def outcome(scenario: Scenario, seed: int) -> Outcome:
    """Emulate the run, measure it as a run folder is measured, compare."""
    run = emulated(scenario, seed)
    samples, u_clock_s = _samples(run)
    window = MeterWindow(run.meter.window_s, run.meter.latch_s)
    account = account_device(
        samples,
        run.spans,
        {},
        {},
        run.calibration,
        run.start_ns,
        run.end_ns,
        run.meter.nominal_s,
        window=window,
        step_w=run.meter.step_w,
        late_prior_s=BOARD_LATENESS_S,
        u_clock_s=u_clock_s,
    )
    return Outcome(scenario, _figures(run, samples, account))


def _samples(run: EmulatedRun) -> tuple[PowerSamples, float]:
    """The usable readings in the board's clock, and how uncertain that clock is."""
    usable = [reading for reading in run.readings if not reading.flags & UNUSABLE]
    arrivals = np.array([reading.monotonic_ns for reading in usable], dtype=np.int64)
    ns = sample_stamps(arrivals, np.array([reading.meter_ms for reading in usable], dtype=np.int64))
    u_clock_s = 0.0
    if run.reader_clock is not None:
        board = ClockFit.of([ClockBurst(run.start_ns, 0.0, 0.0, 8)])
        ns = moved(ns, run.reader_clock, board)
        u_clock_s = RECTANGULAR * run.reader_clock.worst_bound_ns(run.start_ns, run.end_ns) * 1e-9
    return PowerSamples.of(ns, [reading.watts for reading in usable]), u_clock_s


def _figures(run: EmulatedRun, samples: PowerSamples, account: DeviceAccount) -> list[Figure]:
    number, curve, truth = run.scenario.number, account.curve, run.truth
    naive = _naive_by_span(samples, run)
    whole = with_meter(account.whole_run, run.calibration, "pi")
    raw = sum(row.naive_j for row in account.rows)

    def figure(
        what: str, energy: Energy, true_j: float, naive_j: float, trapezoid_j: float, good: bool
    ) -> Figure:
        return Figure(number, what, energy.joules, energy.u_joules, true_j, naive_j, trapezoid_j, good)

    true_j = _true_j(truth, curve.covered_intervals())
    figures = [figure("whole", whole, true_j, float(naive.sum()), raw, True)]
    if whole.gap_s:
        filled = with_meter(curve.filled(), run.calibration, "pi")
        true_j = truth.energy_j(run.start_ns, run.end_ns)
        figures.append(figure("whole, filled", filled, true_j, float(naive.sum()), raw, True))
    mixed = run.scenario.links == "mixed"
    classes = [(link, phase) for link in ("wifi", "lte") for phase in TRANSFERS if mixed]
    for link, phase in [*(("", phase) for phase in PHASES), *classes]:
        own = [
            i
            for i, span in enumerate(run.spans)
            if span.phase is phase and (not link or run.links[i] == link)
        ]
        if not any(account.rows[i].covered_s for i in own):
            continue  # a link that was hardly used, while the meter was silent
        name = f"{link} {phase.value}" if link else phase.value
        rows = [account.rows[i] for i in own]
        covered = [_true_j(truth, _covered(curve, run.spans[i])) for i in own]
        idle_j = run.idle_w * sum(row.covered_s for row in rows)
        verdict = all(row.resolved for row in rows)
        naive_j, raw_j = float(naive[own].sum()), sum(row.naive_j for row in rows)
        gross, net = Ledger.of(rows).total(), Ledger.of(rows).total("net")
        figures.append(figure(name, gross, sum(covered), naive_j, raw_j, verdict))
        figures.append(
            figure(f"{name} net", net, sum(covered) - idle_j, naive_j - idle_j, raw_j - idle_j, verdict)
        )
        for k in () if link else (1, len(own) // 2):
            row, idle_j = rows[k], run.idle_w * rows[k].covered_s
            if row.covered_s:
                figures.append(
                    figure(
                        f"one {phase.value}",
                        Ledger.of([row]).total("net"),
                        covered[k] - idle_j,
                        float(naive[own[k]]) - idle_j,
                        row.naive_j - idle_j,
                        row.resolved,
                    )
                )
    return figures


def _covered(curve: PowerCurve, span: PhaseSpan) -> list[tuple[int, int]]:
    """The measured stretches inside a span."""
    cut = [(max(a, span.start_ns), min(b, span.end_ns)) for a, b in curve.covered_intervals()]
    return [(a, b) for a, b in cut if b > a]


def _true_j(truth: PowerSignal, intervals: Sequence[tuple[int, int]]) -> float:
    return math.fsum(truth.energy_j(a, b) for a, b in intervals)


def _naive_by_span(samples: PowerSamples, run: EmulatedRun) -> np.ndarray:
    """Sum of P x period over the lines that arrived in each span, as most tools do it; shape (spans,)."""
    starts = np.array([span.start_ns for span in run.spans])
    at = np.searchsorted(starts, samples.ns, "right") - 1
    inside = (at >= 0) & (samples.ns < run.end_ns)
    joules = samples.watts[inside] * run.meter.nominal_s
    return np.bincount(at[inside], joules, minlength=len(run.spans))
