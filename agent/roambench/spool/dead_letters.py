"""Records that a far side refused for good: out of the queue, kept for people, who may bring them back."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from roambench.contract.records import RecordKind

#: Of a flood the newest are enough (the consumers' counters count all).
DEAD_LETTERS_KEPT: Final = 10_000
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS dead_letters(
    id INTEGER PRIMARY KEY,
    consumer TEXT NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL, unix_ms INTEGER NOT NULL,
    payload BLOB NOT NULL, error TEXT NOT NULL, run TEXT NOT NULL, spool_uuid TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record as it was in the queue: (`spool_uuid`, `seq`) is its key for ever, `run` empty for none.
    `error` is what `consumer` said of it."""

    number: int
    consumer: str
    run: str
    spool_uuid: str
    seq: int
    kind: RecordKind
    payload: bytes
    error: str


def add(
    rows: sqlite3.Connection, consumer: str, seq: int, run: str, spool_uuid: str, error: str, kept: int
) -> None:
    """Copy record `seq` of the queue and keep the newest `kept` letters; part of the caller's transaction,
    as all of these are."""
    rows.execute(
        "INSERT INTO dead_letters(consumer, seq, kind, unix_ms, payload, error, run, spool_uuid)"
        " SELECT ?, seq, kind, unix_ms, payload, ?, ?, ? FROM records WHERE seq = ?",
        (consumer, error, run, spool_uuid, seq),
    )
    rows.execute("UPDATE consumers SET dead = dead + 1 WHERE name = ?", (consumer,))
    rows.execute("DELETE FROM dead_letters WHERE id <= (SELECT MAX(id) FROM dead_letters) - ?", (kept,))


def letters(rows: sqlite3.Connection, run: str | None) -> list[DeadLetter]:
    """Those of `run` (None: all), the oldest first."""
    found = rows.execute(
        "SELECT id, consumer, run, spool_uuid, seq, kind, payload, error FROM dead_letters ORDER BY id"
    )
    return [
        DeadLetter(number, consumer, of, uuid, seq, RecordKind(kind), payload, error)
        for number, consumer, of, uuid, seq, kind, payload, error in found
        if run in (None, of)
    ]


def forget(rows: sqlite3.Connection, letter: DeadLetter) -> None:
    """Delete one dead letter, and count it off its consumer."""
    rows.execute("DELETE FROM dead_letters WHERE id = ?", (letter.number,))
    rows.execute("UPDATE consumers SET dead = MAX(0, dead - 1) WHERE name = ?", (letter.consumer,))
