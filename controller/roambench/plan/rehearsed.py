"""A rehearsal of an experiment for its plan: the event log to be, and what is done side by side."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Self

from roambench.rounds.records import ModelsExchanged
from roambench.runs.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Batch:
    """Sums of orders that are carried out side by side: their devices' seconds, and the SGD steps of the
    trainings that this machine computes for them."""

    orders: int
    device_s: float  # of all orders together
    longest_s: float
    computed: int  # trainings whose models are made now
    sgd_steps: int  # of all of them
    most_sgd_steps: int  # of one

    @classmethod
    def of(cls, sgd_steps: Collection[int], device_s: Collection[float]) -> Self:
        """The batch of trainings with these SGD steps, and of orders with these seconds of their devices."""
        return cls(
            len(device_s),
            math.fsum(device_s),
            max(device_s, default=0.0),
            len(sgd_steps),
            sum(sgd_steps),
            max(sgd_steps, default=0),
        )


@dataclass(frozen=True, slots=True)
class AirTime:
    """Seconds in which a device's radio sends, and in which it receives, in one exchange."""

    sending_s: float
    receiving_s: float


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """`records` are those of the run, with the seconds that orders take on their devices.

    `scorings` of a model on the test set, `published` model versions that the controller names, `collected`
    models that it fetches for scoring alone, `mixed` models that devices add up. `controller_s` is the CPU
    that the rounds themselves took here. `air` is by the id of an exchange order, of agents only.
    """

    records: EventLog
    batches: tuple[Batch, ...]
    scorings: int
    published: int
    collected: int = 0
    mixed: int = 0
    controller_s: float = 0.0
    air: Mapping[str, AirTime] = field(default_factory=dict)

    @property
    def exchanging(self) -> bool:
        """True if devices give their models to each other."""
        return self.records.count(ModelsExchanged) > 0
