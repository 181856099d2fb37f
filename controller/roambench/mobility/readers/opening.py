"""Opening trace files of any compression: the one place where readers meet the disk."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, cast

from roambench.contract.errors import TraceError
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, concatenate

_MAX_LINE: Final = 64 * 1024
_TOO_LONG: Final = "\0"  # stands for a line that is too long: no reader can make a fix of it


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read: its bytes as they lie on the disk are named by `sha256`."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the user says about the files' columns and times; see the reader's own page."""

    columns: Mapping[str, str] = field(default_factory=dict)
    time_format: str = "auto"


def read_files(
    reader: Reader, paths: Sequence[Path], options: SourceOptions | None = None
) -> tuple[Fixes, tuple[Source, ...]]:
    """All fixes of `paths`, read one after the other in the order given.

    Raises TraceError, naming the file, for files that are missing, damaged or of another format.
    """
    options = options or SourceOptions()
    if not paths:
        raise TraceError("no trace file given")
    parts, sources = [], []
    for path in paths:
        sources.append(_source(path))
        with closing(lines(path)) as text:
            parts.append(reader.read(text, ReaderOptions(str(path), options.columns, options.time_format)))
    return concatenate(parts), tuple(sources)


def lines(path: Path) -> Generator[str, None, None]:
    """The text lines of a plain, .gz, .xz or .bz2 file, each line UTF-8 or else Latin-1 (TSMC2014 is)."""
    try:
        with _open(path) as file:
            while line := file.readline(_MAX_LINE):
                if len(line) == _MAX_LINE and not line.endswith(b"\n"):
                    while (rest := file.readline(_MAX_LINE)) and not rest.endswith(b"\n"):
                        pass
                    yield _TOO_LONG
                    continue
                yield _text(line)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise TraceError(f"{path}: cannot be read: {reason}") from None


def _open(path: Path) -> IO[bytes]:
    match path.suffix.lower():
        case ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        case ".xz":
            return lzma.open(path, "rb")
        case ".bz2":
            return bz2.open(path, "rb")
    return path.open("rb")


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _source(path: Path) -> Source:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return Source(path.name, digest.hexdigest(), file.tell())
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
