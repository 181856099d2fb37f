"""Guessing a format from the first lines of the files, and saying why."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers import READERS
from roambench.mobility.readers.archives import Archives, is_archive
from roambench.mobility.readers.documents import Document, Head
from roambench.mobility.readers.fixes import Reader, as_it_is
from roambench.mobility.readers.opening import (
    SourceOptions,
    document,
    documents_of,
    head_of,
    read_documents,
    spread_of,
)
from roambench.mobility.readers.proposing import propose
from roambench.mobility.readers.stations import lists_access_points
from roambench.mobility.readers.tables import columns_needed

_LOOKED_AT: Final = 8  # files of a directory or archive
#: Asked last: what they recognise may be a more special format.
_GENERAL: Final = ("haggle", "intervals", "csv")


@dataclass(frozen=True, slots=True)
class Guess:
    """A format, and of which file (`path`) what (`reason`) looks like it."""

    reader: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.reader}: {self.path}: {self.reason}"


class UnknownFormat(TraceError):
    """Files that nothing recognises. `advice` is how they may be read nevertheless: a command, then notes.

    `assumption` says what that command takes them for.
    """

    def __init__(self, paths: Sequence[Path], head: Head | None, ap_list: Path | None = None) -> None:
        is_list = head is not None and lists_access_points(head)
        proposal = None if head is None or is_list else propose(head)
        self.advice: tuple[str, ...] = ()
        self.assumption = ""
        hint = ". It lists access points, no movement: give it as --ap-source" if is_list else ""
        hint = hint if is_list or head is None or proposal is not None else _about_columns(head)
        if proposal is not None:
            files = " ".join(shlex.quote(str(path)) for path in paths)
            command = f"roambench trace import {proposal.reader} {files} -o t.parquet {proposal.options()}"
            command += f" --ap-source {shlex.quote(str(ap_list))}" if ap_list is not None else ""
            options = SourceOptions(columns=proposal.columns, time_format=proposal.time_format)
            complete = not any(name.startswith("...") for name in proposal.columns.values())
            doubts = _trial(proposal.reader, head, options) if complete and head is not None else ()
            self.advice = (command, *proposal.notes, *doubts)
            self.assumption = (
                f"{paths[0]}: may be a table of {proposal.reader}: look at the columns of this command"
            )
            hint = f"; {self.assumption.partition(': ')[2]}"
        super().__init__(f"{paths[0]}: no known format; see `roambench list readers`{hint}")


def _about_columns(head: Head) -> str:
    first = head.rows[0].strip("\ufeff")
    if not any(mark in first for mark in "\t,;"):
        return ""
    return (
        ". As a table it is csv (device, time, and lat, lon or x, y) or intervals (device, ap, start, end): "
        + columns_needed(first, ("device", "..."), below=head.rows[1:])
    )


def without_ap_list(paths: Sequence[Path]) -> tuple[list[Path], Path | None]:
    """The files of movement, and the list of access points that lies among them (None: none does). Raises
    TraceError for files that cannot be read, and for two lists."""
    if len(paths) < 2:
        return [*paths], None
    lists = [
        path
        for path in paths
        if path.is_file() and not is_archive(path.name) and lists_access_points(_head(path))
    ]
    if len(lists) == len(paths):
        return [*paths], None
    if len(lists) > 1:
        raise TraceError(f"{lists[1]}: lists access points, as {lists[0]} does: expected one such list")
    return [path for path in paths if path not in lists], next(iter(lists), None)


def _head(path: Path) -> Head:
    return head_of(document(path), {})


def detect(
    paths: Sequence[Path],
    columns: Mapping[str, str] | None = None,
    ap_list: Path | None = None,
    time_format: str = "auto",
) -> tuple[Guess, ...]:
    """The formats that files of `paths` look like, the most special first; none twice.

    `columns` is the user's column map: only formats that it fits are guessed; `ap_list` goes into a proposal.
    Raises TraceError for files that cannot be read, UnknownFormat where nothing is recognised, or where the
    times of a table need a pattern that `time_format` does not give.
    """
    columns = columns or {}
    if not paths:
        raise TraceError("no trace file given")
    with closing(Archives()) as archives:
        documents = [
            found
            for path in paths
            for found in documents_of(path, lambda name: True, archives)[0][:_LOOKED_AT]
        ]
        guesses = _guesses([(found.path, head_of(found, columns)) for found in documents])
        table = bool(guesses) and guesses[0].reader in _GENERAL and not columns and time_format == "auto"
        if not guesses or (table and any(_needs_pattern(spread_of(found, columns)) for found in documents)):
            spread = (spread_of(found, columns) for found in documents)
            raise UnknownFormat(paths, next((head for head in spread if head.rows), None), ap_list)
        if guesses[0].reader in _GENERAL[1:] and len(documents) == 1:
            options = SourceOptions(columns=columns, time_format=time_format)
            for doubt in _trial(guesses[0].reader, spread_of(documents[0], columns), options, most=1.0):
                raise TraceError(f"{guesses[0].path}: looks like {guesses[0].reader}, but {doubt}")
    return guesses


def _trial(reader: str, head: Head, options: SourceOptions, most: float = 0.1) -> tuple[str, ...]:
    """A sentence if as large a share of the lines as `most` cannot be read so; the line number is that in
    the file, for the first lines."""
    text = "\n".join(head.lines).encode()
    found = Document(head.name, head.name, lambda: io.BufferedReader(io.BytesIO(text)))
    try:
        fixes = read_documents(READERS.load(reader), [found], options, 3600, as_it_is, Path(head.name))
    except (TraceError, ConfigError) as error:
        return (str(error),)
    if not fixes.malformed or fixes.malformed < most * fixes.rows:
        return ()
    return (
        f"{fixes.malformed} of {fixes.rows} rows looked at cannot be read, the first: "
        f"{fixes.malformed_rows[0]}",
    )


def _needs_pattern(head: Head) -> bool:
    """Tell if the table's dates begin with the day or the month, or its times are milliseconds."""
    proposal = propose(head) if head.rows else None
    return proposal is not None and proposal.time_format != "auto"


def _guesses(heads: Sequence[tuple[str, Head]]) -> tuple[Guess, ...]:
    names = [name for name in READERS.names() if READERS.is_ours(name) and name not in _GENERAL]
    guesses = []
    for name in (*names, *_GENERAL):
        reader: Reader = READERS.load(name)
        for path, head in heads:
            reason = reader.recognises(head)
            if reason is not None:
                guesses.append(Guess(name, path, reason))
                break
    return tuple(guesses)
