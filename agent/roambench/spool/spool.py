"""A durable first-in-first-out queue of small records in one SQLite file, with several readers.

One autocommit INSERT per record survives the death of the process (0.02 ms a row on a laptop); once a second
`sync` makes all rows before it survive a power cut, beside the appends (`write_ahead`). Syncing every row
would cost nine times as much and wear the SD card.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from roambench.contract.errors import SpoolError
from roambench.contract.records import RecordKind
from roambench.spool import dead_letters
from roambench.spool.consumer import Record
from roambench.spool.dead_letters import DeadLetter
from roambench.spool.record_context import RecordContext
from roambench.spool.write_ahead import LogSync, Spoilt, check, connect, is_spoilt, put_aside

#: About 32 days of readings at 1 Hz.
DEFAULT_CAP_BYTES: Final = 256 * 1024 * 1024
#: What a row costs beside its payload: b-tree cell, seq, kind, stamp.
ROW_OVERHEAD_BYTES: Final = 32
#: Host seconds between syncs: what a power cut may cost.
SYNC_PERIOD_S: Final = 1.0
CONTROLLER: Final = "controller"

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS records(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind INTEGER NOT NULL, unix_ms INTEGER NOT NULL, payload BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS consumers(
    name TEXT PRIMARY KEY, acknowledged INTEGER NOT NULL, dropped INTEGER NOT NULL, dead INTEGER NOT NULL
);
{dead_letters.SCHEMA}
CREATE TABLE IF NOT EXISTS record_contexts(first_seq INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS names(first_seq INTEGER PRIMARY KEY, uuid TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value NOT NULL);
COMMIT;
"""
_STATE = f"""
SELECT COUNT(*), COALESCE(SUM(LENGTH(payload)), 0), MIN(seq), MAX(seq), COALESCE(SUM(
    typeof(payload) != 'blob' OR typeof(unix_ms) != 'integer'
    OR kind NOT IN ({", ".join(str(int(kind)) for kind in RecordKind)})
), 0) FROM records
"""
_APPEND = "INSERT INTO records(kind, unix_ms, payload) VALUES (?, ?, ?)"


class Spool:
    """The queue behind `path`; one process owns it, `sync` may run in another thread.

    Sequence numbers start at 1 and ascend without holes, also after the queue was emptied and the process
    restarted. A power cut takes the newest of them back, perhaps after they were sent: so the queue has a new
    name from the first record context of every boot on, and no number is given twice under one name. Every
    one of `consumers` gets every record and acknowledges it; then
    it is deleted. A consumer that was not there before begins with the oldest record that still is; one that
    is no longer named is forgotten, so that it holds nothing back. Beyond `cap_bytes` the oldest records are
    dropped and counted.
    """

    def __init__(
        self,
        path: Path,
        cap_bytes: int = DEFAULT_CAP_BYTES,
        consumers: Sequence[str] = (CONTROLLER,),
        dead_letters_kept: int = dead_letters.DEAD_LETTERS_KEPT,
    ) -> None:
        """A file that is damaged or no spool is renamed, an empty queue takes its place: see `damage`."""
        if not consumers:
            raise ValueError("a spool needs a consumer that empties it")
        self.damage = ""  # what was wrong with the file that was put aside, and how it is called now
        self._path = path
        self._cap_bytes = cap_bytes
        self._dead_letters_kept = dead_letters_kept
        with self._explained():
            try:
                self._open(tuple(dict.fromkeys(consumers)))
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not is_spoilt(error):
                    raise
                self.damage = f"{error}; its file is now {put_aside(path).name}"
                self._open(tuple(dict.fromkeys(consumers)))
            self._delete_through(min(self._acknowledged.values()))
        self.consumers = {name: Consumer(self, name) for name in self._acknowledged}

    def _open(self, consumers: tuple[str, ...]) -> None:
        self._rows = connect(self._path)
        try:
            check(self._rows, ("records", "consumers", "dead_letters", "meta"))
            self._rows.executescript(_SCHEMA)
            self._rows.execute("INSERT OR IGNORE INTO meta VALUES ('uuid', ?)", (uuid.uuid4().hex,))
            self._rows.execute("INSERT OR IGNORE INTO meta VALUES ('dropped', 0)")
            self._name_consumers(consumers)
            self._read_back()
            self._log = LogSync(self._path)
        except BaseException:
            self._rows.close()
            raise

    def _read_back(self) -> None:
        """Read again from the file what this object keeps of it; Spoilt where that makes no sense."""
        count, payload_bytes, first_seq, last_seq, strange = self._rows.execute(_STATE).fetchone()
        row = self._rows.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
        known = self._rows.execute("SELECT name, acknowledged FROM consumers").fetchall()
        try:
            self._last_seq = int(row[0]) if row else 0
            self._dropped = int(str(self._meta("dropped")))
            first = [(0, uuid.UUID(str(self._meta("uuid"))).hex)]
            later = self._rows.execute("SELECT first_seq, uuid FROM names ORDER BY first_seq")
            self._names = first + [(int(first_seq), str(name)) for first_seq, name in later]
            self._acknowledged = {str(name): int(acknowledged) for name, acknowledged in known}
            self._contexts = [
                (int(first_seq), RecordContext.from_json(body))
                for first_seq, body in self._rows.execute("SELECT * FROM record_contexts ORDER BY first_seq")
            ]
        except (TypeError, ValueError) as error:
            raise Spoilt(f"a row of it cannot be: {error}") from None
        whole = not count or (last_seq, first_seq) == (self._last_seq, last_seq - count + 1)
        if strange or not whole or max(self._acknowledged.values()) > self._last_seq:
            raise Spoilt("its records do not fit together")
        self._first_seq = self._last_seq - int(count) + 1
        self._bytes = int(payload_bytes) + ROW_OVERHEAD_BYTES * int(count)

    @property
    def uuid(self) -> str:
        """The queue's name in this boot (32 hex digits), under which the next record is stored."""
        return self._names[-1][1]

    @property
    def depth(self) -> int:
        """Records in the queue: a consumer still waits for each of them."""
        return self._last_seq - self._first_seq + 1

    @property
    def dropped(self) -> int:
        """Records given up because the queue was full, over the life of the file."""
        return self._dropped

    @property
    def dead(self) -> int:
        """Records that some far side will never take."""
        return sum(self.dead_of(name) for name in self._acknowledged)

    # ---- writing ---------------------------------------------------------------------------

    def append(self, kind: RecordKind, payload: bytes) -> int:
        """Store one record; when this returns it survives SIGKILL. Returns its seq."""
        try:  # spelled out: entering `_explained` takes 1 us, of the 20 that a reading may cost here
            seq = self._rows.execute(_APPEND, (kind, time.time_ns() // 1_000_000, payload)).lastrowid
        except sqlite3.Error as error:
            raise SpoolError(f"spool {self._path}: {error}") from error
        assert seq is not None
        self._last_seq = seq
        self._bytes += len(payload) + ROW_OVERHEAD_BYTES
        if self._bytes > self._cap_bytes:
            with self._explained():
                self._drop_oldest()
        return seq

    def begin_context(self, context: RecordContext, ns: int) -> None:
        """From the next record on `context` holds; it goes into the queue as an event, too.

        To be called before the first record of a boot: its record context gives the queue a new name.
        """
        last = self.context
        if last == context:
            return
        with self._explained(), self._transaction():
            # All of it is one commit: a record never finds itself in the wrong record context after a crash.
            first_seq = self.append(RecordKind.EVENT, context.to_event(ns).to_bytes())
            self._rows.execute("INSERT INTO record_contexts VALUES (?, ?)", (first_seq, context.to_json()))
            self._contexts.append((first_seq, context))
            if last is None or last.boot_id != context.boot_id:
                self._names.append((first_seq, uuid.uuid4().hex))
                self._rows.execute("INSERT INTO names VALUES (?, ?)", self._names[-1])
            self._forget_contexts()

    # ---- reading ---------------------------------------------------------------------------

    def batch(self, limit: int = 500, after_seq: int = 0) -> list[Record]:
        """The oldest records beyond `after_seq`, at most `limit`, ascending; they stay in the queue."""
        with self._explained():
            rows = self._rows.execute(
                "SELECT seq, kind, payload FROM records WHERE seq > ? ORDER BY seq LIMIT ?",
                (after_seq, limit),
            ).fetchall()
        return [(seq, RecordKind(kind), payload) for seq, kind, payload in rows]

    @property
    def context(self) -> RecordContext | None:
        """The one that holds now."""
        return self._contexts[-1][1] if self._contexts else None

    def context_of(self, seq: int) -> RecordContext | None:
        """The one that held when record `seq` was stored; None before the first."""
        index = bisect_right(self._contexts, seq, key=lambda row: row[0])
        return self._contexts[index - 1][1] if index else None

    def uuid_of(self, seq: int) -> str:
        """The queue's name when record `seq` was stored: (uuid, seq) is a record's key for ever."""
        return self._names[bisect_right(self._names, seq, key=lambda row: row[0]) - 1][1]

    def context_of_boot(self, boot_id: str) -> RecordContext | None:
        """The last one of that boot, if it is still known."""
        return next((c for _, c in reversed(self._contexts) if c.boot_id == boot_id), None)

    # ---- consumers -------------------------------------------------------------------------

    def acknowledged(self, consumer: str = CONTROLLER) -> int:
        """Everything up to here is durable at this consumer's far side (or given up)."""
        return self._acknowledged[consumer]

    def acknowledge(self, through_seq: int, consumer: str = CONTROLLER) -> int:
        """`consumer` is past everything up to and including `through_seq`; returns how many were new."""
        through_seq = min(through_seq, self._last_seq)
        new = through_seq - max(self._acknowledged[consumer], self._first_seq - 1)
        if new <= 0:
            return 0
        with self._explained(), self._transaction():
            self._advance(consumer, through_seq)
        return new

    def dead_letter(self, error: str, consumer: str = CONTROLLER) -> None:
        """Put a copy of `consumer`'s oldest record to the dead letters: kept for people, not sent again."""
        rows = self.batch(1, self._acknowledged[consumer])
        if not rows:
            return
        seq = rows[0][0]
        context = self.context_of(seq)
        run = context.run if context is not None else ""
        with self._explained(), self._transaction():
            dead_letters.add(
                self._rows, consumer, seq, run, self.uuid_of(seq), error, self._dead_letters_kept
            )
            self._advance(consumer, seq)

    def dead_letters(self, run: str | None = None) -> list[DeadLetter]:
        """Those of `run` (None: all), the oldest first."""
        with self._explained():
            return dead_letters.letters(self._rows, run)

    def forget_dead(self, letters: Sequence[DeadLetter]) -> None:
        """They are elsewhere now, durably."""
        with self._explained(), self._transaction():
            for letter in letters:
                dead_letters.forget(self._rows, letter)

    def depth_of(self, consumer: str) -> int:
        """Records that `consumer` has not acknowledged."""
        return self._last_seq - max(self._acknowledged[consumer], self._first_seq - 1)

    def dropped_of(self, consumer: str) -> int:
        """Records given up before `consumer` had them."""
        return self._counter(consumer, "dropped")

    def dead_of(self, consumer: str) -> int:
        """Records that the far side of `consumer` will never take."""
        return self._counter(consumer, "dead")

    @property
    def oldest_age_s(self) -> float:
        """Return how long the oldest record has waited, by the wall clock; 0 when there is none."""
        return self._age_s(self._first_seq - 1)

    def oldest_age_of(self, consumer: str) -> float:
        """Seconds that the oldest record of `consumer` has waited."""
        return self._age_s(self._acknowledged[consumer])

    def _age_s(self, after_seq: int) -> float:
        with self._explained():
            row = self._rows.execute(
                "SELECT unix_ms FROM records WHERE seq > ? ORDER BY seq LIMIT 1", (after_seq,)
            ).fetchone()
        return 0.0 if row is None else max(0.0, time.time() - row[0] / 1e3)

    # ---- life ------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything appended so far survive a power cut; call it once a second, from any thread.

        An append never waits for it.
        """
        with self._explained():
            self._log.sync()

    async def keep_synced(self) -> None:
        """For ever: sync once a second."""
        while True:
            await asyncio.sleep(SYNC_PERIOD_S)
            await asyncio.to_thread(self.sync)

    def close(self) -> None:
        """Sync and close; the queue cannot be used afterwards."""
        self.sync()
        with self._explained():
            self._log.close()
            self._rows.close()

    def _advance(self, consumer: str, through_seq: int) -> None:
        self._rows.execute("UPDATE consumers SET acknowledged = ? WHERE name = ?", (through_seq, consumer))
        self._acknowledged[consumer] = through_seq
        self._delete_through(min(self._acknowledged.values()))

    def _delete_through(self, through_seq: int) -> None:
        if through_seq < self._first_seq:
            return
        (payload_bytes,) = self._rows.execute(
            "SELECT COALESCE(SUM(LENGTH(payload)), 0) FROM records WHERE seq <= ?", (through_seq,)
        ).fetchone()
        self._rows.execute("DELETE FROM records WHERE seq <= ?", (through_seq,))
        self._bytes -= payload_bytes + ROW_OVERHEAD_BYTES * (through_seq - self._first_seq + 1)
        self._first_seq = through_seq + 1
        self._forget_contexts()

    def _forget_contexts(self) -> None:
        """Those that no record is in any more, and such names; the last one always stays."""
        while len(self._names) > 1 and self._names[1][0] <= self._first_seq:
            self._rows.execute("DELETE FROM names WHERE first_seq = ?", (self._names.pop(0)[0],))
        while len(self._contexts) > 1 and self._contexts[1][0] <= self._first_seq:
            self._rows.execute("DELETE FROM record_contexts WHERE first_seq = ?", (self._contexts.pop(0)[0],))

    def _drop_oldest(self) -> None:
        """Free a hundredth of the cap (at least what is over), so that this is not needed at every append."""
        surplus = self._bytes - self._cap_bytes + self._cap_bytes // 100
        through_seq = 0
        for seq, size in self._rows.execute("SELECT seq, LENGTH(payload) FROM records ORDER BY seq"):
            if surplus <= 0:
                break
            surplus -= size + ROW_OVERHEAD_BYTES
            through_seq = seq
        with self._transaction():
            self._dropped += through_seq - self._first_seq + 1
            self._rows.execute("UPDATE meta SET value = ? WHERE key = 'dropped'", (self._dropped,))
            for consumer, acknowledged in self._acknowledged.items():
                lost = through_seq - max(acknowledged, self._first_seq - 1)
                if lost > 0:
                    self._rows.execute(
                        "UPDATE consumers SET dropped = dropped + ?, acknowledged = ? WHERE name = ?",
                        (lost, through_seq, consumer),
                    )
                    self._acknowledged[consumer] = through_seq
            self._delete_through(through_seq)

    def _name_consumers(self, names: tuple[str, ...]) -> None:
        """New ones begin at the start, those that are not among `names` are forgotten."""
        with self._transaction():
            for name in names:
                self._rows.execute("INSERT OR IGNORE INTO consumers VALUES (?, 0, 0, 0)", (name,))
            for (name,) in self._rows.execute("SELECT name FROM consumers").fetchall():
                if name not in names:
                    self._rows.execute("DELETE FROM consumers WHERE name = ?", (name,))

    def _counter(self, consumer: str, column: str) -> int:
        with self._explained():
            row = self._rows.execute(f"SELECT {column} FROM consumers WHERE name = ?", (consumer,)).fetchone()
        return int(row[0])

    def _meta(self, key: str) -> object:
        return self._rows.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; inside another one it is part of that."""
        if self._rows.in_transaction:
            yield
            return
        self._rows.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._rows.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.OperationalError):  # on a full disk SQLite may have done it already
                self._rows.execute("ROLLBACK")
            self._read_back()  # this object was ahead of its file
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise SpoolError(f"spool {self._path}: {error}") from error


class Consumer:
    """A `Source`: a named place in a spool. A record is deleted once every consumer is past it."""

    def __init__(self, spool: Spool, name: str) -> None:
        self._spool = spool
        self.name = name

    @property
    def key(self) -> int:
        """A number that tells this queue from others."""
        return int(self._spool.uuid[:15], 16) ^ int.from_bytes(self.name.encode()[:7], "little")

    @property
    def depth(self) -> int:
        """Records not yet acknowledged."""
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
        """Return how long this consumer's oldest record has waited, by the wall clock; 0 when there is
        none."""
        return self._spool.oldest_age_of(self.name)

    def batch(self, limit: int = 500) -> list[Record]:
        """The oldest unacknowledged records, ascending, all under one name of the spool."""
        records = self._spool.batch(limit, after_seq=self._spool.acknowledged(self.name))
        names = [self._spool.uuid_of(seq) for seq, _, _ in (*records[:1], *records[-1:])]
        if len(set(names)) > 1:  # a boot begins within
            return [record for record in records if self._spool.uuid_of(record[0]) == names[0]]
        return records

    def acknowledge(self, through_seq: int) -> int:
        """Everything up to `through_seq` is durable elsewhere; returns how many were new."""
        return self._spool.acknowledge(through_seq, self.name)

    def dead_letter(self, error: str) -> None:
        """Put the oldest record to the dead letters and go on behind it."""
        self._spool.dead_letter(error, self.name)
