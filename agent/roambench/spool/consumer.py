"""A consumer's side of a queue: records, and the source that hands them out."""

from __future__ import annotations

from typing import Protocol

from roambench.contract.records import RecordKind

Record = tuple[int, RecordKind, bytes]


class DrainSource(Protocol):
    """The source of a drain: a queue of records with a place in it that only moves forward."""

    @property
    def key(self) -> int:
        """A number that tells this queue from others: waiting times are drawn by it."""
        ...

    @property
    def depth(self) -> int:
        """Records not yet acknowledged."""
        ...

    def batch(self, limit: int = 500) -> list[Record]:
        """The oldest records that are not acknowledged, at most `limit`, ascending: all under one name of
        the queue."""
        ...

    def acknowledge(self, through_seq: int) -> int:
        """Everything up to and including `through_seq` is durable elsewhere; returns how many were new."""
        ...

    def dead_letter(self, error: str) -> None:
        """The oldest record will never be taken: keep it for people, go on behind it."""
        ...
