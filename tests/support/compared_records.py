"""Records of two runs, laid out to be compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from roambench.rounds.records import OrderAnswered, RoundRecord, StepClosed


def without_clock_and_loss(records: Sequence[RoundRecord]) -> list[RoundRecord]:
    """What is left when wall time and losses (of trainings that were not computed) do not count."""
    kept: list[RoundRecord] = []
    for record in records:
        match record:
            case OrderAnswered():
                kept.append(dataclasses.replace(record, mean_loss=None))
            case StepClosed():
                kept.append(dataclasses.replace(record, wall_s=0.0))
            case _:
                kept.append(record)
    return kept
