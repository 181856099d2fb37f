"""A rehearsal of an experiment for its plan: the event log to be, and what is done side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roambench.rounds.records import ModelsExchanged, RoundRecord


@dataclass(frozen=True, slots=True)
class Batch:
    """Orders that are carried out side by side, and how long each one's device takes over it.

    `computed` is what this machine does for them: the SGD steps of each training whose model is made now.
    """

    computed: tuple[int, ...]
    device_s: tuple[float, ...]


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

    records: list[RoundRecord]
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
        return any(isinstance(record, ModelsExchanged) for record in self.records)
