"""Opening trace files of any packing, directories and archives: the one place where readers meet the disk."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from roambench.contract.errors import TraceError
from roambench.contract.printable import printable
from roambench.mobility.readers.archives import PACKINGS, Archives, is_archive, unpacked
from roambench.mobility.readers.collecting import Pile
from roambench.mobility.readers.documents import Document, Head, text_lines
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, as_it_is

#: Names of files that lie beside published data and hold none.
_BESIDE: Final = re.compile(
    r"(?:.*[^a-z])?(?:read[ _-]?me|licen[cs]e|copying|citation|checksums|md5sums|sha256sums)(?:[^a-z].*)?"
    r"|.*\.(?:pdf|md|html?|docx?|rtf|bib|png|jpe?g)",
    re.IGNORECASE,
)
_HEAD_LINES: Final = 40
_HEAD_LINE_BYTES: Final = 4096
_SPREAD_LINES: Final = 4000
_SPREAD_BYTES: Final = 1 << 25


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file that was read: its bytes as they lie on the disk are named by `sha256`.

    Of a directory the sum is over the lines "<sha256 of a file>  <its name>", sorted by name. `passed_over`
    counts the files in a directory or an archive that are not the format's, `such_as` is the first of them.
    """

    name: str
    sha256: str
    size_bytes: int
    files: int = 1
    passed_over: int = 0
    such_as: str = ""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The user's options about the files; see `ReaderOptions` for what every field means."""

    columns: Mapping[str, str] = field(default_factory=dict)
    ap_columns: Mapping[str, str] = field(default_factory=dict)
    time_format: str = "auto"
    time_zone: str = ""
    time_doubts: Counter[str] = field(default_factory=Counter)
    utc_offset_h: float | None = None
    ap_hosts: tuple[str, ...] = ()
    globe: bool | None = None


def read_files(
    reader: Reader,
    paths: Sequence[Path],
    options: SourceOptions | None = None,
    *,
    step_s: int = 3600,
    origin_s: int = 0,
    condense: Callable[[Fixes], Fixes] = as_it_is,
) -> tuple[Fixes, tuple[TraceFile, ...]]:
    """All fixes of `paths`, read one after the other: in the order given, directories sorted by name.

    Raises TraceError, naming the file, for files that are missing, damaged or of another format.
    """
    options = options or SourceOptions()
    if not paths:
        raise TraceError("no trace file given")
    with closing(Archives()) as archives:
        sources = []
        documents: list[Document] = []
        for path in paths:
            found, others = documents_of(path, reader.belongs, archives)
            sources.append(
                replace(
                    _source(path, reader.belongs), passed_over=len(others), such_as=min(others, default="")
                )
            )
            documents += found
        if not documents:
            raise TraceError(f"{paths[0]}: no file of format {reader.name} in it")
        return read_documents(reader, documents, options, step_s, condense, paths[0], origin_s), tuple(
            sources
        )


def read_documents(
    reader: Reader,
    documents: Sequence[Document],
    options: SourceOptions,
    step_s: int,
    condense: Callable[[Fixes], Fixes],
    first: Path,
    origin_s: int = 0,
) -> Fixes:
    """All fixes of the documents, one after the other."""

    def options_of(file: str) -> ReaderOptions:
        return ReaderOptions(
            file=file,
            columns=options.columns,
            ap_columns=options.ap_columns,
            time_format=options.time_format,
            time_zone=options.time_zone,
            time_doubts=options.time_doubts,
            step_s=step_s,
            origin_s=origin_s,
            utc_offset_h=options.utc_offset_h,
            ap_hosts=options.ap_hosts,
            globe=options.globe,
            condense=condense,
        )

    if reader.read_together is not None:
        return reader.read_together(documents, options_of(str(first)))
    pile = Pile(condense)
    for document in documents:
        pile.add(_read_one(reader, document, options_of(document.path)))
    return pile.fixes()


def _read_one(reader: Reader, document: Document, options: ReaderOptions) -> Fixes:
    if reader.read_bytes is not None:
        with document.opened() as file:
            return reader.read_bytes(file, options)
    if reader.read is None:
        raise TraceError(f"trace reader {reader.name!r} has no function that reads")
    with closing(document.lines()) as text:
        return reader.read(text, options)


def documents_of(
    path: Path, belongs: Callable[[str], bool], archives: Archives
) -> tuple[list[Document], list[str]]:
    """The documents at `path`: itself, or the members of a directory or an archive that `belongs` accepts.

    Also the names of those that are passed over: of another format, or lying beside published data (readme,
    licence, PDF). Hidden files do not count. A file given by name is always read. Members can
    be opened until `archives` is closed.
    """
    if "\0" in str(path):
        raise TraceError(f"{printable(str(path))}: expected a path without NUL")
    if path.is_dir():
        listed = [
            document
            for file in _files_below(path)
            for document in (
                _members(file, archives)
                if is_archive(file.name)
                else [_document(file, file.relative_to(path).as_posix())]
            )
        ]
    elif is_archive(path.name):
        listed = _members(path, archives)
    else:
        return [_document(path, path.name)], []
    found = [document for document in listed if _is_data(document.name, belongs)]
    kept = {document.path for document in found}
    return found, [document.name for document in listed if document.path not in kept]


def _is_data(name: str, belongs: Callable[[str], bool]) -> bool:
    plain = unpacked_name(name)
    return not _BESIDE.fullmatch(PurePosixPath(plain).name) and belongs(plain)


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return parts[:1] == ("__MACOSX",) or any(part.startswith(".") and part != ".." for part in parts)


def head_of(document: Document, columns: Mapping[str, str]) -> Head:
    """Its first lines, each cut short."""
    with document.opened() as file:
        found = [line.rstrip("\r\n") for line in islice(text_lines(file, _HEAD_LINE_BYTES), _HEAD_LINES)]
    return Head(unpacked_name(document.name), tuple(found), columns)


def spread_of(document: Document, columns: Mapping[str, str]) -> Head:
    """Its first lines, and lines at equal distances of all that follows: a file may be sorted by device."""
    kept: dict[int, str] = {}
    distance, size = 1, 0
    with document.opened() as file:
        for number, line in enumerate(text_lines(file, _HEAD_LINE_BYTES)):
            if number < _HEAD_LINES or number % distance == 0:
                kept[number] = line.rstrip("\r\n")
            if len(kept) > _SPREAD_LINES:
                distance *= 2
                kept = {at: it for at, it in kept.items() if at < _HEAD_LINES or at % distance == 0}
            size += len(line)
            if size > _SPREAD_BYTES:
                break
    return Head(unpacked_name(document.name), tuple(kept.values()), columns)


def unpacked_name(name: str) -> str:
    """`a/b.txt` of `a/b.txt.gz`."""
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix) if suffix.lower() in PACKINGS else name


def document(path: Path) -> Document:
    """A plain, .gz, .xz or .bz2 file."""
    return _document(path, path.name)


def _files_below(folder: Path) -> list[Path]:
    try:
        found = [file for file in folder.rglob("*") if file.is_file()]
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None
    names = {file: file.relative_to(folder).as_posix() for file in found}
    return sorted((file for file in found if not _is_hidden(names[file])), key=names.__getitem__)


def _document(path: Path, name: str) -> Document:
    return Document(str(path), name, lambda: unpacked(path, path.suffix, path))


def _members(path: Path, archives: Archives) -> list[Document]:
    def member(name: str) -> Document:
        return Document(
            f"{path}/{name}",
            name,
            lambda: unpacked(archives.open(path, name), PurePosixPath(name).suffix, path),
        )

    return [member(name) for name in archives.names(path) if not _is_hidden(name)]


def _source(path: Path, belongs: Callable[[str], bool]) -> TraceFile:
    if not path.is_dir():
        return file_source(path)
    parts = [
        (file.relative_to(path).as_posix(), file_source(file))
        for file in _files_below(path)
        if is_archive(file.name) or _is_data(file.relative_to(path).as_posix(), belongs)
    ]
    text = "".join(f"{part.sha256}  {name}\n" for name, part in parts)
    size = sum(part.size_bytes for _, part in parts)
    return TraceFile(path.name, hashlib.sha256(os.fsencode(text)).hexdigest(), size, len(parts))


def file_source(path: Path) -> TraceFile:
    """Name, checksum and size of one file. Raises TraceError for one that cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return TraceFile(path.name, digest.hexdigest(), file.tell())
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
