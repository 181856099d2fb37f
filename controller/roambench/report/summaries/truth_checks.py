"""Measured energies beside the truth of emulated boards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.energy.energy_value import Energy, UncertaintyPart, told_from_zero
from roambench.runs.measured.accounts import DeviceEnergy


@dataclass(frozen=True, slots=True)
class TruthCheck:
    """Measured against true energy over the covered time of the emulated boards whose truth is known.

    `within` of the `boards` have their truth inside ± 2 u. `u_j` is the standard uncertainty of `measured_j`.
    Where the emulated meters have neither gain nor offset it is without gain, and of the offset
    with that of rounding alone (its share `rounding`): what a real meter may have would hide errors of the
    method.
    """

    boards: int
    within: int
    measured_j: float
    u_j: float
    true_j: float
    rounding: float | None = None

    @classmethod
    def of(cls, measured: Energy, true_j: float, rounding: float | None) -> TruthCheck:
        """One board's."""
        u_j = u_against_truth(measured, rounding)
        inside = abs(measured.joules - true_j) <= 2.0 * u_j
        return cls(1, int(inside), measured.joules, u_j, true_j, rounding)

    @property
    def error(self) -> float:
        """Relative: +0.03 is 3 % too much. NaN where the truth is negligible beside the uncertainty."""
        known = told_from_zero(self.true_j, self.u_j, self.measured_j)
        return self.measured_j / self.true_j - 1.0 if known and self.true_j > 0.0 else math.nan


@dataclass(frozen=True, slots=True)
class TruthByKind:
    """The checks of one phase, gross and net; `net` is None where no idle baseline defines it."""

    gross: TruthCheck
    net: TruthCheck | None


def u_against_truth(measured: Energy, rounding: float | None) -> float:
    """Standard uncertainty of an energy beside its truth, J; `rounding` as `TruthCheck` has it."""
    if rounding is None:
        return measured.u_joules
    shares = {UncertaintyPart.GAIN: 0.0, UncertaintyPart.OFFSET: rounding}
    return math.hypot(*(shares.get(part, 1.0) * u_j for part, _, u_j in measured.terms))


def rounding_of(checks: Sequence[TruthCheck]) -> float | None:
    """The largest of the checks; None if one of their meters has a gain or an offset."""
    shares = [check.rounding for check in checks]
    return None if None in shares else max(share for share in shares if share is not None)


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
        u_against_truth(measured, rounding_of(checks)),
        math.fsum(check.true_j for check in checks),
        rounding_of(checks),
    )


def truth_by_phase(device: DeviceEnergy) -> dict[Phase, TruthByKind]:
    """The checks of each phase of one board; a phase of which any time's truth is unknown is left out."""
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
            net = TruthCheck.of(measured["net"][phase], net_j, device.rounding) if active else None
            found[phase] = TruthByKind(TruthCheck.of(gross, gross_j, device.rounding), net)
    return found
