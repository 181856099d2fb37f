"""Records of one kind as columns: typed Arrow arrays made of the log's JSON or of records, and back again.

The types follow from the class's annotations, by `contract.json_values.shape_of`.

A month of 10,000 devices is 1.8 million records. As Python objects they take minutes and gigabytes; as
columns they are parsed in bulk and summed without a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from roambench.contract.json_values import Choice, Fields, Many, Maybe, Plain, Row, Shape, shape_of
from roambench.rounds.records import RoundRecord

_PLAIN: Final = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_BATCH: Final = 10_000  # records made at a time


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
            and all(name in self.optional or not _nulls(table[name]) for name in self.schema.names)
            and all(set(pc.unique(table[name]).to_pylist()) <= known for name, known in self.choices.items())
        )
        return table if whole else None

    def table(self, records: Sequence[Any]) -> pa.Table:
        """OverflowError or ArrowInvalid for numbers of more than 64 bits."""
        columns = [
            pa.array([getattr(record, item.name) for record in records], item.type) for item in self.schema
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def records(self, table: pa.Table) -> Iterator[RoundRecord]:
        """The rows as records again, some thousand at a time."""
        for batch in table.to_batches(max_chunksize=_BATCH):
            columns: list[Iterable[Any]] = [
                column.to_pylist() if restore is None else map(restore, column.to_pylist())
                for column, restore in zip(batch.columns, self.restore, strict=True)
            ]
            yield from map(self.make, *columns)


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
    inner = pa.types.is_list(column.type) and pc.list_flatten(column).null_count
    return bool(column.null_count or inner)


KINDS: Final[tuple[type[Any], ...]] = get_args(RoundRecord)
COLUMNS: Final[dict[type[Any], RecordColumns]] = {kind: RecordColumns.of(kind) for kind in KINDS}
