"""Measured energies beside the truth of emulated boards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.energy.energy_value import Energy, told_from_zero
from roambench.runs.measured.accounts import DeviceEnergy


@dataclass(frozen=True, slots=True)
class TruthCheck:
    """Measured against true energy over the covered time of the emulated boards whose truth is known.

    `within` of the `boards` have their truth inside ± 2 u. `u_j` is the standard uncertainty of `measured_j`.
    """

    boards: int
    within: int
    measured_j: float
    u_j: float
    true_j: float

    @classmethod
    def of(cls, measured: Energy, true_j: float) -> TruthCheck:
        """One board's."""
        inside = abs(measured.joules - true_j) <= 2.0 * measured.u_joules
        return cls(1, int(inside), measured.joules, measured.u_joules, true_j)

    @property
    def error(self) -> float:
        """Relative: +0.03 is 3 % too much. NaN where the truth is negligible beside the uncertainty."""
        told = told_from_zero(self.true_j, self.u_j, self.measured_j)
        return self.measured_j / self.true_j - 1.0 if told and self.true_j > 0.0 else math.nan


@dataclass(frozen=True, slots=True)
class TruthByKind:
    """The checks of one phase, gross and net; `net` is None where no idle baseline defines it."""

    gross: TruthCheck
    net: TruthCheck | None


def truth_of_phase(checks: Sequence[TruthByKind], gross: Energy, net: Energy) -> TruthByKind | None:
    """The phase's checks over all boards; None where the truth of a board that was in it is not known."""
    of_gross = together([check.gross for check in checks], gross)
    if of_gross is None or not math.isclose(of_gross.measured_j, gross.joules, rel_tol=1e-9):
        return None
    nets = [check.net for check in checks if check.net is not None]
    return TruthByKind(of_gross, together(nets, net) if len(nets) == len(checks) else None)


def together(checks: Sequence[TruthCheck], measured: Energy) -> TruthCheck | None:
    """Checks of single boards as one of all; `measured` is their sum, with the errors that boards share."""
    if not checks:
        return None
    return TruthCheck(
        len(checks),
        sum(check.within for check in checks),
        math.fsum(check.measured_j for check in checks),
        measured.u_joules,
        math.fsum(check.true_j for check in checks),
    )


def truth_by_phase(device: DeviceEnergy) -> dict[Phase, TruthByKind]:
    """Of each phase of one board; a phase of which any time's truth is unknown is left out."""
    truth = device.truth
    if truth is None:
        return {}
    measured = {kind: device.ledger.by_phase(kind) for kind in ("gross", "net")}
    phases = np.array([span.phase.value for span in device.spans])
    found = {}
    for phase, gross in measured["gross"].items():
        inside = phases == phase.value
        gross_j, net_j = float(truth.gross_j[inside].sum()), float(truth.net_j[inside].sum())
        if gross.covered_s and math.isfinite(gross_j):
            active = phase in ACTIVE_PHASES and math.isfinite(net_j)
            net = TruthCheck.of(measured["net"][phase], net_j) if active else None
            found[phase] = TruthByKind(TruthCheck.of(gross, gross_j), net)
    return found
