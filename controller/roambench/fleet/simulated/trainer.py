"""Protocol of what computes the trainings of virtual devices: worker processes, one stacked batch, other
machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome

#: Called with a job's index and outcome as soon as it is there, while others are still computed.
OnOutcome = Callable[[int, TrainingOutcome], None]


def no_hurry(index: int, outcome: TrainingOutcome) -> None:
    """Ignore an outcome: for callers that need none before all are there."""


class TrainingBackend(Protocol):
    """A backend of the simulated fleet. Models are rows of the run's `ModelRows`, read and written there."""

    async def start(self) -> None:
        """Get everything warm; FleetError says what is missing."""
        ...

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        """Write every job's model to its `out_row`; one outcome per job, in the order given.

        `on_outcome` is called once per job, in any order, when its model is in its row.

        The order in which a backend does them, and how many at a time, never changes a result.
        """
        ...

    async def stop(self) -> None:
        """Leave nothing behind; also after a `start` that failed."""
        ...
