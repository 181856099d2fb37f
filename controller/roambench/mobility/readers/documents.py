"""A document: one stream of bytes of a given name, wherever it lies and however it is packed."""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final

from roambench.contract.errors import TraceError

_MAX_LINE: Final = 64 * 1024
_TOO_LONG: Final = "\0"  # stands for a line that is too long: no reader can make a fix of it
_DAMAGE: Final = (
    OSError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    zipfile.BadZipFile,
    RuntimeError,  # an encrypted member of an archive
    NotImplementedError,  # a packing that zipfile does not know
)


@dataclass(frozen=True, slots=True)
class Document:
    """`path` names it to the user; `name` is that below the directory or archive it was found in."""

    path: str
    name: str
    open_bytes: Callable[[], IO[bytes]]

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Its bytes, unpacked while they are read. Damage becomes a TraceError that names the document."""
        try:
            with self.open_bytes() as file:
                yield file
        except TraceError:
            raise
        except _DAMAGE as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise TraceError(f"{self.path}: cannot be read: {reason}") from None

    def lines(self, max_line: int = _MAX_LINE) -> Generator[str, None, None]:
        """Its text lines, each UTF-8 or else Latin-1 (TSMC2014 is)."""
        with self.opened() as file:
            yield from text_lines(file, max_line)


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a document, for telling its format: a few lines without their ends."""

    name: str
    lines: tuple[str, ...]

    def mostly(self, pattern: re.Pattern[str], first: int = 0) -> bool:
        """Whether at least three in five of the rows from `first` on (ten at most) match as a whole."""
        rows = [row.strip() for row in self.rows[first : first + 10]]
        return bool(rows) and sum(bool(pattern.fullmatch(row)) for row in rows) >= 0.6 * len(rows)

    @property
    def rows(self) -> tuple[str, ...]:
        """The lines with something in them that is no `#` comment."""
        return tuple(line for line in self.lines if line.strip() and not line.startswith("#"))


def text_lines(file: IO[bytes], max_line: int = _MAX_LINE) -> Generator[str, None, None]:
    """Lines of text with their ends. One longer than `max_line` bytes becomes a line no reader can use."""
    while line := file.readline(max_line):
        if len(line) == max_line and not line.endswith(b"\n"):
            while (rest := file.readline(max_line)) and not rest.endswith(b"\n"):
                pass
            yield _TOO_LONG
            continue
        yield decoded(line)


def decoded(line: bytes) -> str:
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
