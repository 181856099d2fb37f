"""The venues of TIST2015: millions of ids and positions in columns, looked up many at once."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.account import RowAccount, check_degrees, number
from roambench.mobility.readers.documents import Document, numbered_rows, text_lines
from roambench.mobility.readers.gps_blocks import blocks, in_pieces, parsed_table
from roambench.mobility.readers.table_blocks import numbers_at_once

_BLOCK_BYTES: Final = 16 << 20
_COLUMNS: Final = tuple(
    (name, pa.string()) for name in ("venue", "latitude", "longitude", "category", "country")
)


@dataclass(frozen=True, eq=False)
class Venues:
    """Distinct ids with their positions."""

    ids: pa.StringArray
    latitude: npt.NDArray[np.float64]
    longitude: npt.NDArray[np.float64]

    def find(self, venues: pa.StringArray) -> npt.NDArray[np.int64]:
        """The index of every venue, -1 for one that is none (or null)."""
        at = pc.index_in(venues, value_set=self.ids, skip_nulls=True)
        found: npt.NDArray[np.int64] = pc.fill_null(at, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found


def read_venues(documents: Sequence[Document], account: RowAccount) -> Venues:
    """All venues; of an id that stands twice the last position. Rows that cannot be read are rejected."""
    parts: list[Venues] = []
    for document in documents:
        with document.opened() as file, closing(blocks(file, _BLOCK_BYTES)) as found:
            for line, block in found:
                slow = partial(_slow, file=document.path, account=account)
                parts += in_pieces(block, line, _fast, slow)
    ids = pa.concat_arrays([part.ids for part in parts] or [pa.array([], pa.string())])
    latitude, longitude = (
        np.concatenate([np.empty(0), *columns])
        for columns in ([part.latitude for part in parts], [part.longitude for part in parts])
    )
    parts.clear()
    codes = ids.dictionary_encode()
    last = np.empty(len(codes.dictionary), np.int64)
    last[codes.indices.to_numpy()] = np.arange(len(ids))
    return Venues(codes.dictionary, latitude[last], longitude[last])


def _fast(block: bytes, _: int) -> Venues | None:
    table = parsed_table(block, "\t", _COLUMNS, ("venue", "latitude", "longitude"))
    if table is None or not pc.all(pc.ascii_is_alnum(table["venue"])).as_py():
        return None
    latitude, longitude = (numbers_at_once(table[name]) for name in ("latitude", "longitude"))
    if latitude is None or longitude is None:
        return None
    sound = (np.abs(latitude) <= 90) & (np.abs(longitude) <= 180) & ((latitude != 0) | (longitude != 0))
    if not sound.all():
        return None
    return Venues(pa.concat_arrays(table["venue"].chunks), latitude, longitude)


def _slow(block: bytes, first_line: int, file: str, account: RowAccount) -> Venues:
    ids, positions = [], []
    for line, row in numbered_rows(text_lines(io.BytesIO(block)), comment="\n"):
        try:
            venue, latitude, longitude, *_ = row.split("\t")
            position = number(latitude, "latitude"), number(longitude, "longitude")
            check_degrees(*position)
            ids.append(venue.strip())
            positions.append(position)
        except ValueError as error:
            account.reject(first_line + line - 1, str(error), file)
    table = np.array(positions).reshape(-1, 2)
    return Venues(pa.array(ids, pa.string()), table[:, 0], table[:, 1])
