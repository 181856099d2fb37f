"""Rows of a table in columns: whole blocks of a file are cut into cells at once, damaged rows among them.

A row that cannot be read costs itself and gets a reason. Texts of a usual form become values by one call of
Arrow or numpy; where a slice of a column holds another form, smaller slices are tried, and in the last few
rows the texts are read one by one, by the function that also says what is wrong with them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Generator
from typing import IO, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roambench.mobility.readers.account import (
    KEPT_MALFORMED,
    MAX_ID,
    MAX_M,
    MAX_TIME_S,
    MalformedRow,
    RowAccount,
    check_degrees,
    check_id,
    check_metres,
    check_time,
    number,
)
from roambench.mobility.readers.documents import MAX_LINE, decoded

BLOCK_BYTES: Final = 8 << 20
BLANKS: Final = " "  # the separator that stands for any run of blanks
_FEW: Final = 64  # rows of a column that are read one by one where one of them is odd
_NEWLINE, _QUOTE, _RETURN = b'\n"\r'
_TOO_LONG: Final = b"\0"  # stands for a line that is too long: no reader can make a fix of it
_BOM: Final = b"\xef\xbb\xbf"
_SPACES: Final = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
_ALL_SPACES: Final = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
#: Blanks that are more than one between two cells.
_UNEVEN: Final = (b"  ", b" \n", b"\n ", *(mark.encode() for mark in _SPACES[1:] if mark != "\n"))
#: Bytes that may begin a line without anything in it.
_MAY_BE_BLANK: Final = np.array([code >= 0x80 or chr(code).isspace() for code in range(256)])

Texts: TypeAlias = pa.StringArray
Lines: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Form(NamedTuple):
    """One kind of value: `at_once` raises ValueError for a column with a text of another form, `one` reads a
    single text and says in its ValueError what is wrong with it."""

    at_once: Callable[[Texts], npt.NDArray[Any]]
    one: Callable[[str], float]


class Rows:
    """The rows of a block that have something in them; `line` is the number of each, `width` its cells.

    Separators within quotation marks separate nothing in tables of commas and semicolons. Lines are UTF-8 or
    else Latin-1. `reasons` has the first reason of every row that cannot be read, `left_out` counts by reason
    the sound rows that are dropped.
    """

    def __init__(self, block: bytes, separator: str, file: str = "-", first_line: int = 1) -> None:
        self.file = file
        self.reasons: dict[int, str] = {}
        self.left_out: dict[str, int] = {}
        self._quoted = separator in ",;" and b'"' in block
        block, odd = _cleaned(block, separator)
        buffer = np.frombuffer(block, np.uint8)
        ends = buffer == _NEWLINE
        last = np.flatnonzero(ends)
        filled = _filled(block, buffer, last)
        separates = buffer == ord(separator)
        if self._quoted:
            separates &= ~np.bitwise_xor.accumulate(buffer == _QUOTE)
        ends |= separates
        at = np.flatnonzero(ends)
        offsets = np.zeros(len(at) + 2, np.int32)
        offsets[1:-1] = at + 1
        offsets[-1] = len(block)
        #: Every cell with the separator or newline after it; the last is empty.
        self._cells = pa.StringArray.from_buffers(len(at) + 1, pa.py_buffer(offsets), pa.py_buffer(block))
        self._stripped = separator + (_SPACES if block.isascii() else _ALL_SPACES)
        final = np.searchsorted(at, last)
        first = np.concatenate(([0], final[:-1] + 1)) if len(final) else final
        self._first = first[filled]
        self.width: Lines = (final - first + 1)[filled]
        self.line: Lines = first_line + np.flatnonzero(filled)
        for line, reason in odd.items():
            self.reasons[int(np.searchsorted(self.line, first_line + line))] = reason

    def __len__(self) -> int:
        return len(self.line)

    def reject(self, wrong: Mask, reason: Callable[[int], str]) -> None:
        """Give a reason to every row of the mask that has none yet."""
        for row in np.flatnonzero(wrong).tolist():
            if row not in self.reasons:
                self.reasons[row] = reason(row)

    def reject_texts(self, wrong: Mask, texts: Texts, reason: str) -> None:
        """The same with the row's text, cut short, in place of the braces."""
        self.reject(wrong, lambda row: reason.format(texts[row].as_py()[:32]))

    def require(self, width: int, expected: str, *, at_most: bool = False) -> None:
        """Reject the rows of fewer cells than `width`, with `at_most` also those of more."""
        wrong = self.width != width if at_most else self.width < width
        self.reject(wrong, lambda row: f"{self.width[row]} columns, {expected}")

    def reject_wider(self, width: int) -> None:
        """Reject the rows that have anything in a cell behind the header's `width` cells."""
        wide = self.width > width
        if not wide.any():
            return
        trim = pc.utf8_trim(self._cells, characters=f'"{self._stripped}')
        filled = np.append(0, np.cumsum(pc.binary_length(trim).to_numpy() > 0))
        wide &= filled[self._first + self.width] > filled[self._first + np.minimum(width, self.width)]
        self.reject(wide, lambda row: f"{self.width[row]} columns, the header has {width}")

    def leave_out(self, rows: Mask, reason: str) -> Lines:
        """Drop these rows but for those that cannot be read; the numbers that the kept ones had."""
        dropped = rows.copy()
        dropped[list(self.reasons)] = False
        kept = np.flatnonzero(~dropped)
        if len(kept) < len(self):
            self.left_out[reason] = self.left_out.get(reason, 0) + len(self) - len(kept)
            places = np.searchsorted(kept, list(self.reasons)).tolist()
            self.reasons = dict(zip(places, self.reasons.values(), strict=True))
            self._first, self.width, self.line = self._first[kept], self.width[kept], self.line[kept]
        return kept

    def repeat(self, counts: Lines) -> None:
        """Let each row come `counts` times, at least once; its reason stays with the first."""
        at = np.repeat(np.arange(len(self)), counts)
        first = np.cumsum(counts) - counts
        self.reasons = {int(first[row]): reason for row, reason in self.reasons.items()}
        self._first, self.width, self.line = self._first[at], self.width[at], self.line[at]

    def texts(self, *columns: int) -> Texts:
        """The cells of a column, without blanks around them; of several columns joined by a blank."""
        parts = [self._texts(column) for column in columns]
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, " ")

    def _texts(self, column: int) -> Texts:
        at = self._first + column
        if len(self) and self.width.min() <= column:
            at = np.where(self.width > column, at, len(self._cells) - 1)
        trim = pc.ascii_trim if len(self._stripped) == len(_SPACES) + 1 else pc.utf8_trim
        texts = trim(self._cells.take(pa.array(at)), characters=self._stripped)
        if self._quoted:
            texts = pc.replace_substring_regex(texts, r'(?s)^"(.*)"$', r"\1")
            texts = pc.utf8_trim(pc.replace_substring(texts, '""', '"'), characters=self._stripped[1:])
        return texts

    def values(self, texts: Texts, form: Form, kind: type[np.generic] = np.int64) -> npt.NDArray[Any]:
        """The values of a column; 0 and a reason where a text has none."""
        found = np.zeros(len(texts), kind)
        self._fill(found, texts, 0, form)
        return found

    def _fill(self, found: npt.NDArray[Any], texts: Texts, first: int, form: Form) -> None:
        if len(texts) > _FEW:
            try:
                found[first : first + len(texts)] = form.at_once(texts)
            except (ValueError, OverflowError, pa.ArrowException):
                size = -(-len(texts) // 8)
                for at in range(0, len(texts), size):
                    self._fill(found, texts.slice(at, size), first + at, form)
            return
        for row, text in enumerate(texts.to_pylist(), start=first):
            try:
                found[row] = form.one(text)
            except OverflowError:
                self.reasons.setdefault(row, f"{text[:40]!r} is out of range")
            except ValueError as error:
                self.reasons.setdefault(row, str(error))

    def numbers(self, texts: Texts, what: str) -> npt.NDArray[np.float64]:
        """A column of finite numbers, with a decimal point or a decimal comma."""
        return self.values(texts, Form(_numbers, lambda text: number(text, what)), np.float64)

    def check_ids(self, texts: Texts, what: str, *, may_be_empty: bool = False) -> None:
        """Reject the rows with an id that is empty or absurd."""
        lengths = pc.binary_length(texts).to_numpy()
        absurd = np.flatnonzero((lengths > MAX_ID) | (lengths < (0 if may_be_empty else 1)))
        nul = pc.match_substring(texts, "\0").to_numpy(zero_copy_only=False) if b"\0" in _data(texts) else []
        for row in sorted({*absurd.tolist(), *np.flatnonzero(nul).tolist()}):
            try:
                check_id(texts[row].as_py(), what)
            except ValueError as error:
                self.reasons.setdefault(row, str(error))

    def check_times(self, seconds: npt.NDArray[np.int64]) -> None:
        """Reject the rows whose seconds are no time."""
        self.check(np.abs(seconds) >= MAX_TIME_S, lambda row: check_time(int(seconds[row])))

    def check_positions(
        self, north: npt.NDArray[np.float64], east: npt.NDArray[np.float64], *, plane: bool
    ) -> None:
        """Reject the rows that are no position on the globe, or on a plane."""
        if plane:
            self.check(
                ~((np.abs(north) < MAX_M) & (np.abs(east) < MAX_M)),
                lambda row: check_metres(float(east[row]), float(north[row])),
            )
            return
        on_globe = (np.abs(north) <= 90.0) & (np.abs(east) <= 180.0) & ((north != 0.0) | (east != 0.0))
        self.check(~on_globe, lambda row: check_degrees(float(north[row]), float(east[row])))

    def check(self, suspect: Mask, check: Callable[[int], object]) -> None:
        """Reject the rows of the mask for which `check` raises a ValueError."""
        for row in np.flatnonzero(suspect).tolist():
            try:
                check(row)
            except ValueError as error:
                self.reasons.setdefault(row, str(error))

    def sound(self) -> Lines:
        """The rows without a reason, ascending."""
        sound = np.ones(len(self), np.bool_)
        sound[list(self.reasons)] = False
        return np.flatnonzero(sound)

    def malformed_rows(self) -> tuple[MalformedRow, ...]:
        """The first rows that cannot be read, with their reasons."""
        first = sorted(self.reasons)[:KEPT_MALFORMED]
        return tuple(MalformedRow(self.file, int(self.line[row]), self.reasons[row]) for row in first)

    def reject_in(self, account: RowAccount) -> None:
        """Count the rows that cannot be read, and those left out, in an account."""
        for row in sorted(self.reasons):
            account.reject(int(self.line[row]), self.reasons[row], self.file)
        for reason, count in self.left_out.items():
            account.left_out[reason] = account.left_out.get(reason, 0) + count


def blocks(
    file: IO[bytes], first_line: int = 1, size: int | None = None
) -> Generator[tuple[int, bytes], None, None]:
    """(number of its first line, whole lines) of about `size` bytes each; one at least, if an empty one."""
    line = first_line
    while (block := file.read(size or BLOCK_BYTES)) or line == first_line:
        if block and not block.endswith(b"\n"):
            block += file.readline(MAX_LINE)
            while not block.endswith(b"\n") and (rest := file.readline(MAX_LINE)):
                block += rest[-1:] if rest.endswith(b"\n") else b""  # a line that long is none
        yield line, block
        line += max(1, block.count(b"\n"))


def encoded(texts: Texts) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """The distinct texts in order of appearance, and the number of every row's."""
    codes = texts.dictionary_encode()
    return tuple(codes.dictionary.to_pylist()), codes.indices.to_numpy().astype(np.int32)


def one_by_one(one: Callable[[str], float]) -> Form:
    """A form of values that come again and again: each distinct text is read once."""

    def at_once(texts: Texts) -> npt.NDArray[Any]:
        names, codes = encoded(texts)
        return np.array([one(name) for name in names])[codes]

    return Form(at_once, one)


def _numbers(texts: Texts) -> npt.NDArray[np.float64]:
    numbers: npt.NDArray[np.float64] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():
        raise ValueError("a number that is not finite")
    return numbers


def _data(texts: Texts) -> bytes:
    data = texts.buffers()[2]
    return b"" if data is None else data.to_pybytes()


def _cleaned(block: bytes, separator: str) -> tuple[bytes, dict[int, str]]:
    """The block as UTF-8 text of bounded lines, all of them ended, whose quotation marks enclose whole cells;
    and by line (from 0) the reason why one is no row of a table."""
    if block and not block.endswith(b"\n"):
        block += b"\n"
    if _BOM in block:
        block = re.sub(b"(?m)^" + _BOM, b"", block)
    if len(block) > MAX_LINE:
        last = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
        long = np.flatnonzero(np.diff(last, prepend=-1) > MAX_LINE)
        block = _with_lines(block, {line: lambda _: _TOO_LONG for line in long.tolist()})
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError:
            block = b"\n".join(decoded(line).encode() for line in block.split(b"\n"))
    if separator == BLANKS and (not block.isascii() or any(mark in b"\n" + block for mark in _UNEVEN)):
        block = re.sub(r"[^\S\n]+", " ", block.decode()).replace(" \n", "\n").replace("\n ", "\n").encode()
        block = block.removeprefix(b" ")
    if separator in ",;" and b'"' in block:
        return _requoted(block, separator)
    return block, {}


def _requoted(block: bytes, separator: str) -> tuple[bytes, dict[int, str]]:
    """The block with the lines that have a quotation mark within a cell as the csv module reads them."""
    buffer = np.frombuffer(block + b"\n", np.uint8)
    quotes = np.flatnonzero(buffer == _QUOTE)
    line = np.searchsorted(np.flatnonzero(buffer == _NEWLINE), quotes)
    lines, first, counts = np.unique(line, return_index=True, return_counts=True)
    opens = (np.arange(len(quotes)) - np.repeat(first, counts)) % 2 == 0
    before, after, later = buffer[quotes - 1], buffer[quotes + 1], buffer[np.minimum(quotes + 2, len(block))]
    begins = (quotes == 0) | np.isin(before, (_NEWLINE, ord(separator)))
    ends = np.isin(after, (_NEWLINE, ord(separator))) | ((after == _RETURN) & (later == _NEWLINE))
    odd = np.zeros(len(lines), np.bool_)
    odd[np.repeat(np.arange(len(lines)), counts)[np.where(opens, ~begins, ~ends)]] = True
    odd |= counts % 2 == 1
    reasons: dict[int, str] = {}

    def requoted(line: int) -> Callable[[bytes], bytes]:
        def in_cells(text: bytes) -> bytes:
            try:
                cells = next(csv.reader([text.decode().rstrip("\r")], delimiter=separator), [])
            except csv.Error as error:
                reasons[line] = f"not CSV: {error}"
                return _TOO_LONG
            return separator.join('"' + cell.replace('"', '""') + '"' for cell in cells).encode()

        return in_cells

    block = _with_lines(block, {number: requoted(number) for number in lines[odd].tolist()})
    return block, reasons


def _with_lines(block: bytes, changes: dict[int, Callable[[bytes], bytes]]) -> bytes:
    """The block with some lines (from 0) changed."""
    if not changes:
        return block
    lines = block.split(b"\n")
    for line, change in changes.items():
        lines[line] = change(lines[line])
    return b"\n".join(lines)


def _filled(block: bytes, buffer: npt.NDArray[np.uint8], last: Lines) -> Mask:
    """Tell which lines have anything but blanks in them."""
    first = np.concatenate(([0], last[:-1] + 1)) if len(last) else last
    filled = np.ones(len(last), np.bool_)
    for line in np.flatnonzero(_MAY_BE_BLANK[buffer[first]]).tolist():
        filled[line] = bool(block[first[line] : last[line]].decode().strip())
    return filled
