"""A measured energy: joules, how uncertain, and how much of the time the meter really saw."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Energy:
    """`joules` over `covered_s` seconds; `gap_s` more seconds passed unmeasured and hold no joules here.

    `u_joules` is a standard uncertainty (k = 1). Adding two energies takes their errors as independent
    (quadrature): right for boards with a meter each, too small for two spans of one meter, whose gain
    error is common (`ledger.total` knows which parts are shared).
    """

    joules: float = 0.0
    u_joules: float = 0.0
    covered_s: float = 0.0
    gap_s: float = 0.0

    def __add__(self, other: Energy) -> Energy:
        return Energy(
            self.joules + other.joules,
            math.hypot(self.u_joules, other.u_joules),
            self.covered_s + other.covered_s,
            self.gap_s + other.gap_s,
        )

    @property
    def coverage(self) -> float:
        """Measured share of the time, 0..1; an energy over no time at all is fully covered."""
        total_s = self.covered_s + self.gap_s
        return self.covered_s / total_s if total_s > 0.0 else 1.0

    @property
    def mean_w(self) -> float:
        """Mean power over the covered time; NaN when nothing was covered."""
        return self.joules / self.covered_s if self.covered_s > 0.0 else math.nan


def total(energies: Iterable[Energy]) -> Energy:
    """Sum of independent energies, in the order given."""
    result = Energy()
    for energy in energies:
        result = result + energy
    return result
