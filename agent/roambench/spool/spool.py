"""A durable first-in-first-out queue of small records in one SQLite file.

One autocommit INSERT per record under synchronous=NORMAL survives the death of the process (0.02 ms a row on
a laptop); once a second `sync` commits under synchronous=FULL, which syncs the write-ahead log and so all
rows before it against a power cut. Syncing every row would cost nine times as much and wear the SD card.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from roambench.contract.errors import SpoolError
from roambench.contract.records import RecordKind

Record = tuple[int, RecordKind, bytes]

#: About 32 days of readings at 1 Hz.
DEFAULT_CAP_BYTES: Final = 256 * 1024 * 1024
#: What a row costs beside its payload: b-tree cell, seq, kind, stamp.
ROW_OVERHEAD_BYTES: Final = 32

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind INTEGER NOT NULL, unix_ms INTEGER NOT NULL, payload BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS dead(
    seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, unix_ms INTEGER NOT NULL, payload BLOB NOT NULL,
    error TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value NOT NULL);
"""


class Spool:
    """The queue behind `path`; one process owns it, `sync` may run in another thread.

    Sequence numbers start at 1, ascend and are never given twice, not even after the queue was emptied and
    the process restarted. Beyond `cap_bytes` the oldest records are dropped and counted.
    """

    def __init__(self, path: Path, cap_bytes: int = DEFAULT_CAP_BYTES) -> None:
        self._path = path
        self._cap_bytes = cap_bytes
        self._sync_lock = threading.Lock()
        with self._explained():
            self._rows = _connect(path)
            self._rows.executescript(_SCHEMA)
            self._rows.execute("INSERT OR IGNORE INTO meta VALUES ('uuid', ?)", (uuid.uuid4().hex,))
            self._rows.execute("INSERT OR IGNORE INTO meta VALUES ('dropped', 0)")
            self._rows.execute("INSERT OR IGNORE INTO meta VALUES ('synced', 0)")
            self._uuid = str(self._meta("uuid"))
            self._dropped = int(str(self._meta("dropped")))
            depth, payload_bytes = self._rows.execute(
                "SELECT COUNT(*), COALESCE(SUM(LENGTH(payload)), 0) FROM records"
            ).fetchone()
            self._depth = int(depth)
            self._bytes = int(payload_bytes) + ROW_OVERHEAD_BYTES * self._depth
            # A second connection, so that waiting for the disk never holds up the one that appends.
            self._syncer = _connect(path)
            self._syncer.execute("PRAGMA synchronous=FULL")

    @property
    def uuid(self) -> str:
        """Names this queue for ever (32 hex digits): (uuid, seq) is a record's key."""
        return self._uuid

    @property
    def depth(self) -> int:
        """Records waiting."""
        return self._depth

    @property
    def dropped(self) -> int:
        """Records given up because the queue was full, over the life of the file."""
        return self._dropped

    @property
    def dead(self) -> int:
        """Records that the far side will never take."""
        with self._explained():
            return int(self._rows.execute("SELECT COUNT(*) FROM dead").fetchone()[0])

    @property
    def oldest_age_s(self) -> float:
        """How long the oldest waiting record has waited, by the wall clock; 0 when empty."""
        with self._explained():
            row = self._rows.execute("SELECT unix_ms FROM records ORDER BY seq LIMIT 1").fetchone()
        return 0.0 if row is None else max(0.0, time.time() - row[0] / 1e3)

    def append(self, kind: RecordKind, payload: bytes) -> int:
        """Store one record; when this returns it survives SIGKILL. Returns its seq."""
        with self._explained():
            cursor = self._rows.execute(
                "INSERT INTO records(kind, unix_ms, payload) VALUES (?, ?, ?)",
                (int(kind), int(time.time() * 1e3), payload),
            )
            seq = cursor.lastrowid
            assert seq is not None
            self._depth += 1
            self._bytes += len(payload) + ROW_OVERHEAD_BYTES
            if self._bytes > self._cap_bytes:
                self._drop_oldest()
        return seq

    def batch(self, limit: int = 500, after_seq: int = 0) -> list[Record]:
        """The oldest records beyond `after_seq`, at most `limit`, ascending; they stay in the queue."""
        with self._explained():
            rows = self._rows.execute(
                "SELECT seq, kind, payload FROM records WHERE seq > ? ORDER BY seq LIMIT ?",
                (after_seq, limit),
            ).fetchall()
        return [(seq, RecordKind(kind), payload) for seq, kind, payload in rows]

    def acknowledge(self, through_seq: int) -> int:
        """Delete everything up to and including `through_seq`; returns how many records that were."""
        with self._explained(), self._transaction():
            return self._delete(through_seq)

    def bury(self, seq: int, error: str) -> None:
        """Move one record to the dead letters: kept for people, never sent again."""
        with self._explained(), self._transaction():
            row = self._rows.execute("SELECT LENGTH(payload) FROM records WHERE seq = ?", (seq,)).fetchone()
            if row is None:
                return
            self._rows.execute(
                "INSERT OR REPLACE INTO dead"
                " SELECT seq, kind, unix_ms, payload, ? FROM records WHERE seq = ?",
                (error, seq),
            )
            self._rows.execute("DELETE FROM records WHERE seq = ?", (seq,))
        self._depth -= 1
        self._bytes -= row[0] + ROW_OVERHEAD_BYTES

    def sync(self) -> None:
        """Make everything appended so far survive a power cut; call it once a second, from any thread.

        Also moves the log back into the database when no reader is in the way, so that `append` seldom
        has to.
        """
        with self._sync_lock, self._explained():
            self._syncer.execute("UPDATE meta SET value = ? WHERE key = 'synced'", (int(time.time() * 1e3),))
            if self._wal_bytes() > 1_000_000:
                self._syncer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Sync and close; the queue cannot be used afterwards."""
        self.sync()
        with self._sync_lock, self._explained():
            self._syncer.close()
            self._rows.close()

    def _delete(self, through_seq: int) -> int:
        count, payload_bytes = self._rows.execute(
            "SELECT COUNT(*), COALESCE(SUM(LENGTH(payload)), 0) FROM records WHERE seq <= ?", (through_seq,)
        ).fetchone()
        self._rows.execute("DELETE FROM records WHERE seq <= ?", (through_seq,))
        self._depth -= count
        self._bytes -= payload_bytes + ROW_OVERHEAD_BYTES * count
        return int(count)

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
            self._dropped += self._delete(through_seq)
            self._rows.execute("UPDATE meta SET value = ? WHERE key = 'dropped'", (self._dropped,))

    def _meta(self, key: str) -> object:
        return self._rows.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0]

    def _wal_bytes(self) -> int:
        try:
            return Path(f"{self._path}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._rows.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._rows.execute("ROLLBACK")
            raise
        self._rows.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SpoolError(f"spool {self._path}: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    rows = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
    # A commit writes whole pages to the log, at least two here (the row's, and that of the sequence):
    # small pages make it 2 KB a reading on the SD card instead of 8. Only a new file takes the setting.
    rows.execute("PRAGMA page_size=1024")
    rows.execute("PRAGMA journal_mode=WAL").fetchall()
    rows.execute("PRAGMA synchronous=NORMAL")
    # The syncing connection checkpoints at 1 MB; this is for owners that never sync.
    rows.execute("PRAGMA wal_autocheckpoint=8000").fetchall()
    return rows
