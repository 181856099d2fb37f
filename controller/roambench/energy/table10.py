"""The six rows of MOHAWK's Table 10 from the ledger: what a run consumed and what of it was wasted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from roambench.contract.phases import ACTIVE_PHASES, Outcome, Phase
from roambench.energy.energy_value import Energy, total
from roambench.energy.ledger import Kind


class EnergyRow(Protocol):
    """The fields of a row that the table reads: a measured one of the ledger, or a modelled one (never both
    kinds)."""

    @property
    def device(self) -> str:
        """Name of the device that used the energy."""
        ...

    @property
    def step(self) -> int:
        """The round that the row is charged to."""
        ...

    @property
    def phase(self) -> Phase:
        """Phase of the device meanwhile."""
        ...

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the training that the row belongs to; None for a transfer that serves none."""
        ...

    @property
    def train_order_id(self) -> str:
        """Order of that training; empty without one."""
        ...

    @property
    def gross_j(self) -> float:
        """Everything that the board drew, J."""
        ...

    @property
    def net_j(self) -> float:
        """The part above idling, J."""
        ...

    def energy(self, kind: Kind = "gross") -> Energy:
        """The row's joules with their uncertainty, to be added to others by `total`."""
        ...


@dataclass(frozen=True, slots=True)
class MeanSd:
    """Mean and sample standard deviation (n - 1; 0 for a single value) of `count` values."""

    mean: float
    sd: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanSd:
        """Mean and deviation of `values`; NaN, NaN and 0 without any."""
        count = len(values)
        if not count:
            return cls(math.nan, math.nan, 0)
        mean = math.fsum(values) / count
        spread = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, math.sqrt(spread / (count - 1)) if count > 1 else 0.0, count)


@dataclass(frozen=True, slots=True)
class Table10:
    """Joules of download, training and upload; idle, absence and waiting are no part of it.

    Per training and per round an unwasted one counts with 0 J wasted, so that wasted / consumed of a pair
    of rows is the wasted share. `per_board` is the sum of each board over the run. `empty_rounds` had no
    training at all and are left out of the per-round rows.
    """

    kind: Kind
    cumulative_wasted: Energy
    cumulative_consumed: Energy
    per_training_wasted: MeanSd
    per_training_consumed: MeanSd
    per_board_wasted: MeanSd
    per_board_consumed: MeanSd
    per_round_wasted: MeanSd
    per_round_consumed: MeanSd
    empty_rounds: int

    def headline(self) -> dict[str, float]:
        """The means by name, in the table's order; what `improvement` compares."""
        return {
            "cumulative_wasted_j": self.cumulative_wasted.joules,
            "cumulative_consumed_j": self.cumulative_consumed.joules,
            "per_training_wasted_j": self.per_training_wasted.mean,
            "per_training_consumed_j": self.per_training_consumed.mean,
            "per_board_wasted_j": self.per_board_wasted.mean,
            "per_board_consumed_j": self.per_board_consumed.mean,
            "per_round_wasted_j": self.per_round_wasted.mean,
            "per_round_consumed_j": self.per_round_consumed.mean,
        }


def is_wasted(row: EnergyRow, *, finished: bool = True) -> bool:
    """Whether the row's joules were wasted; a model outstanding when the run has finished is."""
    return row.outcome is Outcome.WASTED or (finished and row.outcome is Outcome.PENDING)


def table10(
    rows: Iterable[EnergyRow],
    kind: Kind = "gross",
    *,
    rounds: int | None = None,
    devices: Sequence[str] = (),
    finished: bool = True,
) -> Table10:
    """Build the table from the rows of all devices.

    `rounds` is the number of rounds of the run (default: up to the last one with a training);
    `devices` names boards that may have no active row at all and then count with 0 J.
    `finished = False` leaves pending models out of the wasted ones, for a look at a running experiment.
    """
    active = [row for row in rows if row.phase in ACTIVE_PHASES]
    wasted = [row for row in active if is_wasted(row, finished=finished)]

    def joules(row: EnergyRow) -> float:
        return row.gross_j if kind == "gross" else row.net_j

    trainings: dict[Hashable, tuple[float, float]] = {}
    boards: dict[Hashable, tuple[float, float]] = dict.fromkeys(devices, (0.0, 0.0))
    by_round: dict[Hashable, tuple[float, float]] = {}
    for row in active:
        used = joules(row)
        lost = used if is_wasted(row, finished=finished) else 0.0
        keys = [(boards, row.device), (by_round, row.step)]
        if row.train_order_id:  # a cloud aggregation's model on its way to a device belongs to no training
            keys.append((trainings, (row.device, row.train_order_id)))
        for groups, key in keys:
            before = groups.get(key, (0.0, 0.0))
            groups[key] = (before[0] + used, before[1] + lost)
    last = max((row.step for row in active), default=-1) + 1
    return Table10(
        kind,
        total(row.energy(kind) for row in wasted),
        total(row.energy(kind) for row in active),
        *_wasted_then_consumed(trainings),
        *_wasted_then_consumed(boards),
        *_wasted_then_consumed(by_round),
        empty_rounds=max(last, rounds or 0) - len(by_round),
    )


def improvement(a: Table10, b: Table10) -> dict[str, float]:
    """How many times more `a` spends than `b`, row by row; NaN where both are 0, inf where only `b` is."""
    other = b.headline()
    return {name: _factor(value, other[name]) for name, value in a.headline().items()}


def _factor(a: float, b: float) -> float:
    if b == 0.0:
        return math.nan if a == 0.0 or math.isnan(a) else math.inf
    return a / b


def _wasted_then_consumed(groups: dict[Hashable, tuple[float, float]]) -> tuple[MeanSd, MeanSd]:
    return MeanSd.of([lost for _, lost in groups.values()]), MeanSd.of([used for used, _ in groups.values()])
