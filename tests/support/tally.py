"""The counts of a run: trainings, what became of them, how many models each step aggregated; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roambench.contract.phases import Outcome
from roambench.rounds.records import OrderGiven, OutcomeDecided, RoundRecord, StepClosed


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over one run. `reasons`: why trainings were wasted or failed, most frequent first."""

    steps: int
    trainings: int
    uploads: int
    aggregated: int
    wasted: int
    failed: int
    reasons: Mapping[str, int]
    aggregated_by_step: tuple[int, ...]

    @property
    def aggregated_per_step(self) -> float:
        """MOHAWK Table 5: mean over the steps at which models can arrive, t = 1..steps-1."""
        later = self.aggregated_by_step[1:]
        return sum(later) / len(later) if later else 0.0

    @property
    def wasted_share(self) -> float:
        """Share of all trainings that the system had no use for; 0 without trainings."""
        return self.wasted / self.trainings if self.trainings else 0.0


def tally(records: Iterable[RoundRecord]) -> Tally:
    """Count trainings, uploads, and what was wasted or failed, with the reasons."""
    trainings = uploads = wasted = failed = 0
    reasons: Counter[str] = Counter()
    by_step: list[int] = []
    for record in records:
        match record:
            case OrderGiven(kind="train"):
                trainings += 1
            case OrderGiven(kind="upload"):
                uploads += 1
            case OutcomeDecided(outcome=Outcome.WASTED):
                wasted += 1
                reasons[record.reason] += 1
            case OutcomeDecided(outcome=Outcome.FAILED):
                failed += 1
                reasons[record.reason] += 1
            case StepClosed():
                by_step.append(record.aggregated)
            case _:
                pass
    return Tally(
        steps=len(by_step),
        trainings=trainings,
        uploads=uploads,
        aggregated=sum(by_step),
        wasted=wasted,
        failed=failed,
        reasons=dict(reasons.most_common()),
        aggregated_by_step=tuple(by_step),
    )
