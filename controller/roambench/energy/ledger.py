"""The energy ledger: joules by device, round, phase and fate."""

from __future__ import annotations

from dataclasses import dataclass

from roambench.contract.phases import Fate, Phase


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Energy of one device in one phase, attributed to one training where it served one.

    `gross_j` includes the board's idle power, `net_j` does not. `u_gross_j` and `u_net_j` are standard
    uncertainties. `naive_j` is the trapezoid per phase, shown beside. `covered_s` is how much of
    `duration_s` was seen by the meter; a gap is never filled in.
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
