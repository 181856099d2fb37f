"""The SQLite database under a spool: how it is opened, and how its write-ahead log gets to the disk.

The log is synced by its file, not by a commit: SQLite syncs inside a commit, with the database locked, so
that every append waited as long as the disk did (seconds, while others write much), and so did all that its
event loop has to do.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final

#: Beyond this the log is moved back into the database.
MOST_LOG_BYTES: Final = 1_000_000
#: One may be as large as a spool's cap.
DAMAGED_KEPT: Final = 3
#: Host seconds to wait for a lock. Ours never collide: it is another process that has the file open.
_LOCK_S: Final = 10.0
_SPOILT: Final = frozenset(
    (
        sqlite3.SQLITE_ERROR,  # no such column
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_NOTADB,
    )
)


def connect(path: Path) -> sqlite3.Connection:
    """A connection whose commits survive the death of the process, and a power cut once they are synced."""
    rows = sqlite3.connect(path, timeout=_LOCK_S, isolation_level=None, check_same_thread=False)
    try:
        _set_up(rows)
    except BaseException:
        rows.close()
        raise
    return rows


def _set_up(rows: sqlite3.Connection) -> None:
    # A commit writes whole pages to the log, at least two here (the row's, and that of the sequence):
    # small pages make it 2 KB a reading on the SD card instead of 8. Only a new file takes the setting.
    rows.execute("PRAGMA page_size=1024")
    rows.execute("PRAGMA journal_mode=WAL").fetchall()
    rows.execute("PRAGMA synchronous=NORMAL")
    # `LogSync` moves the log; this is for owners that never sync.
    rows.execute("PRAGMA wal_autocheckpoint=8000").fetchall()
    # A log that begins again is cut to this, so that its length tells when it is too long again. (Where it
    # only grew, it was moved every second from then on, and each time SQLite synced what came next.)
    rows.execute(f"PRAGMA journal_size_limit={MOST_LOG_BYTES}").fetchall()


class Spoilt(sqlite3.DatabaseError):
    """A file that SQLite can read, and that is no sound spool."""


def is_spoilt(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Return whether the file is at fault, and not a disk that is full or fails, or rights that are missing.
    Bytes of it that are no text may stand in SQLite's own sentence.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, Spoilt) or (code is not None and code & 0xFF in _SPOILT)


def check(rows: sqlite3.Connection, tables: Collection[str]) -> None:
    """Raise a DatabaseError that `is_spoilt` unless the database is empty, or sound and has `tables`."""
    found = {name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if found and not found.issuperset(tables):
        raise Spoilt("it is another program's database")
    (problem,) = rows.execute("PRAGMA quick_check(1)").fetchone()
    if problem != "ok":
        raise Spoilt(" ".join(str(problem).split()))


def put_aside(path: Path) -> Path:
    """Rename the database at `path` and its log to .damaged-N, for people; returns the new name.

    The newest DAMAGED_KEPT of them are kept.
    """
    old = {int(p.name.rpartition("-")[2]): p for p in path.parent.glob(f"{path.name}.damaged-*[0-9]")}
    for number in sorted(old)[: max(0, len(old) - DAMAGED_KEPT + 1)]:
        for file in path.parent.glob(f"{old[number].name}*"):
            file.unlink()
    aside = path.with_name(f"{path.name}.damaged-{max(old, default=0) + 1}")
    Path(f"{path}-shm").unlink(missing_ok=True)
    if (log := Path(f"{path}-wal")).exists():
        log.replace(f"{aside}-wal")
    return path.replace(aside)


class LogSync:
    """Syncs the log of the database at `path`, from any thread, while others append to it.

    To be made when a connection is open, and closed before that connection: the last one to close removes
    the log.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._rows = connect(path)
        try:
            self._rows.execute("SELECT 1 FROM sqlite_master").fetchall()  # opens the log
            # SQLite's locks are on the other two files: closing this one sets nothing free.
            self._log = os.open(f"{path}-wal", os.O_RDONLY)
        except BaseException:
            self._rows.close()
            raise

    def sync(self) -> None:
        """Make every commit so far survive a power cut; OSError or sqlite3.Error when that cannot be.

        A long log is moved back into the database, unless a reader is in the way. After that the next commit
        begins a new one, and SQLite syncs its header first: the one wait that is left, for one commit in some
        hundreds.
        """
        with self._lock:
            os.fdatasync(self._log)
            if os.fstat(self._log).st_size > MOST_LOG_BYTES:
                self._rows.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection and the log's file."""
        with self._lock:
            self._rows.close()
            os.close(self._log)
