"""Guessing a format from the first lines of the files, and saying why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import TraceError
from roambench.mobility.readers import READERS
from roambench.mobility.readers.fixes import Reader
from roambench.mobility.readers.opening import documents_of, head_of

_LOOKED_AT: Final = 8  # files of a directory or archive
#: Asked last: what they recognise may be a more special format.
_GENERAL: Final = ("intervals", "csv")


@dataclass(frozen=True, slots=True)
class Guess:
    """A format, and of which file (`path`) what (`reason`) looks like it."""

    reader: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.reader}: {self.path}: {self.reason}"


def detect(paths: Sequence[Path]) -> tuple[Guess, ...]:
    """The formats that files of `paths` look like, the most special first; none twice.

    Raises TraceError for files that cannot be read.
    """
    if not paths:
        raise TraceError("no trace file given")
    heads = [
        (document.path, head_of(document))
        for path in paths
        for document in documents_of(path, lambda name: True)[:_LOOKED_AT]
    ]
    names = [name for name in READERS.own if name not in _GENERAL]
    guesses = []
    for name in (*names, *_GENERAL):
        reader: Reader = READERS.load(name)
        for path, head in heads:
            reason = reader.recognises(head)
            if reason is not None:
                guesses.append(Guess(name, path, reason))
                break
    return tuple(guesses)
