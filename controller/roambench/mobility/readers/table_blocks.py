"""Tables in blocks of whole lines: the cells of clean ones as columns at once, for any `ColumnLayout`.

A block is clean where every cell that is wanted is plain ASCII without blanks around it, in rows of equally
many cells, quoted as a whole or not at all. Others are left to whoever reads line by line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import IO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.account import MAX_ID
from roambench.mobility.readers.documents import decoded
from roambench.mobility.readers.gps_blocks import parsed_table
from roambench.mobility.readers.tables import BLANKS, ColumnLayout, cells_of

_PLAIN: Final = r"^[!-~]([ -~]*[!-~])?$"
_PLAIN_OR_EMPTY: Final = rf"^$|{_PLAIN}"
_DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?$"  # as Python and Arrow read alike
_MAX_LINE: Final = 64 * 1024

Texts: TypeAlias = pa.ChunkedArray


def after_header(file: IO[bytes], has_header: bool) -> int:
    """Pass over the first line that is not empty, if it is a header; the number of the line after it."""
    line = 1
    while has_header and (text := file.readline(_MAX_LINE)):
        line += text.endswith(b"\n")
        if decoded(text).strip():
            while text and not text.endswith(b"\n"):
                text = file.readline(_MAX_LINE)
                line += text.endswith(b"\n")
            break
    return line


def cells_at_once(
    block: bytes, layout: ColumnLayout, fields: Sequence[str], may_be_empty: Sequence[str] = ()
) -> Mapping[str, Texts] | None:
    """By field the texts of all rows, a time in parts joined by a blank; None for a block that is not clean.

    Fields that the layout does not have are left out. An empty cell is only clean where it may be empty.
    """
    if layout.separator == BLANKS:
        return None
    first = block[:_MAX_LINE].lstrip(b"\r\n").partition(b"\n")[0]
    quoted = b'"' in block
    if quoted and not _well_quoted(block, layout.separator):
        return None
    names = [str(position) for position in range(len(cells_of(decoded(first), layout.separator)))]
    positions = {field: layout.columns[field] for field in fields if field in layout.columns}
    wanted = sorted({str(at) for parts in positions.values() for at in parts})
    if not wanted or not set(wanted) <= set(names):
        return None
    columns = [(name, pa.string()) for name in names]
    table = parsed_table(block, layout.separator, columns, wanted, quoted=quoted)
    if table is None:
        return None
    for field, parts in positions.items():
        pattern = _PLAIN_OR_EMPTY if field in may_be_empty else _PLAIN
        if not all(pc.all(pc.match_substring_regex(table[str(at)], pattern)).as_py() for at in parts):
            return None
    return {field: _joined([table[str(at)] for at in parts]) for field, parts in positions.items()}


def _well_quoted(block: bytes, separator: str) -> bool:
    """Whether every quotation mark begins or ends a whole cell; tables with tabs do not quote."""
    if separator == "\t":
        return False
    mark = re.escape(separator.encode())
    whole = re.compile(rb'(?m)(?:^|(?<=%b))"[^"\r\n]*"(?=%b|\r?$)' % (mark, mark))
    return 2 * len(whole.findall(block)) == block.count(b'"')


def numbers_at_once(texts: Texts) -> npt.NDArray[np.float64] | None:
    """Decimal numbers; None where one is written in another way."""
    if not pc.all(pc.match_substring_regex(texts, _DECIMAL)).as_py():
        return None
    numbers: npt.NDArray[np.float64] = texts.cast(pa.float64()).to_numpy().copy()
    return numbers


def are_ids(texts: Texts) -> bool:
    """Whether none is too long to be one; that they are clean is known."""
    return bool(pc.all(pc.less_equal(pc.binary_length(texts), MAX_ID)).as_py())


def _joined(parts: Sequence[Texts]) -> Texts:
    joined: Texts = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, " ")
    return joined
