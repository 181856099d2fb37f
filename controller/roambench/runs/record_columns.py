"""Records of one kind as columns: typed Arrow arrays made of the log's JSON or of records, and back again.

The types follow from the class's annotations, by `contract.json_values.shape_of`.

A month of 10,000 devices is 1.8 million records. As Python objects they take minutes and gigabytes; as
columns they are parsed in bulk and summed without a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from dataclasses import fields as fields_of
from operator import attrgetter
from typing import Any, Final, get_args

import pyarrow as pa

from roambench.contract.errors import RunError
from roambench.contract.json_values import Choice, Fields, Many, Maybe, Plain, Row, Shape, shape_of
from roambench.rounds.record_batch import RecordBatch
from roambench.rounds.records import RoundRecord

_PLAIN: Final = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_BATCH: Final = 10_000  # records made at a time
#: The most records that are packed together, and the most bytes that they may take when they are unpacked.
MOST_PACKED: Final = 50_000
_MOST_BYTES: Final = 1 << 29
_PARQUET: Final = b"PAR1"


@dataclass(frozen=True)
class RecordColumns:
    """The layout of a class of record in a table: one column per field, in the order of the class."""

    make: type[Any]
    schema: pa.Schema
    restore: tuple[Callable[[Any], Any] | None, ...]  # parallel: what makes a field of a plain value
    optional: tuple[str, ...]  # fields that may be None
    choices: dict[str, frozenset[str]]  # fields that only hold these texts

    @classmethod
    def of(cls, record: Any) -> RecordColumns:
        """The columns of a record's class."""
        shape = shape_of(record)
        assert isinstance(shape, Fields)
        shapes = shape.fields
        return cls(
            record,
            pa.schema([(name, _arrow(field)) for name, field in shapes.items()]),
            tuple(map(_restore, shapes.values())),
            tuple(name for name, field in shapes.items() if isinstance(field, Maybe)),
            {name: frozenset(field.made) for name, field in shapes.items() if isinstance(field, Choice)},
        )

    def parse(self, bodies: Sequence[bytes]) -> pa.Table | None:
        """The table of JSON objects just as this version writes them; None if there is any other."""
        # Texts that each begin and end an object, as many as there are rows, are one object each.
        if not all(body[:1] == b"{" and body[-1:] == b"}" for body in bodies):
            return None
        import pyarrow.json as pj  # late, as all that only a reader needs

        text = b"\n".join(bodies)
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="error"),
            ).select(self.schema.names)
        except pa.ArrowException:
            return None
        # A missing field reads as null; where null has a meaning the names are counted. A name cannot be
        # found within a text: there its quotation mark would have a backslash before it.
        whole = (
            table.num_rows == len(bodies)
            and all(text.count(f'"{name}":'.encode()) == len(bodies) for name in self.optional)
            and not self.doubt(table)
        )
        return table if whole else None

    def doubt(self, table: pa.Table) -> str:
        """The field that has values which no record has; "" if there is none."""
        for name in table.schema.names:
            if name not in self.optional and _nulls(table[name]):
                return str(name)
            if name in self.choices and not set(table[name].unique().to_pylist()) <= self.choices[name]:
                return str(name)
        return ""

    def table(self, records: Sequence[Any]) -> pa.Table:
        """OverflowError or ArrowInvalid for numbers of more than 64 bits."""
        if not records:
            return self.schema.empty_table()
        if isinstance(records, RecordBatch):
            named = zip(records.columns.values(), self.schema.types, strict=True)
            arrays = [_array(column, kind, len(records)) for column, kind in named]
            return pa.Table.from_arrays(arrays, schema=self.schema)
        columns = zip(*map(attrgetter(*self.schema.names, self.schema.names[0]), records), strict=True)
        return pa.Table.from_arrays(list(map(pa.array, columns, self.schema.types)), schema=self.schema)

    def pack(self, table: pa.Table) -> bytes:
        """The rows as Parquet: a tenth of their JSON, of which a field is read alone."""
        import pyarrow.parquet as pq  # late: 13 MB, which agents' controllers never need

        repeated = [
            name
            for name, kind in zip(self.schema.names, self.schema.types, strict=True)
            if kind == pa.string() and not name.endswith("order_id")
        ]
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", use_dictionary=repeated, write_statistics=False)
        return bytes(sink.getvalue())

    def records(self, table: pa.Table) -> Iterator[RoundRecord]:
        """The rows as records again, some thousand at a time."""
        for batch in table.to_batches(max_chunksize=_BATCH):
            columns: list[Iterable[Any]] = [
                column.to_pylist() if restore is None else map(restore, column.to_pylist())
                for column, restore in zip(batch.columns, self.restore, strict=True)
            ]
            yield from map(self.make, *columns)


@dataclass(frozen=True, eq=False)
class PackedRecords:
    """Records of one kind as `RecordColumns.pack` left them: what reads a column unpacks that alone."""

    columns: RecordColumns
    body: bytes
    where: str  # in messages
    num_rows: int

    @classmethod
    def of(cls, columns: RecordColumns, body: bytes, where: str) -> PackedRecords:
        """RunError, with `where`, for what this version does not know and what is damaged."""
        import pyarrow.parquet as pq  # as above

        try:
            meta = pq.read_metadata(pa.BufferReader(body))
            groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
        except (pa.ArrowException, OSError) as error:
            raise RunError(f"{where}: damaged: {error}") from None
        size = sum(group.total_byte_size for group in groups)
        if not 0 < meta.num_rows <= MOST_PACKED or size > _MOST_BYTES:
            most = f"1 to {MOST_PACKED:,} records of at most {_MOST_BYTES:,} bytes"
            raise RunError(f"{where}: {meta.num_rows:,} records of {size:,} bytes, expected {most}")
        found = cls(columns, body, where, meta.num_rows)
        if doubt := columns.doubt(found.table()):
            raise RunError(f"{where}: {doubt}: not a value of {columns.make.__name__}")
        return found

    def table(self, names: Sequence[str] | None = None) -> pa.Table:
        """The rows, of all fields or of these; fields that were added since have their defaults."""
        import pyarrow.parquet as pq  # as above

        names = self.columns.schema.names if names is None else names
        wanted = pa.schema([self.columns.schema.field(name) for name in names])
        try:
            with pq.ParquetFile(pa.BufferReader(self.body)) as file:
                there = file.schema_arrow.names
                if strange := sorted(set(there) - set(self.columns.schema.names)):
                    raise RunError(f"{self.where}: unknown field {strange[0]!r}")
                table = file.read([name for name in names if name in there], use_threads=False)
            arrays = [
                table[item.name].cast(item.type) if item.name in there else self._default(item)
                for item in wanted
            ]
            found = pa.Table.from_arrays(arrays, schema=wanted)
            found.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise RunError(f"{self.where}: damaged: {error}") from None
        return found

    def _default(self, item: pa.Field) -> pa.Array:
        (field,) = (field for field in fields_of(self.columns.make) if field.name == item.name)
        if field.default is MISSING:
            raise RunError(f"{self.where}: {item.name}: missing")
        return pa.array([field.default] * self.num_rows, item.type)


def is_packed(body: object) -> bool:
    """True for a row of many records, False for JSON."""
    return isinstance(body, bytes) and body.startswith(_PARQUET)


def _array(column: Any, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.array(column, kind) if isinstance(column, list) else pa.repeat(pa.scalar(column, kind), rows)


def _arrow(shape: Shape) -> pa.DataType:
    """Arrow's type of a field; records are flat."""
    match shape:
        case Maybe(inner):
            return _arrow(inner)
        case Many(item):
            return pa.list_(_arrow(item))
        case Row((item, *more)) if all(other == item for other in more):
            return pa.list_(_arrow(item), 1 + len(more))
        case Choice():
            return pa.string()
        case Plain(kind):
            return _PLAIN[kind]
    raise TypeError(f"no column is of {shape}")


def _restore(shape: Shape) -> Callable[[Any], Any] | None:
    match shape:
        case Many(item) if inner := _restore(item):
            return lambda values: tuple(map(inner, values))
        case Many() | Row():
            return tuple
        case Choice(made):
            return made.__getitem__
    return None


def _nulls(column: pa.ChunkedArray) -> bool:
    inner = pa.types.is_list(column.type) and sum(part.flatten().null_count for part in column.chunks)
    return bool(column.null_count or inner)


KINDS: Final[tuple[type[Any], ...]] = get_args(RoundRecord)
COLUMNS: Final[dict[type[Any], RecordColumns]] = {kind: RecordColumns.of(kind) for kind in KINDS}
