"""A whole event log in memory: kept as columns, read as columns or, in its order, as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roambench.contract.errors import RunError
from roambench.rounds.records import OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.database import naming, open_reader
from roambench.runs.journal import ROWS_THAT_COUNT, decode
from roambench.runs.record_columns import COLUMNS, KINDS, PackedRecords, is_packed

Record = TypeVar("Record", bound=RoundRecord)
Codes = npt.NDArray[np.int64]
_Part: TypeAlias = pa.Table | PackedRecords

_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
_NAMED: Final = {kind.__name__.encode(): kind for kind in KINDS}
_CHUNK: Final = 20_000
_FEW: Final = 200  # rows that are sooner read one by one


class EventLog(Sequence[RoundRecord]):
    """All records of a run in the order in which they were written.

    A tenth of the memory that the records take as objects, packed ones a hundredth: iterating makes each
    again, so what a big run needs more than once or in full is better read from the columns (`array`,
    `texts`, `lists`).
    """

    def __init__(self, kinds: npt.NDArray[np.int8], parts: Mapping[type[Any], Sequence[_Part]]) -> None:
        self._kinds = kinds
        self._parts = parts

    @classmethod
    def of(cls, records: Iterable[RoundRecord]) -> EventLog:
        """The log of these records; a log itself as it is."""
        if isinstance(records, EventLog):
            return records
        kept = tuple(records)
        groups: dict[type[Any], list[RoundRecord]] = {}
        for record in kept:
            groups.setdefault(type(record), []).append(record)
        kinds = np.fromiter((_CODES[type(record)] for record in kept), np.int8, len(kept))
        return cls(kinds, {kind: [COLUMNS[kind].table(group)] for kind, group in groups.items()})

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[RoundRecord]:
        return self.only(*KINDS)

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RoundRecord, ...]: ...
    def __getitem__(self, index: int | slice) -> RoundRecord | tuple[RoundRecord, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        at = range(len(self))[index]
        code = self._kinds[at]
        row = int(np.count_nonzero(self._kinds[:at] == code))
        parts = iter(self._parts[KINDS[code]])
        while row >= (part := next(parts)).num_rows:
            row -= part.num_rows
        (record,) = COLUMNS[KINDS[code]].records(_table_of(part).slice(row, 1))
        return record

    def only(self, *kinds: type[Any]) -> Iterator[Any]:
        """The records of these kinds alone, in the log's order; the others are not made at all."""
        if len(kinds) == 1:
            yield from self._records(kinds[0])
            return
        each = {_CODES[kind]: self._records(kind) for kind in kinds}
        for code in self._kinds[np.isin(self._kinds, list(each))].tolist():
            yield next(each[code])

    def kinds(self, *kinds: type[Any]) -> Iterator[type[Any]]:
        """The kind of each record of these kinds, in the log's order."""
        codes = [_CODES[kind] for kind in kinds]
        return (KINDS[code] for code in self._kinds[np.isin(self._kinds, codes)].tolist())

    def count(self, kind: Any) -> int:
        """Return how many records of a kind there are; of a record itself, how often it is in the log."""
        if isinstance(kind, type):
            return sum(part.num_rows for part in self._parts.get(kind, ()))
        return super().count(kind)

    def table(self, kind: type[Any]) -> pa.Table:
        """All records of a kind, a column for each of their fields."""
        return self._table(kind, COLUMNS[kind].schema.names)

    def _table(self, kind: type[Any], fields: Sequence[str]) -> pa.Table:
        schema = pa.schema([COLUMNS[kind].schema.field(field) for field in fields])
        parts = [_table_of(part, fields) for part in self._parts.get(kind, ())]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def _records(self, kind: type[Any]) -> Iterator[Any]:
        for part in self._parts.get(kind, ()):
            yield from COLUMNS[kind].records(_table_of(part))

    def array(self, kind: type[Any], field: str) -> npt.NDArray[Any]:
        """The numbers of a field, int64 or float64, in the log's order; None becomes NaN."""
        return cast("npt.NDArray[Any]", self._table(kind, [field])[field].to_numpy())

    def texts(self, kind: type[Any], field: str) -> pa.StringArray:
        """The texts of a field in the log's order."""
        return _whole(self._table(kind, [field])[field])

    def codes(self, kind: type[Any], field: str, values: Sequence[str]) -> Codes:
        """The place of each of a field's texts in `values`, -1 for another."""
        return places(self.texts(kind, field), pa.array(values, pa.string()))

    def missing(self, kind: type[Any], field: str) -> npt.NDArray[np.bool_]:
        """Return where an optional field is None."""
        return cast("npt.NDArray[np.bool_]", self._table(kind, [field])[field].is_null().to_numpy())

    def lists(self, kind: type[Any], field: str) -> tuple[Any, Codes]:
        """The items of a field, one record's after the other's (numbers as NumPy's, texts as Arrow's array),
        and how many each record has."""
        column = _whole(self._table(kind, [field])[field])
        lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        items = column.flatten()
        return items if pa.types.is_string(items.type) else items.to_numpy(), lengths

    @cached_property
    def answered(self) -> Codes:
        """For every OrderAnswered the place of its OrderGiven (the last of that name), -1 without one."""
        names = self.texts(OrderGiven, "order_id")
        return places(self.texts(OrderAnswered, "order_id"), names)


class TextColumn(Sequence[str]):
    """An array of texts as Python sees them; `array` for what takes columns."""

    def __init__(self, array: pa.StringArray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        found = self.array[index]
        return cast("list[str]", found.to_pylist()) if isinstance(index, slice) else str(found.as_py())


def read_event_log(path: Path, chunk: int = _CHUNK) -> EventLog:
    """The log in the file, read `chunk` rows at a time; a live or killed writer does not disturb.

    Raises RunError (file, row) for a kind or field this version does not know.
    """
    connection = open_reader(path)
    connection.text_factory = bytes
    parts: dict[type[Any], list[_Part]] = {}
    kinds = [np.zeros(0, np.int8)]
    try:
        with naming(path):
            cursor = connection.execute(ROWS_THAT_COUNT)
            while rows := cursor.fetchmany(chunk):
                kinds.append(_add(parts, path, rows))
    finally:
        connection.close()
    return EventLog(np.concatenate(kinds), {kind: _joined(parts.pop(kind)) for kind in list(parts)})


def records_of(path: Path, rows: Sequence[tuple[int, Any, Any]]) -> list[RoundRecord]:
    """The records of rows (number, kind, body) as SQLite's bytes, in their order: in bulk, as each alone
    costs ten times as much. RunError as for `read_event_log`."""
    if len(rows) < _FEW and not any(is_packed(body) for _, _, body in rows):
        return [decode(_text(kind), _text(body), f"{path}: event {row}") for row, kind, body in rows]
    parts: dict[type[Any], list[_Part]] = {}
    return list(EventLog(_add(parts, path, rows), parts))


def _add(
    parts: dict[type[Any], list[_Part]], path: Path, rows: Sequence[tuple[int, Any, Any]]
) -> npt.NDArray[np.int8]:
    """Add rows to the parts of their kinds; returns the kind of each of their records."""
    groups: dict[Any, list[tuple[int, Any, Any]]] = {}
    codes, counts = {}, np.ones(len(rows), np.int64)

    def end(name: Any) -> None:
        if group := groups.pop(name, None):
            kind, table = _table(path, group)
            parts.setdefault(kind, []).append(table)
            codes[name] = _CODES[kind]

    for at, (row, name, body) in enumerate(rows):
        if name in _NAMED and is_packed(body):
            end(name)
            packed = PackedRecords.of(COLUMNS[_NAMED[name]], body, f"{path}: event {row}")
            parts.setdefault(_NAMED[name], []).append(packed)
            codes[name], counts[at] = _CODES[_NAMED[name]], packed.num_rows
        else:
            groups.setdefault(name, []).append((row, name, body))
    for name in list(groups):
        end(name)
    return np.repeat(np.fromiter((codes[name] for _, name, _ in rows), np.int8, len(rows)), counts)


def _joined(parts: Sequence[_Part]) -> list[_Part]:
    """The same with tables that follow each other as one."""
    joined: list[_Part] = []
    for packed, group in groupby(parts, lambda part: isinstance(part, PackedRecords)):
        these = list(group)
        joined += these if packed else [pa.concat_tables(these).combine_chunks()]
    return joined


def _table_of(part: _Part, fields: Sequence[str] | None = None) -> pa.Table:
    if isinstance(part, PackedRecords):
        return part.table(fields)
    return part if fields is None else part.select(fields)


def _table(path: Path, rows: Sequence[tuple[int, Any, Any]]) -> tuple[type[Any], pa.Table]:
    """Rows of one kind as a table: in bulk, or record by record where one is not as it is written today."""
    kind = _NAMED.get(rows[0][1])
    bodies = [body for _, _, body in rows]
    if kind is not None and all(type(body) is bytes for body in bodies):
        table = COLUMNS[kind].parse(bodies)
        if table is not None:
            return kind, table
    records = [decode(_text(name), _text(body), f"{path}: event {row}") for row, name, body in rows]
    kind = type(records[0])
    try:
        return kind, COLUMNS[kind].table(records)
    except (OverflowError, pa.ArrowException) as error:
        raise RunError(f"{path}: {kind.__name__}: a number of more than 64 bits: {error}") from None


def _text(value: Any) -> Any:
    """SQLite's bytes as text; what is none is left for the decoder to name."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def places(texts: pa.StringArray, among: pa.StringArray) -> Codes:
    """Return where each of `texts` stands in `among`, the last place of equal ones; -1 where it does not."""
    import pyarrow.compute as pc  # late: 11 MB, which a run that only writes does not need

    backwards = among.take(pa.array(np.arange(len(among) - 1, -1, -1)))
    found = pc.index_in(texts, value_set=backwards).fill_null(len(among)).to_numpy()
    return np.asarray(len(among) - 1 - found, np.int64)


def _whole(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
