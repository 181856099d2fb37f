"""The energy ledger: joules by device, step, phase and outcome."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Outcome, Phase
from roambench.energy.energy_value import Energy, Term, UncertaintyPart

Kind = Literal["gross", "net"]
KINDS: Final[tuple[Kind, ...]] = ("gross", "net")
#: Where joules come from: a meter, or Eq. 1 and assumed powers.
Basis = Literal["measured", "modelled"]
Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.bool_]
Rows = Chosen | Codes | slice  # a mask, numbers of rows, or a slice

PHASES: Final = tuple(Phase)
OUTCOMES: Final = tuple(Outcome)
NONE: Final = -1
EVERY: Final = slice(None)
_BLOCK: Final = 10_000  # rows looked at one by one in Python at a time


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Measured energy of one device in one phase, attributed to one training where it served one.

    `gross_j` includes the board's idle power, `net_j` does not. `naive_j` is the trapezoid over the phase,
    shown beside. `covered_s` is how much of `duration_s` was seen by the meter; a gap is never filled in.

    Standard uncertainties: `u_own_j` is the row's own. Rows of one board share errors: its meter's gain
    (relative `u_gain`, of which `u_reference` is that of the `reference` it was calibrated against) and
    offset (`u_offset_w` while it read, which cancels in net), its idle power (`u_idle_j` of the net energy,
    `u_idle_gross_j` of the gross one). Where phases touch, rows of one phase share its power (`u_level_j`),
    on all boards alike; of rows that share lines, with the phases `sharing`, one has too much where the other
    has too little, and `u_level_j` has a sign. `terms` tells them apart, so that sums of rows come out right;
    `u_gross_j` and `u_net_j` are whole.
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
    u_own_j: float
    naive_j: float
    u_gain: float = 0.0
    u_offset_w: float = 0.0
    u_idle_j: float = 0.0
    u_idle_gross_j: float = 0.0
    u_level_j: float = 0.0
    u_reference: float = 0.0
    reference: str = ""
    sharing: str = ""

    @property
    def u_gross_j(self) -> float:
        """Standard uncertainty of `gross_j`, J."""
        return math.hypot(*(u for _, _, u in self.terms("gross")))

    @property
    def u_net_j(self) -> float:
        """Standard uncertainty of `net_j`, J."""
        return math.hypot(*(u for _, _, u in self.terms("net")))

    def terms(self, kind: Kind = "gross") -> list[Term]:
        """The row's uncertainty: what it shares with other rows of this and of other boards, each with its
        source, and the rest as its own."""
        joules, idle_j = (
            (self.gross_j, self.u_idle_gross_j) if kind == "gross" else (self.net_j, self.u_idle_j)
        )
        offset_j = self.u_offset_w * self.covered_s if kind == "gross" else 0.0
        terms = [
            *self.gain_terms(joules),
            (UncertaintyPart.OFFSET, self.device, offset_j),
            (UncertaintyPart.BASELINE, self.device, idle_j),
            (UncertaintyPart.MODEL, f"borders of {self.sharing or self.phase.value}", self.u_level_j),
            (UncertaintyPart.SAMPLING, "", self.u_own_j),
        ]
        return [term for term in terms if term[2]]

    def gain_terms(self, joules: float) -> list[Term]:
        """The uncertainty of joules that the row's meter read, of its gain."""
        own_gain = math.sqrt(max(0.0, self.u_gain**2 - self.u_reference**2))
        return [
            (UncertaintyPart.GAIN, self.device, own_gain * joules),
            (UncertaintyPart.GAIN, f"reference {self.reference}", self.u_reference * joules),
        ]


@dataclass(frozen=True, eq=False)
class Errors:
    """Uncertainty of rows: signed standard uncertainties `u_j`, shape (rows, n), and of each the place in
    `sources` of the error that it is part of; 0 J where a row has fewer. A source without a name stands for
    errors of the rows' own (see `energy_value.Term`)."""

    sources: tuple[tuple[UncertaintyPart, str], ...]
    source: Codes
    u_j: Numbers

    @classmethod
    def of(cls, rows: Sequence[Sequence[Term]]) -> Self:
        """The errors of rows with these terms."""
        count = np.array([len(terms) for terms in rows], np.int64)
        filled = np.arange(count.max(initial=0)) < count[:, None]
        source, u_j = np.zeros(filled.shape, np.int64), np.zeros(filled.shape)
        sources, source[filled] = coded((part, text) for terms in rows for part, text, _ in terms)
        u_j[filled] = [u for terms in rows for _, _, u in terms]
        return cls(tuple(sources), source, u_j)

    def together(self, rows: Rows) -> tuple[Term, ...]:
        """Terms of the sum of these rows: those of one source are one and the same error and add linearly,
        the rows' own in quadrature."""
        source, u_j = self.source[rows].ravel(), self.u_j[rows].ravel()
        sums = np.bincount(source, u_j, len(self.sources))
        for place, (_, text) in enumerate(self.sources):
            if not text:
                sums[place] = reduce(math.hypot, u_j[source == place].tolist(), 0.0)
        return tuple((*self.sources[place], float(sums[place])) for place in np.flatnonzero(sums).tolist())

    def each(self) -> Numbers:
        """Standard uncertainty of every row, J, shape (rows,)."""
        if not self.sources:
            return np.zeros(len(self.u_j))
        blocks = (self.u_j[start : start + _BLOCK].tolist() for start in range(0, len(self.u_j), _BLOCK))
        return np.array([math.hypot(*row) for block in blocks for row in block])


@dataclass(frozen=True, eq=False)
class Ledger:
    """Joules by device, step, phase and outcome, as columns of shape (rows,). All of them are measured, or
    all are modelled (`basis`): the two are never in one sum.

    `device` is a place in `names`, `phase` in PHASES and `outcome` in OUTCOMES; NONE is an outcome or
    training that is none. `step` is the step of the training served, and rows of one training share a
    number in `training`. Gross joules are with the board's idle power, net ones above it; `errors` is their
    uncertainty. `covered_s` of the `duration_s` hold joules.
    """

    basis: Basis
    names: Sequence[str]
    device: Codes
    step: Codes
    phase: Codes
    outcome: Codes
    training: Codes
    duration_s: Numbers
    covered_s: Numbers
    gross_j: Numbers
    net_j: Numbers
    errors: Mapping[Kind, Errors]

    @staticmethod
    def of(rows: Iterable[LedgerRow]) -> Ledger:
        """The ledger of measured rows."""
        rows = tuple(rows)
        names, device = coded(row.device for row in rows)
        _, training = coded((row.device, row.train_order_id) for row in rows)
        serves = np.array([bool(row.train_order_id) for row in rows], bool)

        def numbers(name: str) -> Numbers:
            return np.array([getattr(row, name) for row in rows], np.float64)

        return Ledger(
            "measured",
            names,
            device,
            np.array([row.step for row in rows], np.int64),
            np.array([PHASES.index(row.phase) for row in rows], np.int64),
            np.array([OUTCOMES.index(row.outcome) if row.outcome else NONE for row in rows], np.int64),
            np.where(serves, training, NONE),
            numbers("duration_s"),
            numbers("covered_s"),
            numbers("gross_j"),
            numbers("net_j"),
            {kind: Errors.of([row.terms(kind) for row in rows]) for kind in KINDS},
        )

    def joules(self, kind: Kind) -> Numbers:
        """Gross or net energy of every row, J, shape (rows,)."""
        return self.gross_j if kind == "gross" else self.net_j

    def phases(self, rows: Rows = EVERY) -> list[Phase]:
        """Those of these rows, in order of first appearance."""
        found, first = np.unique(self.phase[rows], return_index=True)
        return [PHASES[code] for code in found[np.argsort(first)].tolist()]

    def of_phase(self, *phases: Phase) -> Chosen:
        """The rows of any of these phases, as a mask of shape (rows,)."""
        return np.isin(self.phase, [PHASES.index(phase) for phase in phases])

    def wasted(self, *, finished: bool = True) -> Chosen:
        """Return whose joules were wasted; a model outstanding when the run has finished is."""
        outcomes = [Outcome.WASTED, Outcome.PENDING] if finished else [Outcome.WASTED]
        return np.isin(self.outcome, [OUTCOMES.index(outcome) for outcome in outcomes])

    def failed(self) -> Chosen:
        """Return whose joules went into trainings that failed."""
        return np.isin(self.outcome, OUTCOMES.index(Outcome.FAILED))

    def total(self, kind: Kind = "gross", rows: Rows = EVERY) -> Energy:
        """Sum of these rows from the first to the last, with the errors that they share: those add linearly,
        boards and the rest in quadrature (R9)."""
        seen_s = self.covered_s[rows]
        return Energy(
            running_sum(self.joules(kind)[rows]),
            0.0,
            running_sum(seen_s),
            running_sum(np.maximum(0.0, self.duration_s[rows] - seen_s)),
            self.errors[kind].together(rows),
        )

    def by_phase(self, kind: Kind = "gross") -> dict[Phase, Energy]:
        """`total` of the rows of each phase, phases in order of first appearance."""
        return {phase: self.total(kind, self.of_phase(phase)) for phase in self.phases()}

    def by_step(self, kind: Kind = "gross", rows: Rows = EVERY) -> dict[int, float]:
        """Joules of these rows by the round of the training that they served, ascending."""
        steps, of_step = np.unique(self.step[rows], return_inverse=True)
        sums = np.bincount(of_step, self.joules(kind)[rows], len(steps))
        return dict(zip(steps.tolist(), sums.tolist(), strict=True))


def running_sum(values: Numbers) -> float:
    """Sum from the first to the last, as a loop adds them (np.sum adds in pairs)."""
    return float(np.cumsum(values)[-1]) if values.size else 0.0


def coded(values: Iterable[Any]) -> tuple[list[Any], Codes]:
    """The different values in order of first appearance, and the place of each."""
    places: dict[Any, int] = {}
    codes = np.array([places.setdefault(value, len(places)) for value in values], np.int64)
    return list(places), codes
