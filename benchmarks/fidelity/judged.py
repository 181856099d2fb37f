"""The estimator in one world: what it says beside the truth, and how many runs of a world are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from fidelity.catalogue import WORLDS
from fidelity.generator import world
from fidelity.world import LOADS, World
from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import DeviceAccount, account_device
from roambench.energy.ledger import Ledger
from roambench.energy.readings.frozen import frozen_stretches
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.rest_checks import EarlyCause
from roambench.energy.uncertainty import EXACT
from roambench.report.summaries.flags import COVERAGE_LIMIT, is_short_rest

WHOLE: Final = "whole"
#: Net energies of phases and the gross one of the whole run, in the order of the table.
FIGURES: Final = (*LOADS, WHOLE)
#: ± 2 u hold the truth in this share of runs; a world is not met where as few as were found come less often
#: than `CHANCE` by that.
HELD: Final = 0.93
CHANCE: Final = 0.01
#: So many runs must carry the flag of a world that does not hold, and so many may in one that does.
FLAGGED: Final = 0.9
FALSE_ALARMS: Final = 0.1
#: What a flag says, by the cause that a world names; other causes are found elsewhere than in the estimator.
TOO_SHORT: Final = "guard too short"
LOCKED: Final = "offsets locked"
FROZEN: Final = "meter frozen"
CLOCKS: Final = "clocks apart"
BEFORE: Final = "power before the start"
LOST: Final = "lines lost or late"
COVERAGE: Final = "time not covered"
#: Of the setting, whatever the readings say: no false alarm, and the cause of a guard that is too short.
SHORT_REST: Final = "rests set too brief"
FLAGS: Final = (TOO_SHORT, LOCKED, FROZEN, CLOCKS, BEFORE, LOST, COVERAGE, SHORT_REST)


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity of one run, J. The meter's true gain is divided out: `u_j` has no term for it."""

    measured_j: float
    u_j: float
    true_j: float

    @property
    def z(self) -> float:
        """Error in standard uncertainties."""
        return (self.measured_j - self.true_j) / self.u_j

    @property
    def relative_u(self) -> float:
        """Standard uncertainty over the truth."""
        return self.u_j / abs(self.true_j)

    @property
    def error(self) -> float:
        """Relative to the truth."""
        return self.measured_j / self.true_j - 1.0


@dataclass(frozen=True)
class Run:
    """The figures of one run by name, and the flags that it carries."""

    figures: Mapping[str, Figure]
    flags: frozenset[str]


def phase_spans(drawn: World) -> list[PhaseSpan]:
    """The phases of a world as a run folder has them."""
    return [
        PhaseSpan(
            "pi", "boot", Phase(span.phase), span.step, span.start_ns, span.end_ns,
            *((f"{span.phase}{k}", f"t{span.step}") if span.phase in LOADS else ("", "")),
        )
        for k, span in enumerate(drawn.spans)
    ]  # fmt: skip


def account_of(drawn: World) -> tuple[DeviceAccount, bool]:
    """What the estimator makes of a world, as of a run whose meter's gain is not in question, and whether
    lines were left out because the meter was frozen."""
    spans, lines = phase_spans(drawn), drawn.readings
    step_w = float(np.diff(np.unique(lines.watts)).min())  # which a data sheet says
    frozen = frozen_stretches(
        lines.arrival_ns,
        lines.volts,
        lines.amps,
        lines.watts,
        nominal_s=drawn.nominal_s,
        step_w=step_w,
        changes_ns=[ns for s in spans if s.phase is Phase.TRAIN for ns in (s.start_ns, s.end_ns)],
    )
    fresh = np.ones(len(lines), np.bool_)
    for stretch in frozen:
        fresh[stretch.first + 1 : stretch.last + 1] = False
    account = account_device(
        PowerSamples.of(lines.arrival_ns[fresh], lines.watts[fresh]),
        spans,
        {},
        {},
        EXACT,
        spans[0].start_ns,
        spans[-1].end_ns,
        drawn.nominal_s,
        window=MeterWindow(drawn.window_s, drawn.latch_s),
        step_w=step_w,
    )
    return account, bool(frozen)


def run_of(name: str, seed: int) -> Run:
    """Draw a world, measure it, compare."""
    drawn = world(name, seed)
    return compared(drawn, *account_of(drawn))


def compared(drawn: World, account: DeviceAccount, is_frozen: bool = False) -> Run:
    """The figures of an account beside the truth of its world."""
    ledger, gain = Ledger.of(account.rows), 1.0 + drawn.facts["gain"]
    figures = {}
    for phase in LOADS:
        rows = ledger.of_phase(Phase(phase))
        if rows.any():
            energy = ledger.total("net", rows)
            figures[phase] = Figure(energy.joules / gain, energy.u_joules, drawn.truth.caused(phase))
    whole = account.whole_run
    true_j = sum(float(drawn.truth.gross(*pair)) for pair in account.curve.covered_intervals())
    figures[WHOLE] = Figure(whole.joules / gain, whole.u_joules, true_j)
    checks = account.split.checks
    early = (checks.early_cause is cause for cause in (EarlyCause.CLOCK, EarlyCause.TRANSFER))
    short = is_short_rest(account.split.rest_s, drawn.nominal_s)
    uncovered = whole.coverage < COVERAGE_LIMIT
    raised = (checks.tails, checks.locked, is_frozen, *early, checks.lost_share, uncovered, short)
    found = [flag for flag, is_raised in zip(FLAGS, raised, strict=True) if is_raised]
    return Run(figures, frozenset(found))


@dataclass(frozen=True)
class Column:
    """One figure over the runs of a world: relative bias, share within ± 2 u, median 2 u, sd of z."""

    bias: float
    held: float
    median_2u: float
    z_sd: float
    runs: int

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> Column:
        z = np.array([figure.z for figure in figures])
        return cls(
            float(np.mean([figure.error for figure in figures])),
            float(np.mean(np.abs(z) <= 2.0)),
            float(np.median([2.0 * figure.relative_u for figure in figures])),
            float(z.std(ddof=1)) if len(z) > 1 else float("nan"),
            len(z),
        )

    @property
    def is_held(self) -> bool:
        """Whether so few runs within ± 2 u may be chance."""
        return float(scipy.special.bdtr(round(self.held * self.runs), self.runs, HELD)) > CHANCE


@dataclass(frozen=True)
class Row:
    """One world over its runs; `flagged` is the share of runs with each flag."""

    name: str
    columns: Mapping[str, Column]
    flagged: Mapping[str, float]

    @classmethod
    def of(cls, name: str, runs: Sequence[Run]) -> Row:
        columns = {
            what: Column.of([run.figures[what] for run in runs])
            for what in FIGURES
            if what in runs[0].figures
        }
        return cls(
            name, columns, {flag: float(np.mean([flag in run.flags for run in runs])) for flag in FLAGS}
        )

    @property
    def is_right(self) -> bool:
        """Whether all figures are held by ± 2 u."""
        return all(column.is_held for column in self.columns.values())

    @property
    def verdict(self) -> str:
        """In some words."""
        spec = WORLDS[self.name]
        if spec["holds"]:
            alarms = [
                flag for flag, share in self.flagged.items() if share > FALSE_ALARMS and flag != SHORT_REST
            ]
            if alarms:
                return f"NOT MET: false alarm ({', '.join(alarms)})"
            return "right" if self.is_right else "NOT MET: not held"
        cause = spec["cause"]
        for flag in (cause, SHORT_REST) if cause == TOO_SHORT else (cause,):
            if self.flagged.get(flag, 0.0) >= FLAGGED:
                return f"flagged: {flag}"
        if self.is_right:
            return f"right all the same ({cause})"
        if not spec["seen"]:
            return f"not to be seen in readings ({cause})"
        return f"NOT MET: {cause}" + ("" if cause in FLAGS else ", no check of the estimator's")
