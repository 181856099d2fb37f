"""The trust in each figure of a run: one verdict for each, with its width and, where known, its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roambench.contract.phases import ACTIVE_PHASES, COMPUTING_PHASES, Phase
from roambench.energy.account import Method
from roambench.energy.energy_value import Energy, told_from_zero, total
from roambench.report import numbers
from roambench.report.joule_names import BOARDS, WASTED, in_all
from roambench.report.summaries.energy import EnergySummary, PhaseEnergy
from roambench.report.summaries.truth_checks import TruthCheck, rounding_of, u_against_truth

#: An interval wider than this share of its figure (2 u) is called wide.
WIDE: Final = 0.1


class Verdict(StrEnum):
    """The verdict on a figure within its interval."""

    HOLDS = "yes"
    WIDE = "wide"
    NO = "no"


@dataclass(frozen=True, slots=True)
class FigureTrust:
    """One figure of a run: its expanded uncertainty as a share of it (2 u), and its error where the truth is
    known, None elsewhere."""

    quantity: str
    verdict: Verdict
    share: float
    error: float | None

    @property
    def text(self) -> str:
        """Such as "wide, ± 14 %", with the distance from the truth where that is known."""
        known = self.error is not None and math.isfinite(self.error)
        off = f", off {numbers.signed_percent(self.error)}" if known else ""
        return f"{self.verdict.value}, ± {float(f'{100.0 * self.share:.2g}'):,g} %{off}"


def trust_of(energy: EnergySummary | None) -> tuple[FigureTrust, ...]:
    """Verdicts on the whole run, its trainings, its waste and its transfers, as far as there are any."""
    if energy is None or not energy.measured:
        return ()
    measured = [board for board in energy.boards if board.device not in energy.without]
    touching = any(board.split.method is Method.TOUCHING for board in measured)
    checks = [board.split.checks for board in measured]
    missing = {phase for found in checks for phase in (*found.tails, *found.early_w)}
    phases = {item.phase: item for item in energy.phases}
    moved = [phases[phase] for phase in phases if phase in ACTIVE_PHASES - COMPUTING_PHASES]
    trained = [phases[Phase.TRAIN]] if Phase.TRAIN in phases else []
    return tuple(
        found
        for found in (
            _trust(in_all(BOARDS, energy.scope), energy.whole_run, energy.truth, sound=True),
            _trust("training", _net(trained), _truth(trained), sound=Phase.TRAIN not in missing),
            _trust(WASTED, energy.gross.cumulative_wasted, energy.wasted_truth, sound=True),
            _trust("transfers", _net(moved), _truth(moved), sound=not (touching or missing)),
        )
        if found is not None
    )


def _trust(
    quantity: str, energy: Energy | None, truth: TruthCheck | None, *, sound: bool
) -> FigureTrust | None:
    if energy is None or not energy.covered_s or not energy.joules:
        return None
    share = 2.0 * energy.u_joules / abs(energy.joules)
    if not sound or not told_from_zero(energy.joules, energy.u_joules):
        verdict = Verdict.NO
    else:
        verdict = Verdict.WIDE if share > WIDE else Verdict.HOLDS
    return FigureTrust(quantity, verdict, share, None if truth is None else truth.error)


def _net(phases: Sequence[PhaseEnergy]) -> Energy | None:
    return total(item.net for item in phases) if phases else None


def _truth(phases: Sequence[PhaseEnergy]) -> TruthCheck | None:
    """The truth of their sum; None unless that of each is known."""
    checks = [item.truth.net for item in phases if item.truth is not None and item.truth.net is not None]
    if not checks or len(checks) < len(phases):
        return None
    return TruthCheck(
        checks[0].boards,
        min(check.within for check in checks),
        sum(check.measured_j for check in checks),
        u_against_truth(total(item.net for item in phases), rounding_of(checks)),
        sum(check.true_j for check in checks),
    )
