"""Sources of several files that belong together: which file is which, and positions looked up by id."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.account import KEPT_MALFORMED, RowAccount
from roambench.mobility.readers.documents import Document, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Stations
from roambench.mobility.readers.rows import Rows, Texts
from roambench.mobility.trace import FloatColumn


@dataclass(frozen=True, eq=False)
class KnownPlaces:
    """Ids with their positions, in columns."""

    ids: Texts
    latitude: FloatColumn
    longitude: FloatColumn

    def find(self, ids: Texts) -> npt.NDArray[np.int64]:
        """The index of every id, -1 for one that is none of these."""
        at = pc.index_in(ids, value_set=self.ids)
        found: npt.NDArray[np.int64] = pc.fill_null(at, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def at(self, index: npt.NDArray[np.int64]) -> tuple[FloatColumn, FloatColumn]:
        """Latitude and longitude by index; those of -1 have no meaning."""
        return np.append(self.latitude, 0.0)[index], np.append(self.longitude, 0.0)[index]

    def stations(self) -> Stations:
        """The same, by id in the order given."""
        return Stations(tuple(self.ids.to_pylist()), self.latitude, self.longitude)


def places_of(
    rows: Rows, ids: Texts, north: FloatColumn, east: FloatColumn, *, plane: bool = False
) -> KnownPlaces:
    """The sound rows of a block; those without a position are rejected."""
    rows.check_positions(north, east, plane=plane)
    sound = rows.sound()
    return KnownPlaces(ids.take(pa.array(sound)), north[sound], east[sound])


def distinct(parts: Sequence[KnownPlaces]) -> KnownPlaces:
    """All places in the order in which they come first; of an id given twice the last position."""
    ids = pa.concat_arrays([pa.array([], pa.string()), *(part.ids for part in parts)])
    latitude = np.concatenate([np.empty(0), *(part.latitude for part in parts)])
    longitude = np.concatenate([np.empty(0), *(part.longitude for part in parts)])
    codes = ids.dictionary_encode()
    last = np.empty(len(codes.dictionary), np.int64)
    last[codes.indices.to_numpy()] = np.arange(len(ids))
    return KnownPlaces(codes.dictionary, latitude[last], longitude[last])


def with_rejected(fixes: Fixes, account: RowAccount) -> Fixes:
    """The fixes with the malformed rows of another file in their account, before their own."""
    return replace(
        fixes,
        rows=fixes.rows + account.malformed,
        malformed=fixes.malformed + account.malformed,
        malformed_rows=(*account.malformed_rows, *fixes.malformed_rows)[:KEPT_MALFORMED],
    )


def kinds_of(
    documents: Sequence[Document], patterns: Mapping[str, re.Pattern[str]], max_line: int = 64 * 1024
) -> Mapping[str, list[Document]]:
    """The documents by the first pattern that one of their first ten rows matches as a whole."""
    found: dict[str, list[Document]] = {kind: [] for kind in patterns}
    for document in documents:
        with closing(document.lines(max_line)) as lines:
            rows = [row for _, (_, row) in zip(range(10), numbered_rows(lines, comment="\n"), strict=False)]
        for kind, pattern in patterns.items():
            if any(pattern.fullmatch(row) for row in rows):
                found[kind].append(document)
                break
    return found
