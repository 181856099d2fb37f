"""SQLite as the run folder uses it: write-ahead log, one writer, errors that name the file."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.shortages import SHORTAGES
from roambench.contract.whole_file import sync

#: NORMAL does not sync on commit: what was written survives a killed process, a power cut after `sync_log`.
#: FULL syncs the log at every commit and survives both.
Durability = Literal["NORMAL", "FULL"]


def open_writer(path: Path, schema: str, durability: Durability) -> sqlite3.Connection:
    """A connection in autocommit mode with the write-ahead log on and `schema` applied, safe on the disk."""
    with naming(path):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={durability}")
            connection.executescript(schema)
            sync_log(path)
        except BaseException:
            connection.close()
            raise
        return connection


def sync_log(path: Path) -> None:
    """Make what was committed to the database, which is open, survive a power cut; RunError.

    Its log alone: what is in the database itself was synced by SQLite when it moved there, and closing a
    descriptor of that file would let go of SQLite's locks on it.
    """
    with naming(path):
        sync(Path(f"{path}-wal"))


def close_writer(connection: sqlite3.Connection) -> None:
    """Close it with all that was written in the database itself, also where a reader has it open: what is
    copied or digested then is one file."""
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def open_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection; works beside a live writer, after a killed one, and on read-only media."""
    if not path.is_file():
        raise RunError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    with naming(path):
        for mode in ("mode=ro", "immutable=1"):
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=10.0
            )
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError:
                # A log that was not checkpointed needs a shared-memory file beside it, which a
                # read-only medium refuses; then the main file alone is what can be read.
                connection.close()
                continue
            except BaseException:
                connection.close()
                raise
            return connection
    raise RunError(f"{path}: cannot be opened as a database")


def copy_database(path: Path, copy: Path) -> None:
    """Copy a database with what its log holds, also beside a live writer; RunError."""
    source = open_reader(path)
    try:
        with naming(copy), closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    finally:
        source.close()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn what SQLite, the file system and `contract.json_values` raise into a RunError that names the file
    and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text or getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            raise RunError(disk_full(path)) from None
        if "locked" in text:
            raise RunError(f"{path}: another process holds it; wait for it or stop it") from None
        raise RunError(f"{path}: {text}") from None
    except ConfigError as error:
        raise RunError("; ".join(error.problems)) from None
    except OSError as error:
        if isinstance(error, RunError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunError(disk_full(path)) from None
        if isinstance(error, FileExistsError):
            there = Path(error.filename or path)
            what = "a file" if there.exists() else "a link that leads nowhere"
            raise RunError(f"{there}: expected a folder, {what} is there; name another") from None
        advice = f"; {SHORTAGES[error.errno]}" if error.errno in SHORTAGES else ""
        raise RunError(f"{path}: {error.strerror or error}{advice}") from None


def disk_full(path: Path) -> str:
    """The message for a full disk."""
    return f"{path}: the disk is full; free some space (df, df -i), what was written so far is readable"
