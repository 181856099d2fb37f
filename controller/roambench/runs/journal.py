"""The event log of a run: every RoundRecord in order, one row each, readable to the last row after a kill."""

from __future__ import annotations

import json
import threading
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields
from enum import Enum
from functools import partial
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

Restore = Callable[[Any], Any]


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


def _restorer(expected: Any) -> Restore:
    """What turns a value from JSON into the annotated type; it raises ValueError saying what was expected.

    Made once per field: a month of 1,000 devices is 1.6 million records, 17 million values.
    """
    origin = typing.get_origin(expected)
    if origin is tuple:
        return partial(_restored_tuple, _restorer(typing.get_args(expected)[0]))
    if origin is types.UnionType:
        (inner,) = (kind for kind in typing.get_args(expected) if kind is not types.NoneType)
        return partial(_restored_optional, _restorer(inner))
    if origin is typing.Literal:
        return partial(_restored_choice, typing.get_args(expected))
    if issubclass(expected, Enum):
        return typing.cast(Restore, expected)
    return partial(_restored_plain, expected)


def _restored_plain(expected: type, value: Any) -> Any:
    if type(value) is expected:
        return value
    if expected is float and type(value) is int:
        return float(value)
    raise ValueError(f"expected {expected.__name__}, got {value!r}")


def _restored_tuple(item: Restore, value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, got {value!r}")
    return tuple(map(item, value))


def _restored_optional(inner: Restore, value: Any) -> Any:
    return None if value is None else inner(value)


def _restored_choice(choices: tuple[Any, ...], value: Any) -> Any:
    if value not in choices:
        raise ValueError(f"expected one of {', '.join(choices)}, got {value!r}")
    return value


@dataclass(frozen=True)
class _Kind:
    """A class of record: how each field is restored, and which fields may be missing."""

    make: type[Any]
    restore: dict[str, Restore]
    required: frozenset[str]

    @classmethod
    def of(cls, record: type[Any]) -> _Kind:
        hints = typing.get_type_hints(record)
        return cls(
            record,
            {item.name: _restorer(hints[item.name]) for item in fields(record)},
            frozenset(item.name for item in fields(record) if item.default is MISSING),
        )


_KINDS: dict[str, _Kind] = {record.__name__: _Kind.of(record) for record in typing.get_args(RoundRecord)}


def _decode(kind: str, body: str, where: str) -> RoundRecord:
    known = _KINDS.get(kind)
    if known is None:
        raise RunError(f"{where}: unknown kind {kind!r}; this version knows {', '.join(sorted(_KINDS))}")
    try:
        values = json.loads(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{where}: {kind} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise RunError(f"{where}: {kind} must be a table")
    for name in known.required - values.keys():
        raise RunError(f"{where}: {kind} lacks {name}")
    made: dict[str, Any] = {}
    for name, value in values.items():
        restore = known.restore.get(name)
        if restore is None:
            raise RunError(f"{where}: {kind} has an unknown field {name!r}; another version wrote it")
        try:
            made[name] = restore(value)
        except ValueError as error:
            raise RunError(f"{where}: {kind}.{name}: {error}") from None
    return typing.cast(RoundRecord, known.make(**made))
