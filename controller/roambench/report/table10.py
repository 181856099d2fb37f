"""The six rows of MOHAWK's Table 10 from the ledger: what a run consumed and what of it was wasted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES
from roambench.energy.energy_value import Energy, told_from_zero
from roambench.energy.ledger import EVERY, NONE, Basis, Chosen, Codes, Kind, Ledger, Numbers, Rows
from roambench.report.joule_names import FAILED, LEARNING, WASTED

#: The rows of the table in its order, and their titles; `{board}` stands for board or device.
TITLES: Final = {
    "cumulative_wasted": f"cumulative, {WASTED}",
    "cumulative_consumed": f"cumulative, {LEARNING}",
    "cumulative_failed": f"cumulative, {FAILED}",
    "per_training_wasted": f"per device-training, {WASTED}",
    "per_training_consumed": f"per device-training, {LEARNING}",
    "per_board_wasted": "per {board}, " + WASTED,
    "per_board_consumed": "per {board}, " + LEARNING,
    "per_round_wasted": f"per round, {WASTED}",
    "per_round_consumed": f"per round, {LEARNING}",
}


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
    training at all and are left out of the per-round rows. `basis`: measured or modelled, never both.

    `cumulative_failed`, a row of our own, is consumed and not wasted: it went into trainings that broke.
    """

    basis: Basis
    kind: Kind
    cumulative_wasted: Energy
    cumulative_consumed: Energy
    cumulative_failed: Energy
    per_training_wasted: MeanSd
    per_training_consumed: MeanSd
    per_board_wasted: MeanSd
    per_board_consumed: MeanSd
    per_round_wasted: MeanSd
    per_round_consumed: MeanSd
    empty_rounds: int

    def rows(self) -> dict[str, Energy | MeanSd]:
        """The figures by their names in `TITLES`."""
        return {name: getattr(self, name) for name in TITLES}

    def headline(self) -> dict[str, float]:
        """The means of the paper's rows; what `factors_between` compares."""
        return {
            f"{name}_j": row.joules if isinstance(row, Energy) else row.mean
            for name, row in self.rows().items()
            if name != "cumulative_failed"
        }


def table10(
    ledger: Ledger,
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
    active, wasted = ledger.of_phase(*ACTIVE_PHASES), ledger.wasted(finished=finished)
    rows: Rows = EVERY if active.all() else active
    device, step, training = ledger.device[rows], ledger.step[rows], ledger.training[rows]
    used = ledger.joules(kind)[rows]
    lost = np.where(wasted[rows], used, 0.0)
    of_training = training != NONE  # a cloud aggregation's model on its way to a device belongs to none
    listed = set(devices)
    there = np.bincount(device, minlength=len(ledger.names)) > 0
    there |= np.array([name in listed for name in ledger.names], bool)
    by_round = np.unique(step)
    last = int(by_round[-1]) + 1 if by_round.size else 0
    return Table10(
        ledger.basis,
        kind,
        ledger.total(kind, active & wasted),
        ledger.total(kind, rows),
        ledger.total(kind, active & ledger.failed()),
        *_wasted_then_consumed(training[of_training], used[of_training], lost[of_training]),
        *_wasted_then_consumed(device, used, lost, there, len(listed - set(ledger.names))),
        *_wasted_then_consumed(step, used, lost),
        empty_rounds=max(last, rounds or 0) - len(by_round),
    )


def basis_of(tables: Sequence[Table10]) -> Basis:
    """The basis of all of them. ValueError where some are measured and others modelled: such joules are not
    comparable and never stand in one table."""
    found = {table.basis for table in tables}
    if len(found) > 1:
        raise ValueError("measured and modelled joules: these are not to be mixed or compared")
    return found.pop() if found else "measured"


def factors_between(a: Table10, b: Table10) -> dict[str, float]:
    """The factors by which `a` spends more than `b`, row by row; NaN where both are 0, or `b` is nothing
    beside its uncertainty, inf where only `b` is 0.

    ValueError where one is measured and the other modelled.
    """
    basis_of((a, b))
    other = b.headline()
    totals = {"wasted": b.cumulative_wasted, "consumed": b.cumulative_consumed}
    lost = [
        of
        for of, total in totals.items()
        if total.joules and not told_from_zero(total.joules, total.u_joules)
    ]
    return {
        name: math.nan if any(of in name for of in lost) else _factor(value, other[name])
        for name, value in a.headline().items()
    }


def _factor(a: float, b: float) -> float:
    if b == 0.0:
        return math.nan if a == 0.0 or math.isnan(a) else math.inf
    return a / b


def _wasted_then_consumed(
    codes: Codes, used: Numbers, lost: Numbers, groups: Chosen | None = None, more: int = 0
) -> tuple[MeanSd, MeanSd]:
    """Means of the sums of each code (default: those that occur), and of as many zeros `more`."""
    if groups is None:
        occurring, codes = np.unique(codes, return_inverse=True)
        groups = np.ones(len(occurring), bool)
    sums = (np.bincount(codes, values, len(groups))[groups].tolist() for values in (lost, used))
    wasted, consumed = (MeanSd.of([*values, *[0.0] * more]) for values in sums)
    return wasted, consumed
