"""A document: one stream of bytes of a given name, wherever it lies and however it is packed."""

from __future__ import annotations

import codecs
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Final

from roambench.contract.errors import TraceError

MAX_LINE: Final = 64 * 1024  # bytes; a longer line is no row
_TOO_LONG: Final = "\0"  # stands for a line that is too long: no reader can make a fix of it
DAMAGE: Final = (
    OSError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    zipfile.BadZipFile,
    RuntimeError,  # an encrypted member of an archive
    NotImplementedError,  # a packing that zipfile does not know
)


_PEEKED: Final = 1024
#: What Excel puts above a table, for Excel.
EXCELS_SEPARATOR: Final = re.compile(r"sep=.", re.IGNORECASE)
_CONVERT: Final = "no text that is read: convert it (iconv -f UTF-16 -t UTF-8)"
#: Beginnings of files that are no text, what they are, and what to do.
_NO_TEXT: Final = (
    (rb"\x1f\x8b", "it is packed with gzip: its name must end in .gz"),
    (rb"\xfd7zXZ\0", "it is packed with xz: its name must end in .xz"),
    (rb"BZh\d1AY&SY", "it is packed with bzip2: its name must end in .bz2"),
    (rb"PK\x03\x04", "it is a zip archive: its name must end in .zip, and it must lie in no other archive"),
    (rb"\x28\xb5\x2f\xfd", "it is packed with zstd, which is not read: unpack it"),
    (rb"7z\xbc\xaf\x27\x1c", "it is a 7-Zip archive, which is not read: unpack it"),
    (rb"Rar!\x1a", "it is a RAR archive, which is not read: unpack it"),
    (rb"PAR1", "it is a Parquet file, which is not read: write it as CSV"),
    (rb"version https://git-lfs", "it is a Git LFS pointer, not the data: fetch these (git lfs pull)"),
    (rb"\xff\xfe|\xfe\xff", f"it is UTF-16, {_CONVERT}"),
    (
        rb".{257}ustar|[^\0\n]{1,100}\0{1,99}(?:[0-7 ]{6}[0-7 \0]{2}){3}",  # the older kind has no magic
        "it is a tar archive: its name must end in .tar, .tar.gz, .tgz, .tar.xz or .tar.bz2, "
        "and it must lie in no other archive",
    ),
    (rb"(?:\0[^\0]|[^\0]\0){8}", f"it looks like UTF-16, {_CONVERT}"),
    (rb"[^\n]*[^\r\n]\r[^\n]+\Z", "its lines end in CR alone, as on old Macs: convert it (tr '\\r' '\\n')"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """`path` names it to the user; `name` is that below the directory or archive it was found in."""

    path: str
    name: str
    open_bytes: Callable[[], IO[bytes]]

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Its bytes, unpacked while they are read, a byte order mark left out. Damage becomes a TraceError
        that names the document."""
        try:
            with self.open_bytes() as file:
                self._require_text(file)
                peek = getattr(file, "peek", None)
                if peek is not None and peek(_PEEKED).startswith(codecs.BOM_UTF8):
                    file.read(len(codecs.BOM_UTF8))
                yield file
        except TraceError:
            raise
        except DAMAGE as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise TraceError(f"{self.path}: cannot be read: {reason}") from None

    def _require_text(self, file: IO[bytes]) -> None:
        """Raises TraceError for what no reader of lines could make sense of: they would count its rubbish."""
        peek = getattr(file, "peek", None)
        if peek is None or self.name.lower().endswith(".xlsx"):
            return
        head = peek(_PEEKED)[:_PEEKED]
        for beginning, reason in _NO_TEXT:
            if re.match(beginning, head, re.DOTALL):
                raise TraceError(f"{self.path}: {reason}")

    def lines(self, max_line: int = MAX_LINE) -> Generator[str, None, None]:
        """Its text lines, each UTF-8 or else Latin-1 (TSMC2014 is)."""
        with self.opened() as file:
            yield from text_lines(file, max_line)


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a document, for telling its format: a few lines without their ends.

    `columns` is the user's column map, if there is one (see `ReaderOptions`).
    """

    name: str
    lines: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)

    def mostly(self, pattern: re.Pattern[str], first: int = 0) -> bool:
        """Tell if at least three in five of the rows from `first` on (ten at most) match as a whole."""
        rows = [row.strip() for row in self.rows[first : first + 10]]
        return bool(rows) and sum(bool(pattern.fullmatch(row)) for row in rows) >= 0.6 * len(rows)

    @property
    def rows(self) -> tuple[str, ...]:
        """The lines with something in them that is no `#` comment, nor Excel's `sep=;`."""
        rows = tuple(line for line in self.lines if line.strip() and not line.startswith("#"))
        return rows[1:] if rows and EXCELS_SEPARATOR.fullmatch(rows[0].strip()) else rows


def text_lines(file: IO[bytes], max_line: int = MAX_LINE) -> Generator[str, None, None]:
    """Lines of text with their ends. One longer than `max_line` bytes becomes a line no reader can use."""
    while line := file.readline(max_line):
        if len(line) == max_line and not line.endswith(b"\n"):
            while (rest := file.readline(max_line)) and not rest.endswith(b"\n"):
                pass
            yield _TOO_LONG
            continue
        yield decoded(line)


def decoded(line: bytes) -> str:
    """A line as text: UTF-8, or Latin-1 where it is not."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def numbered_rows(lines: Iterable[str], comment: str = "#") -> Iterator[tuple[int, str]]:
    """(line number from 1, text without surrounding blanks) of every line that is not empty or a comment."""
    for number, line in enumerate(lines, start=1):
        row = line.removeprefix("\ufeff").strip()
        if row and not row.startswith(comment):
            yield number, row
