"""The event log of a run: every RoundRecord in order, readable to the last row after a kill.

A row is a record as JSON, or many of one kind and step as Parquet.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final, get_args

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.json_values import from_json
from roambench.rounds.record_batch import MANY, RecordBatch
from roambench.rounds.records import LASTING, RoundRecord
from roambench.runs.database import close_writer, naming, open_writer, sync_log
from roambench.runs.record_columns import COLUMNS, MOST_PACKED

_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    step   INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    device INTEGER,
    body   TEXT    NOT NULL -- or a BLOB
);
CREATE INDEX IF NOT EXISTS resumed ON event (id) WHERE kind = 'RunResumed';
"""

_RESUMED = "WITH resumed AS MATERIALIZED (SELECT id, step FROM event WHERE kind = 'RunResumed')"
_COUNTS = f"""
(kind IN ({", ".join(repr(kind.__name__) for kind in LASTING)})
 OR NOT EXISTS (SELECT 1 FROM resumed WHERE resumed.id > event.id AND resumed.step <= event.step))
"""
#: What counts, in the order written. Void is what was written of a step that a later RunResumed plays again.
ROWS_THAT_COUNT = f"{_RESUMED} SELECT id, kind, body FROM event WHERE {_COUNTS} ORDER BY id"
#: The same behind an id, at most this many.
ROWS_BEYOND = f"{_RESUMED} SELECT id, kind, body FROM event WHERE id > ? AND {_COUNTS} ORDER BY id LIMIT ?"

_INSERT = "INSERT INTO event (step, kind, device, body) VALUES (?, ?, ?, ?)"
_TO_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
#: Stands between two records in the JSON of many, and nowhere else: records hold no objects, and in a text
#: there would be backslashes before the quotation marks.
_BETWEEN: Final = '},"",{'
_KINDS: dict[str, type[RoundRecord]] = {kind.__name__: kind for kind in get_args(RoundRecord)}
_NAMES = {kind: tuple(item.name for item in fields(kind)) for kind in _KINDS.values()}


class SqliteJournal:
    """`rounds.ports.Journal` in a file. What was appended is on disk for a killed process when the call
    returns: one record, or all records of a batch (a kill within the call leaves all or none of them)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = open_writer(path, _SCHEMA, "NORMAL")
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._unsynced = False
        self.number = self._numbered()

    @property
    def rows(self) -> int:
        """The number of rows that were ever written to it."""
        with self._lock, naming(self.path):
            return int(self._connection.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()[0])

    def _numbered(self) -> int:
        """The number that tells the log from every other; drawn for a new one, 0 for an older version's."""
        with naming(self.path):
            (number,) = self._connection.execute("PRAGMA user_version").fetchone()
            if not number and not self.rows:
                number = 1 + secrets.randbelow(2**31 - 1)
                self._connection.execute(f"PRAGMA user_version = {number}")
            return int(number)

    def append(self, record: RoundRecord) -> None:
        """Raises RunError when the disk is full or the file is gone."""
        (row,) = _rows([record])
        with self._lock, naming(self.path):
            self._unsynced = True
            self._connection.execute(_INSERT, row)

    def extend(self, records: Iterable[RoundRecord]) -> None:
        """Append them in one transaction, which costs a fifth of one each; RunError as for `append`."""
        rows = _rows(records if isinstance(records, RecordBatch) else list(records))
        if not rows:
            return
        with self._lock, naming(self.path):
            self._unsynced = True
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(_INSERT, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def sync(self) -> None:
        """Make all that was appended before survive a power cut; RunError. An append does not wait for it."""
        with self._syncing:
            with self._lock:
                unsynced, self._unsynced = self._unsynced, False
            if unsynced:
                try:
                    sync_log(self.path)
                except BaseException:
                    self._unsynced = True
                    raise

    def close(self) -> None:
        """Close the log."""
        with self._lock:
            close_writer(self._connection)


def _rows(records: Sequence[RoundRecord]) -> list[tuple[int, str, int | None, str | bytes]]:
    """Records are flat: what `dataclasses.asdict` copies item by item needs no copy. The JSON of all is made
    at once, which takes half of the time of one each. Of many, those of a kind are put together."""
    if not records:
        return []
    if isinstance(records, RecordBatch):
        return list(_rows_of(records.kind, records[0].step, records))
    if len(records) >= MANY or sum(map(_items, records)) >= MANY:  # with the devices that they list
        return list(_packed(records))
    listed: list[object] = []
    for record in records:
        listed += ({name: getattr(record, name) for name in _NAMES[type(record)]}, "")
    bodies = _TO_JSON.encode(listed[:-1])[2:-2].split(_BETWEEN)
    return [
        (record.step, type(record).__name__, getattr(record, "device", None), f"{{{body}}}")
        for record, body in zip(records, bodies, strict=True)
    ]


def _items(record: RoundRecord) -> int:
    return max(1, len(getattr(record, "devices", ())))


def _packed(records: Iterable[RoundRecord]) -> Iterator[tuple[int, str, None, bytes]]:
    groups: dict[tuple[type[RoundRecord], int], list[RoundRecord]] = {}
    for record in records:
        groups.setdefault((type(record), record.step), []).append(record)
    for (kind, step), group in groups.items():
        yield from _rows_of(kind, step, group)


def _rows_of(
    kind: type[RoundRecord], step: int, records: Sequence[RoundRecord]
) -> Iterator[tuple[int, str, None, bytes]]:
    columns = COLUMNS[kind]
    for first in range(0, len(records), MOST_PACKED):
        yield step, kind.__name__, None, columns.pack(columns.table(records[first : first + MOST_PACKED]))


def decode(kind: str, body: str, where: str) -> RoundRecord:
    """The record that was written as `body`; RunError says what is wrong with it."""
    if kind not in _KINDS:
        raise RunError(f"{where}: unknown kind {kind!r}; this version knows {', '.join(sorted(_KINDS))}")
    try:
        return from_json(_KINDS[kind], body, f"{where}: {kind}", finite=False)
    except ConfigError as error:
        raise RunError("; ".join(error.problems)) from None
