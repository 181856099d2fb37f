"""Opening trace files of any packing, directories and archives: the one place where readers meet the disk."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

from roambench.contract.errors import TraceError
from roambench.mobility.readers.collecting import Pile
from roambench.mobility.readers.documents import Document, Head, text_lines
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, as_it_is

_PACKINGS: Final = (".gz", ".xz", ".bz2")
_HEAD_LINES: Final = 40
_HEAD_LINE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read: its bytes as they lie on the disk are named by `sha256`.

    Of a directory the sum is over the lines "<sha256 of a file>  <its name>", sorted by name.
    """

    name: str
    sha256: str
    size_bytes: int
    files: int = 1


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the user says about the files; see `ReaderOptions` for what every field means."""

    columns: Mapping[str, str] = field(default_factory=dict)
    time_format: str = "auto"
    utc_offset_h: float | None = None
    ap_hosts: tuple[str, ...] = ()
    globe: bool | None = None


def read_files(
    reader: Reader,
    paths: Sequence[Path],
    options: SourceOptions | None = None,
    *,
    step_s: int = 3600,
    condense: Callable[[Fixes], Fixes] = as_it_is,
) -> tuple[Fixes, tuple[Source, ...]]:
    """All fixes of `paths`, read one after the other: in the order given, directories sorted by name.

    Raises TraceError, naming the file, for files that are missing, damaged or of another format.
    """
    options = options or SourceOptions()
    if not paths:
        raise TraceError("no trace file given")
    sources = tuple(_source(path, reader.belongs) for path in paths)
    documents = [document for path in paths for document in documents_of(path, reader.belongs)]
    if not documents:
        raise TraceError(f"{paths[0]}: no file of format {reader.name} in it")

    def told(file: str) -> ReaderOptions:
        return ReaderOptions(
            file=file,
            columns=options.columns,
            time_format=options.time_format,
            step_s=step_s,
            utc_offset_h=options.utc_offset_h,
            ap_hosts=options.ap_hosts,
            globe=options.globe,
            condense=condense,
        )

    if reader.read_together is not None:
        return reader.read_together(documents, told(str(paths[0]))), sources
    pile = Pile(condense)
    for document in documents:
        pile.add(_read_one(reader, document, told(document.path)))
    return pile.fixes(), sources


def _read_one(reader: Reader, document: Document, options: ReaderOptions) -> Fixes:
    if reader.read_bytes is not None:
        with document.opened() as file:
            return reader.read_bytes(file, options)
    if reader.read is None:
        raise TraceError(f"trace reader {reader.name!r} has no function that reads")
    with closing(document.lines()) as text:
        return reader.read(text, options)


def documents_of(path: Path, belongs: Callable[[str], bool]) -> list[Document]:
    """The documents at `path`: itself, or the members of a directory or .zip that `belongs` accepts.

    Hidden files are passed over. A file given by name is read whatever it is called.
    """
    if path.is_dir():
        return [
            document
            for file in _files_below(path)
            for document in (
                _members(file, belongs)
                if file.suffix.lower() == ".zip"
                else [_document(file, file.relative_to(path).as_posix())]
            )
            if belongs(unpacked_name(document.name))
        ]
    return _members(path, belongs) if path.suffix.lower() == ".zip" else [_document(path, path.name)]


def head_of(document: Document) -> Head:
    """Its first lines, each cut short."""
    with document.opened() as file:
        found = [line.rstrip("\r\n") for line in islice(text_lines(file, _HEAD_LINE_BYTES), _HEAD_LINES)]
    return Head(unpacked_name(document.name), tuple(found))


def unpacked_name(name: str) -> str:
    """`a/b.txt` of `a/b.txt.gz`."""
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix) if suffix.lower() in _PACKINGS else name


def lines(path: Path) -> Generator[str, None, None]:
    """The text lines of a plain, .gz, .xz or .bz2 file, each line UTF-8 or else Latin-1 (TSMC2014 is)."""
    return _document(path, path.name).lines()


def _files_below(folder: Path) -> list[Path]:
    try:
        found = [file for file in folder.rglob("*") if file.is_file()]
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None
    relative = {file: file.relative_to(folder) for file in found}
    seen = [file for file in found if not any(part.startswith(".") for part in relative[file].parts)]
    return sorted(seen, key=lambda file: relative[file].as_posix())


def _document(path: Path, name: str) -> Document:
    return Document(str(path), name, lambda: _unpacked(path, path.suffix.lower()))


def _members(path: Path, belongs: Callable[[str], bool]) -> list[Document]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(info.filename for info in archive.infolist() if not info.is_dir())
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"{path}: cannot be read: {reason}") from None
    wanted = [name for name in names if not name.startswith("__MACOSX/") and belongs(unpacked_name(name))]
    return [Document(f"{path}/{name}", name, lambda name=name: _member(path, name)) for name in wanted]  # type: ignore[misc]


def _member(path: Path, name: str) -> IO[bytes]:
    archive = zipfile.ZipFile(path)
    try:
        member = archive.open(name)
    except BaseException:
        archive.close()
        raise
    closing_both = _Member(member, archive)
    return _unpacked(cast(IO[bytes], io.BufferedReader(closing_both)), PurePosixPath(name).suffix.lower())


class _Member(io.RawIOBase):
    """A member of an archive that closes the archive with itself."""

    def __init__(self, member: IO[bytes], archive: zipfile.ZipFile) -> None:
        self._member, self._archive = member, archive

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._member.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._member.close()
            self._archive.close()
        super().close()


def _unpacked(file: Path | IO[bytes], suffix: str) -> IO[bytes]:
    match suffix:
        case ".gz":
            return cast(IO[bytes], gzip.open(file, "rb"))
        case ".xz":
            return cast(IO[bytes], lzma.open(file, "rb"))
        case ".bz2":
            return cast(IO[bytes], bz2.open(file, "rb"))
    return file.open("rb") if isinstance(file, Path) else file


def _source(path: Path, belongs: Callable[[str], bool]) -> Source:
    if not path.is_dir():
        return file_source(path)
    parts = [
        (file.relative_to(path).as_posix(), file_source(file))
        for file in _files_below(path)
        if file.suffix.lower() == ".zip" or belongs(unpacked_name(file.relative_to(path).as_posix()))
    ]
    text = "".join(f"{part.sha256}  {name}\n" for name, part in parts)
    size = sum(part.size_bytes for _, part in parts)
    return Source(path.name, hashlib.sha256(text.encode()).hexdigest(), size, len(parts))


def file_source(path: Path) -> Source:
    """Name, checksum and size of one file. Raises TraceError for one that cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return Source(path.name, digest.hexdigest(), file.tell())
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
