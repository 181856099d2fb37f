"""Points within a cell: `POINT(11.58 48.14)`, `[11.58, 48.14]`, `LINESTRING(11.58 48.14, 11.59 48.14)`, a
list of pairs, GeoJSON's Point and LineString; each with two numbers or more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.rows import Rows, Texts

EXPECTED: Final = (
    "expected POINT(11.58 48.14), [11.58, 48.14], LINESTRING(...), [[...], ...] or GeoJSON of these "
    "(write WKB and encoded polylines as one of them)"
)
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TUPLES: Final = "|".join("T(?:;T)*".replace("T", rf"N(?: N){{{more}}}") for more in (1, 2, 3)).replace(
    "N", _NUMBER
)
_GEOJSON: Final = r'^\{[^\[{}]*"coordinates" ?: ?(\[[^{}"]*\])[^\[{}]*\}$'
_WKT: Final = r"(?i)^(?:SRID=\d+; ?)?(?:POINT|LINESTRING) ?(?:ZM|Z|M)? ?(?:\( ?([^()]+?) ?\)|EMPTY)$"
_PAIR: Final = r"^\( ?([^() ,]+) ?, ?([^() ,]+) ?\)$"
_LIST: Final = r"^\[ ?(?:\[ ?)?([^\[\]]*(?:\] ?, ?\[[^\[\]]*)*?)(?: ?\])? ?\]$"


def points_of(texts: Texts) -> Texts:
    """The points of each cell as `11.58 48.14;11.59 48.14`, "" for none; null for what is no points."""
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, r"\s+", " "))
    texts = pc.replace_substring_regex(texts, _GEOJSON, r"\1")
    wkt = pc.replace_substring_regex(pc.replace_substring_regex(texts, _WKT, r"\1"), " ?, ?", ";")
    pairs = pc.replace_substring_regex(texts, _PAIR, r"\1 \2")
    lists = pc.replace_substring_regex(pc.replace_substring_regex(texts, _LIST, r"\1"), r" ?\] ?, ?\[ ?", ";")
    lists = pc.replace_substring_regex(lists, " ?, ?", " ")
    kinds = [pc.match_substring_regex(texts, kind) for kind in (_WKT, _PAIR, _LIST)]
    found = pc.coalesce(
        *(
            pc.if_else(kind, pc.utf8_trim_whitespace(made), None)
            for kind, made in zip(kinds, (wkt, pairs, lists), strict=True)
        )
    )
    return pc.if_else(pc.match_substring_regex(found, rf"^(?:{_TUPLES})?$"), found, None)


def spread(
    rows: Rows, column: int, places: Mapping[str, int], point_s: float
) -> tuple[dict[str, Texts], npt.NDArray[np.float64]]:
    """Let each row come once for every point of its cell; by field the points' numbers, and the seconds after
    the first of the cell.

    `places` says which number of a point is a field's, from 0. Where `point_s`, the seconds between two
    points, is 0, a cell has one. Cells without a point are left out.
    """
    texts = rows.texts(column)
    points = points_of(texts)
    rows.reject_texts(points.is_null().to_numpy(zero_copy_only=False), texts, "{!r} is no point: " + EXPECTED)
    points = points.fill_null("-")
    kept = rows.leave_out(pc.equal(points, "").to_numpy(zero_copy_only=False), "without a point")
    lists = pc.split_pattern(points.take(pa.array(kept)), ";")
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    if not point_s:
        several = "{} points in a cell: give the seconds between two, --columns time=COLUMN+@point*15"
        rows.reject(counts > 1, lambda row: several.format(counts[row]))
    rows.repeat(counts)
    numbers = {
        field: pc.replace_substring_regex(lists.flatten(), rf"^(?:\S+ ){{{at}}}(\S+).*$", r"\1")
        for field, at in places.items()
    }
    before = np.repeat(np.cumsum(counts) - counts, counts)
    return numbers, point_s * (np.arange(len(before)) - before)
