"""The event log of a run: every RoundRecord in order, one row each, readable to the last row after a kill."""

from __future__ import annotations

import json
import threading
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, asdict, fields
from enum import Enum
from pathlib import Path
from typing import Any

from roambench.contract.errors import RunError
from roambench.rounds.records import RoundRecord
from roambench.runs.database import naming, open_reader, open_writer

_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    step   INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    device INTEGER,
    body   TEXT    NOT NULL
);
"""

_CLASSES: dict[str, type[Any]] = {cls.__name__: cls for cls in typing.get_args(RoundRecord)}
_TYPES: dict[str, dict[str, Any]] = {name: typing.get_type_hints(cls) for name, cls in _CLASSES.items()}


class SqliteJournal:
    """`rounds.ports.Journal` in a file. A record is on disk for a killed process when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = open_writer(path, _SCHEMA, "NORMAL")
        self._lock = threading.Lock()

    def append(self, record: RoundRecord) -> None:
        """Raises RunError when the disk is full or the file is gone."""
        body = json.dumps(asdict(record), separators=(",", ":"), ensure_ascii=False)
        row = (record.step, type(record).__name__, getattr(record, "device", None), body)
        with self._lock, naming(self.path):
            self._connection.execute("INSERT INTO event (step, kind, device, body) VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def read_journal(path: Path) -> Iterator[RoundRecord]:
    """The records of the file in the order they were written; a live or killed writer does not disturb.

    Raises RunError (file, row) for a kind or field this version does not know.
    """
    connection = open_reader(path)
    try:
        with naming(path):
            for row, kind, body in connection.execute("SELECT id, kind, body FROM event ORDER BY id"):
                yield _decode(kind, body, f"{path}: event {row}")
    finally:
        connection.close()


def _decode(kind: str, body: str, where: str) -> RoundRecord:
    cls = _CLASSES.get(kind)
    if cls is None:
        raise RunError(f"{where}: unknown kind {kind!r}; this version knows {', '.join(sorted(_CLASSES))}")
    try:
        values = json.loads(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{where}: {kind} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise RunError(f"{where}: {kind} must be a table")
    hints = _TYPES[kind]
    for key in values.keys() - hints.keys():
        raise RunError(f"{where}: {kind} has an unknown field {key!r}; it was written by another version")
    made: dict[str, Any] = {}
    for item in fields(cls):
        if item.name in values:
            try:
                made[item.name] = _restore(values[item.name], hints[item.name])
            except ValueError as error:
                raise RunError(f"{where}: {kind}.{item.name}: {error}") from None
        elif item.default is MISSING:
            raise RunError(f"{where}: {kind} lacks {item.name}")
    return typing.cast(RoundRecord, cls(**made))


def _restore(value: Any, expected: Any) -> Any:
    """`value` from JSON as the annotated type; raises ValueError that says what was expected."""
    origin = typing.get_origin(expected)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {value!r}")
        inner = typing.get_args(expected)[0]
        return tuple(_restore(item, inner) for item in value)
    if origin is types.UnionType:
        if value is None and type(None) in typing.get_args(expected):
            return None
        (inner,) = (kind for kind in typing.get_args(expected) if kind is not type(None))
        return _restore(value, inner)
    if origin is typing.Literal:
        if value not in typing.get_args(expected):
            raise ValueError(f"expected one of {', '.join(typing.get_args(expected))}, got {value!r}")
        return value
    if isinstance(expected, type) and issubclass(expected, Enum):
        return expected(value)
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:
        raise ValueError(f"expected {expected.__name__}, got {value!r}")
    return value
