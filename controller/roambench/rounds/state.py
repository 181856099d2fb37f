"""State of a run between two steps: a value that can be written down and continued from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from roambench.contract.orders import Vector
from roambench.rounds.ports import Score
from roambench.systems.system import ApWork, Memory, PastTraining, Training

#: Where `RoundState.memories` has the cloud rule's.
CLOUD_KEY: Final = "cloud"
#: Where it has the selection's.
SELECTION_KEY: Final = "selection"
UPLOADS_KEY: Final = "uploads"
MEMORY_DTYPES: Final = ("float32", "float64")


def edge_key(ap: int) -> str:
    """Return where `RoundState.memories` has what the edge rule keeps for an AP."""
    return f"ap {ap}"


@dataclass(frozen=True, slots=True)
class StaleModel:
    """A model on a device that is not wanted any more; the device discards it when it is present."""

    train_order_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class RoundState:
    """The state before step `next_step`. AP models are digests into `models`, which holds every distinct
    live version once: after a cloud aggregation all APs share one vector."""

    next_step: int
    global_digest: str
    ap_digests: tuple[str, ...]
    models: Mapping[str, Vector]
    outstanding: Mapping[int, Training]  # Tr, by device
    participating: frozenset[int]  # the set A: APs that aggregated since the last cloud aggregation
    edge_work: Mapping[int, ApWork]  # by AP: what it aggregated since then
    last_sync_step: int  # -1 before the first cloud aggregation
    stale: Mapping[int, StaleModel]  # by device
    past: Mapping[int, PastTraining]  # by device
    previous_aps: Mapping[int, int]  # by device present at the previous step
    unsynced: frozenset[int] = frozenset()  # devices that still have to get the global model as their own
    score: Score | None = None  # of the global model, once it was evaluated
    ended: bool = False  # before the trace did: the accuracy was reached
    #: What the system's rules keep: by `edge_key` of an AP, `CLOUD_KEY`, `SELECTION_KEY`, `UPLOADS_KEY`.
    memories: Mapping[str, Memory] = field(default_factory=dict)

    @property
    def live(self) -> frozenset[str]:
        """The versions that are still wanted: access points', the global one, and what outstanding trainings
        will send the difference to."""
        bases = {training.start_digest for training in self.outstanding.values()} - {""}
        return frozenset({self.global_digest, *self.ap_digests, *bases})

    @property
    def global_model(self) -> Vector:
        """The newest global model."""
        return self.models[self.global_digest]


def initial_state(model: Vector, digest: str, aps: int, unsynced: frozenset[int] = frozenset()) -> RoundState:
    """Before step 0: every AP has the initial global model, no device holds a model."""
    return RoundState(
        next_step=0,
        global_digest=digest,
        ap_digests=(digest,) * aps,
        models={digest: model},
        outstanding={},
        participating=frozenset(),
        edge_work={},
        last_sync_step=-1,
        stale={},
        past={},
        previous_aps={},
        unsynced=unsynced,
    )
