"""GPS and check-ins in files of millions of lines: clean blocks are parsed by Arrow, others line by line.

Both ways give the same fixes (a test compares them on damaged blocks), Arrow's about 20 times as fast. It
takes a block only when every line of it is what the format promises; the rest, and every message about it,
is the slow way's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from roambench.mobility.readers.collecting import FixCollector, Pile
from roambench.mobility.readers.documents import text_lines
from roambench.mobility.readers.fixes import Fixes, ReaderOptions, concatenate, without_duplicates

T = TypeVar("T")

BLOCK_BYTES: Final = 8 << 20
ODD_BYTES: Final = 128 << 10  # read line by line where a line in them is odd
_MAX_LINE: Final = 64 * 1024
_YEAR_1: Final = -62_135_596_800  # what comes before is no time to Python


class GpsColumns(NamedTuple):
    """Columns of a clean block; without places `place` is None."""

    t_utc_s: npt.NDArray[np.int64]
    latitude: npt.NDArray[np.float64]
    longitude: npt.NDArray[np.float64]
    device_ids: tuple[str, ...]
    device: npt.NDArray[np.int32]
    place_ids: tuple[str, ...] = ()
    place: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class GpsFormat:
    """`columns` names and types the cells of a line, `separator` stands between them.

    `clean` makes columns of a parsed table, or None if a line by line look is needed; `add` reads one line.
    """

    separator: str
    columns: Sequence[tuple[str, pa.DataType]]
    clean: Callable[[pa.Table, str], GpsColumns | None]
    add: Callable[[FixCollector, str, str], None]
    header_lines: int = 0


def read_gps(
    file: IO[bytes], device: str, form: GpsFormat, options: ReaderOptions, shift_s: int = 0
) -> Fixes:
    """All fixes of one file, `shift_s` later; `device` names it where its lines do not."""
    pile = Pile(options.condense)
    line = 1
    for _ in range(form.header_lines):
        file.readline(_MAX_LINE)
        line += 1
    for first_line, block in blocks(file, BLOCK_BYTES, line):
        fixes = together(
            in_pieces(
                block,
                first_line,
                lambda piece, _: _fast(piece, device, form),
                lambda piece, line: _slow(piece, device, form, options.file, line),
            )
        )
        pile.add(options.condense(replace(fixes, t_utc_s=fixes.t_utc_s + shift_s)))
    return pile.fixes()


def blocks(file: IO[bytes], size: int, first_line: int = 1) -> Generator[tuple[int, bytes], None, None]:
    """(number of its first line, whole lines) of about `size` bytes each; one at least, if an empty one."""
    line = first_line
    while (block := file.read(size)) or line == first_line:
        if block and not block.endswith(b"\n"):
            block += file.readline(_MAX_LINE)
            while not block.endswith(b"\n") and (rest := file.readline(_MAX_LINE)):
                block += rest[-1:] if rest.endswith(b"\n") else b""  # a line that long is none
        yield line, block
        line += max(1, block.count(b"\n"))


def pieces(block: bytes, first_line: int) -> Generator[tuple[int, bytes], None, None]:
    """The block in about eight, each shorter than it and with the number of its first line.

    None where it is to be read line by line: it is small, or a single line.
    """
    if len(block) <= ODD_BYTES or block.find(b"\n", 0, -1) < 0:
        return
    at, line, size = 0, first_line, len(block) // 8 + 1
    while at < len(block):
        end = block.find(b"\n", at + size - 1) + 1 or len(block)
        if end - at == len(block):  # its last line is most of it
            end = block.rfind(b"\n", 0, -1) + 1
        yield line, block[at:end]
        line += block.count(b"\n", at, end)
        at = end


def in_pieces(
    block: bytes,
    first_line: int,
    at_once: Callable[[bytes, int], T | None],
    line_by_line: Callable[[bytes, int], T],
) -> list[T]:
    """What a block comes to, whose first line has that number: one thing if it is clean, else one a piece.

    `at_once` gives None for what is not clean. An odd line costs the slow way only the lines around it.
    """
    found = at_once(block, first_line)
    if found is not None:
        return [found]
    parts = [
        part
        for line, piece in pieces(block, first_line)
        for part in in_pieces(piece, line, at_once, line_by_line)
    ]
    return parts or [line_by_line(block, first_line)]


def together(parts: Sequence[Fixes]) -> Fixes:
    """The fixes of the pieces of a block, each once."""
    return parts[0] if len(parts) == 1 else without_duplicates(concatenate(parts))


def _fast(block: bytes, device: str, form: GpsFormat) -> Fixes | None:
    if b"x" in block or b"X" in block:  # Arrow reads hexadecimal numbers
        return None
    table = parsed_table(block, form.separator, form.columns)
    try:
        columns = None if table is None else form.clean(table, device)
    except (pa.ArrowException, ValueError, UnicodeDecodeError):
        return None
    if columns is None:
        return None
    time, latitude, longitude, ids, codes, place_ids, place = columns
    sound = (np.abs(latitude) <= 90) & (np.abs(longitude) <= 180) & ((latitude != 0) | (longitude != 0))
    if (
        not sound.all()
        or np.any((time >= 1 << 40) | (time < _YEAR_1))
        or not all(0 < len(name) <= 256 for name in (*ids, *place_ids))
    ):
        return None
    return without_duplicates(
        Fixes(
            device_ids=ids,
            place_ids=place_ids,
            device=codes,
            place=np.full(len(time), -1, np.int32) if place is None else place,
            t_utc_s=time,
            latitude=latitude,
            longitude=longitude,
            rows=len(time),
            used=len(time),
        )
    )


def parsed_table(
    block: bytes,
    separator: str,
    columns: Sequence[tuple[str, pa.DataType]],
    wanted: Sequence[str] = (),
    *,
    quoted: bool = False,
) -> pa.Table | None:
    """The block as Arrow reads it (of `columns` those `wanted`; all if empty); None where Arrow errs.

    `quoted`: cells may stand in quotation marks, of which nothing is wrong; else there may be none.
    """
    if (
        not block
        or b"\0" in block
        or (b'"' in block and not quoted)
        or block.count(b"\r") != block.count(b"\r\n")
    ):
        return None
    if len(block) >= _MAX_LINE:
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        if np.diff(ends, prepend=-1, append=len(block)).max() >= _MAX_LINE:
            return None
    try:
        return csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(
                use_threads=False, column_names=[name for name, _ in columns], block_size=2 * len(block)
            ),
            parse_options=csv.ParseOptions(delimiter=separator, quote_char='"' if quoted else False),
            convert_options=csv.ConvertOptions(
                column_types=dict(columns), null_values=[], include_columns=list(wanted)
            ),
        )
    except (pa.ArrowException, ValueError):
        return None


def encoded(column: pa.ChunkedArray) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """The distinct texts in order of appearance, and the number of every row's."""
    codes = column.combine_chunks().dictionary_encode()
    return tuple(codes.dictionary.to_pylist()), codes.indices.to_numpy().astype(np.int32)


def _slow(block: bytes, device: str, form: GpsFormat, file: str, first_line: int) -> Fixes:
    collector = FixCollector(file)
    for number, line in enumerate(text_lines(io.BytesIO(block)), start=first_line):
        row = line.removeprefix("\ufeff").strip(" \r\n")  # a tab at an end is an empty cell
        if not row.strip():
            continue
        try:
            form.add(collector, row, device)
        except (ValueError, OverflowError) as error:
            collector.reject(number, str(error))
    return collector.fixes()
