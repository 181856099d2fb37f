"""What the round loop needs from the world, as protocols; fleets, run folders and evaluators provide it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from roambench.contract.orders import Answer, Order, Vector
from roambench.rounds.records import RoundRecord


class Fleet(Protocol):
    """Whoever carries orders out: simulated devices, local agents or boards."""

    async def perform(self, orders: Sequence[Order]) -> list[Answer]:
        """Carry out `orders` concurrently; one answer per order, in the order given, never an exception.

        A device that dies, refuses, times out or answers garbage is an Answer that says so. Returns when
        every order is answered or past the fleet's deadline.
        """
        ...

    def publish(self, model: Vector) -> str:
        """Make a model version downloadable; returns its digest (the same vector gives the same digest)."""
        ...

    def retain(self, digests: Collection[str]) -> None:
        """Forget every published version that is not in `digests`."""
        ...


class Journal(Protocol):
    """The append-only memory of a run."""

    def append(self, record: RoundRecord) -> None: ...


@dataclass(frozen=True, slots=True)
class Score:
    """How good a global model is on the test set."""

    accuracy: float  # 0..1
    loss: float


class Evaluator(Protocol):
    """Scores a flat model; may take seconds, so the loop awaits it."""

    async def score(self, model: Vector) -> Score: ...
