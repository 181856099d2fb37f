"""The energy ledger: joules by device, round, phase and outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

from roambench.contract.phases import Outcome, Phase
from roambench.energy.energy_value import Energy, Part, Term
from roambench.energy.energy_value import total as sum_of

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

    Boards of one kind are wrong together where an assumption and not a reading decides: how late lines are
    (`late_shared` of the edges, 0..1), how idle power moves (`u_idle_shared_w` of `u_idle_w`), what happens
    at a transfer's borders (`u_border_shared_w` of the levels): what it draws while it waits, or, without a
    model, what a training beside it begins or ends with.

    `design_based` rows have the mean power of their phase from an estimate without a model of its shape,
    since the readings contradict the fitted one, or since it is waiting (`design_based.in_doubt`).
    """

    device: str
    step: int  # the round in which the training was ordered; for background phases the step itself
    phase: Phase
    outcome: Outcome | None  # None for background phases
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
    design_based: bool = False
    late_shared: float = 0.0
    u_idle_shared_w: float = 0.0
    u_border_shared_w: float = 0.0

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
        """Uncertainty terms that the row shares with others, each with its source."""
        gross = kind == "gross"
        board, level = self.device, f"{self.device} {self.phase.value}"
        own_gain = _less(self.u_gain, self.u_reference)
        edge_j = (self.edge_w if gross else self.net_edge_w) * self.covered_s
        level_w = _less(self.u_level_w if gross else self.u_net_level_w, self.u_border_shared_w)
        idle_w = 0.0 if gross else _less(self.u_idle_w, self.u_idle_shared_w)
        return [
            (Part.GAIN, board, own_gain * joules),
            (Part.GAIN, f"reference {self.reference}", self.u_reference * joules),
            (Part.OFFSET, board, self.u_offset_w * self.covered_s if gross else 0.0),
            (Part.SAMPLING, level, level_w * self.covered_s),
            (Part.SAMPLING, f"borders of {self.phase.value}", self.u_border_shared_w * self.covered_s),
            (Part.EDGES, board, _less(1.0, self.late_shared) * edge_j),
            (Part.EDGES, "lateness", self.late_shared * edge_j),
            (Part.BASELINE, board, -idle_w * self.covered_s),
            (Part.BASELINE, "idle model", 0.0 if gross else -self.u_idle_shared_w * self.covered_s),
        ]


def _less(u: float, shared: float) -> float:
    """The rest of a standard uncertainty without an independent part of it."""
    return math.sqrt(max(0.0, u * u - shared * shared))


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


def totals_by_phase(rows: Iterable[LedgerRow], kind: Kind = "gross") -> dict[Phase, Energy]:
    """`total` of the rows of each phase, phases in order of first appearance."""
    return totals_by(rows, lambda row: row.phase, kind)
