"""Batteries in a run: charge by step, devices that went off, and what models they held."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from roambench.contract.phases import Outcome
from roambench.rounds.records import BatteriesSeen, OutcomeDecided, StepClosed
from roambench.runs.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Death:
    """A device that went off. `held`: it had a model that no access point had asked for; `lost`: that was
    wasted or failed before the device was back."""

    step: int  # the first in which it is off
    device: str
    back_step: int | None  # None: not in this run
    held: bool
    lost: bool


@dataclass(frozen=True, slots=True)
class BatterySummary:
    """Charges are shares of a full battery; `mean_charges` and `lowest_charges` have one entry per step."""

    deaths: tuple[Death, ...]
    dead_share: float  # of all devices' steps
    mean_charges: tuple[float, ...]
    lowest_charges: tuple[float, ...]

    @property
    def count(self) -> int:
        """The number of times that a device went off; those that begin the run off are counted."""
        return len(self.deaths)

    @property
    def lost(self) -> int:
        """Models that died with their devices."""
        return sum(death.lost for death in self.deaths)

    @property
    def lowest_charge(self) -> float:
        """The lowest of any device at the beginning of a step."""
        return min(self.lowest_charges)


def battery_summary(log: EventLog, names: tuple[str, ...]) -> BatterySummary | None:
    """The summary of a run's log; None where the run had no batteries."""
    seen: list[BatteriesSeen] = list(log.only(BatteriesSeen))
    if not seen:
        return None
    held = {record.step: frozenset(record.outstanding) for record in log.only(StepClosed)}
    given_up = {
        (one.device, one.step) for one in log.only(OutcomeDecided) if one.outcome is not Outcome.AGGREGATED
    }
    charges = [record.charges for record in seen]
    return BatterySummary(
        tuple(_deaths(seen, names, held, given_up)),
        sum(len(record.off) for record in seen) / sum(map(len, charges)),
        tuple(math.fsum(each) / len(each) for each in charges),
        tuple(map(min, charges)),
    )


def _deaths(
    seen: list[BatteriesSeen],
    names: tuple[str, ...],
    held: dict[int, frozenset[int]],
    given_up: set[tuple[int, int]],
) -> Iterable[Death]:
    before: frozenset[int] = frozenset()
    for place, record in enumerate(seen):
        for device in sorted(set(record.off) - before):
            back = next((later.step for later in seen[place:] if device not in later.off), None)
            until = seen[-1].step + 1 if back is None else back
            had = device in held.get(record.step - 1, ())
            lost = had and any((device, step) in given_up for step in range(record.step, until))
            yield Death(record.step, names[device], back, had, lost)
        before = frozenset(record.off)
