"""One reader of a spool: its place in the queue, and what it could not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from roambench.contract.records import RecordKind

if TYPE_CHECKING:
    from roambench.spool.spool import Spool

Record = tuple[int, RecordKind, bytes]


class Source(Protocol):
    """What a drain empties: a queue of records with a place in it that only moves forward."""

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

    def bury(self, error: str) -> None:
        """The oldest record will never be taken: keep it for people, go on behind it."""
        ...


class Consumer:
    """A `Source`: a named place in a spool. A record is deleted once every consumer is past it."""

    def __init__(self, spool: Spool, name: str) -> None:
        self._spool = spool
        self.name = name

    @property
    def key(self) -> int:
        return int(self._spool.uuid[:15], 16) ^ int.from_bytes(self.name.encode()[:7], "little")

    @property
    def depth(self) -> int:
        return self._spool.depth_of(self.name)

    @property
    def dropped(self) -> int:
        """Records given up before this consumer had them, because the queue was full."""
        return self._spool.dropped_of(self.name)

    @property
    def dead(self) -> int:
        """Records that the far side will never take."""
        return self._spool.dead_of(self.name)

    @property
    def oldest_age_s(self) -> float:
        """How long this consumer's oldest record has waited, by the wall clock; 0 when there is none."""
        return self._spool.oldest_age_of(self.name)

    def batch(self, limit: int = 500) -> list[Record]:
        records = self._spool.batch(limit, after_seq=self._spool.acknowledged(self.name))
        names = [self._spool.uuid_of(seq) for seq, _, _ in (*records[:1], *records[-1:])]
        if len(set(names)) > 1:  # a boot begins within
            return [record for record in records if self._spool.uuid_of(record[0]) == names[0]]
        return records

    def acknowledge(self, through_seq: int) -> int:
        return self._spool.acknowledge(through_seq, self.name)

    def bury(self, error: str) -> None:
        self._spool.bury(error, self.name)
