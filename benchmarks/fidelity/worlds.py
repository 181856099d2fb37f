"""The split of energy in worlds that know nothing of the estimator: held, or flagged?

Two generators draw them, `fidelity.physics` and `fidelity.benches`; neither shares code with the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fidelity.benches import run as benches
from fidelity.physics import run as physics
from fidelity.physics.catalogue import WORLDS as OF_PHYSICS
from fidelity.physics.meters import METERS
from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import DeviceAccount, account_device
from roambench.energy.clocks.meter_clock import sample_stamps
from roambench.energy.ledger import Kind, Ledger
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import MeterCalibration, uncalibrated, with_meter
from roambench.meters.traits import TRAITS as METER_TRAITS

#: All worlds: those of `fidelity.physics`, then those of `fidelity.benches`.
WORLDS: Final = (*OF_PHYSICS, *benches.WORLDS)
#: The row of the traits table that describes each meter.
TRAITS: Final = {
    "sp2-1hz": METER_TRAITS.load("smartpower2"),
    "sp2-100ms": METER_TRAITS.load("smartpower2-100ms"),
    "sp3-100ms": METER_TRAITS.load("smartpower3-100ms"),
    "sp3-50ms": METER_TRAITS.load("smartpower3-50ms"),
    "sp3-10ms": METER_TRAITS.load("smartpower3"),
    "sp3-5ms": METER_TRAITS.load("smartpower3-5ms"),
}
#: What other meters than the Smart Power 2 at 1 Hz are tried on: where that cannot tell, and a clean world.
OF_OTHER_METERS: Final = (
    *("clean-1s", "dead-1s", "burst-0.5s", "end-burst-1s", "radio-tail"),
    *("fair_constant", "epoch_eval_checkpoint", "power_duration_correlated", "typical_bench"),
)
#: How late lines may be on a board (k = 1), s.
LATE_S: Final = 0.03
FIGURES: Final[tuple[tuple[str, Kind], ...]] = (
    ("whole", "gross"),
    *((phase, kind) for kind in ("gross", "net") for phase in ("download", "train", "upload")),
    ("wait", "gross"),
    ("idle", "gross"),
)
#: A figure holds when its printed +- 2 u has the truth in so many of the runs.
HELD: Final = 0.93
#: A world is flagged when so many of its runs are; a clean one at most in so many.
FLAGGED: Final = 0.95
FALSE_ALARMS: Final = 0.02
#: Worlds in which the split's assumptions are true.
CLEAN: Final = (
    *("clean-2s", "clean-1s", "clean-0.5s", "clock-50ppm", "line-jitter", "late-borders"),
    *(name for name, world in benches.WORLDS.items() if world.kind == "fair"),
)
#: Worlds whose meter nobody calibrated.
UNCALIBRATED: Final = ("gain", "meter_gain_offset")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: per figure of FIGURES joules, standard uncertainty and truth; whether it is flagged."""

    joules: tuple[float, ...]
    u_joules: tuple[float, ...]
    true_joules: tuple[float, ...]
    flagged: bool


@dataclass(frozen=True, slots=True)
class WorldRow:
    """Runs of one world, figures in the order of FIGURES; shares, not percent."""

    world: str
    runs: int
    bias: tuple[float, ...]
    held: tuple[float, ...]
    median_2u: tuple[float, ...]
    flagged: float

    @property
    def failing(self) -> list[str]:
        """Figures whose 2 u holds the truth too rarely, and flags where nothing is wrong."""
        rare = [
            f"{what} {kind}" for (what, kind), held in zip(FIGURES, self.held, strict=True) if held < HELD
        ]
        return rare + ["false alarms"] * (self.world in CLEAN and self.flagged > FALSE_ALARMS)

    @property
    def verdict(self) -> str:
        """right, flagged (which no clean world may be), or what fails."""
        if not self.failing:
            return "right"
        if self.flagged >= FLAGGED and self.world not in CLEAN:
            return "flagged"
        return "NOT MET: " + ", ".join(self.failing)


def known_to(world: str, meter: str) -> bool:
    """Whether the world's generator has this meter."""
    return meter in (benches.METERS if world in benches.WORLDS else METERS)


def simulated(world: str, meter: str, seed: int) -> physics.Run | benches.Run:
    """One run by the generator that knows the world."""
    if world in benches.WORLDS:
        return benches.simulate(world, meter, seed)
    return physics.simulate(OF_PHYSICS[world], METERS[meter], seed)


def accounted(world: str, meter: str, seed: int) -> tuple[physics.Run | benches.Run, DeviceAccount]:
    """Simulate one run and account it as a report would."""
    run = simulated(world, meter, seed)
    moved = {transfer.span: transfer for transfer in run.transfers}
    spans = []
    for index, span in enumerate(run.spans):
        at = moved.get(index)
        bytes_of = (at.bytes, at.first_byte_ns, at.last_byte_ns, at.stalls_ns) if at else ()
        phase = Phase(span.phase)
        spans.append(
            PhaseSpan("board", "boot", phase, span.step, span.start_ns, span.end_ns, "", "", *bytes_of)
        )
    row = TRAITS[meter]
    ns = sample_stamps(run.ns, run.device_ms) if len(run.device_ms) else run.ns
    account = account_device(
        PowerSamples(ns, run.watts),
        spans,
        {},
        {},
        calibration_of(world, meter),
        spans[0].start_ns,
        spans[-1].end_ns,
        row.nominal_s,
        window=MeterWindow(row.window_s, row.latch_s),
        step_w=row.step_w,
        late_prior_s=LATE_S,
    )
    return run, account


def calibration_of(world: str, meter: str) -> MeterCalibration:
    """A type's known error is taken out; all else is exact but where nobody calibrated the meter."""
    row = TRAITS[meter]
    if world in UNCALIBRATED:
        return uncalibrated(row)
    return MeterCalibration(row.gain, u_gain=0.0, u_offset_w=0.0)


def measure(world: str, meter: str, seed: int) -> Measured:
    """The figures of one run beside their truth."""
    run, account = accounted(world, meter, seed)
    whole = with_meter(account.whole_run, calibration_of(world, meter), "board")
    covered = np.array(account.curve.covered_intervals(), dtype=np.int64).reshape(-1, 2)
    at_s = (covered - run.start_ns) * 1e-9
    true_whole_j = float((run.signal.joules(at_s[:, 1]) - run.signal.joules(at_s[:, 0])).sum())
    seen = np.array([row.covered_s / row.duration_s if row.duration_s else 1.0 for row in account.rows])
    joules, u_joules, true_joules = [whole.joules], [whole.u_joules], [true_whole_j]
    phases = np.array([row.phase.value for row in account.rows])
    for what, kind in FIGURES[1:]:
        chosen = np.flatnonzero(phases == what)
        found = Ledger.of(account.rows[i] for i in chosen).total(kind)
        truth = run.true_gross_j if kind == "gross" else run.true_net_j
        joules.append(found.joules)
        u_joules.append(found.u_joules)
        true_joules.append(float((truth * seen)[chosen].sum()))
    return Measured(tuple(joules), tuple(u_joules), tuple(true_joules), account.contradicted)


def row_of(world: str, runs: Sequence[Measured]) -> WorldRow:
    """The runs of one world as a line of the table."""
    joules, u_joules, truth = (
        np.array([getattr(run, name) for run in runs]) for name in ("joules", "u_joules", "true_joules")
    )
    return WorldRow(
        world,
        len(runs),
        tuple((joules.sum(axis=0) / truth.sum(axis=0) - 1.0).tolist()),
        tuple((np.abs(joules - truth) <= 2.0 * u_joules).mean(axis=0).tolist()),
        tuple(np.median(2.0 * u_joules / truth, axis=0).tolist()),
        float(np.mean([run.flagged for run in runs])),
    )
