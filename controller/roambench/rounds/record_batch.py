"""Many records of one kind and step as columns: a big step writes them down without an object for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import repeat
from typing import Any, Final, overload

from roambench.rounds.records import RoundRecord

#: From this number on, records are made as columns and written as such.
MANY: Final = 1_000


@dataclass(frozen=True, eq=False)
class RecordBatch(Sequence[RoundRecord]):
    """Columns of records; as a sequence the records themselves, each made when it is asked for.

    `columns` has every field of `kind`: a list of `rows` values, or one value that all rows share.
    """

    kind: type[RoundRecord]
    columns: Mapping[str, Any]
    rows: int

    @classmethod
    def of(cls, kind: type[RoundRecord], rows: int, /, **columns: Any) -> RecordBatch:
        """The batch of these columns; fields that are not named have their defaults."""
        usual = {item.name: item.default for item in fields(kind) if item.default is not MISSING}
        return cls(kind, {item.name: {**usual, **columns}[item.name] for item in fields(kind)}, rows)

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[RoundRecord]:
        return map(self.kind, *(self._values(column) for column in self.columns.values()))

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> RecordBatch: ...
    def __getitem__(self, index: int | slice) -> RoundRecord | RecordBatch:
        if isinstance(index, slice):
            rows = len(range(*index.indices(self.rows)))
            cut = {
                name: column[index] if isinstance(column, list) else column
                for name, column in self.columns.items()
            }
            return RecordBatch(self.kind, cut, rows)
        at = range(self.rows)[index]
        (record,) = self[at : at + 1]
        return record

    def _values(self, column: Any) -> Any:
        return column if isinstance(column, list) else repeat(column, self.rows)
