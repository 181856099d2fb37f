"""Which files Python opens for reading while a learning task is made.

A user's task, data set or model may read any file, and need not name it anywhere. Files that a library opens
without Python's `open` (Arrow and HDF5 map theirs) are not seen here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

#: (path as it was given, whether it was opened for writing), of every body that listens.
_listeners: Final[list[list[tuple[str, bool]]]] = []
_hooks: Final[list[bool]] = []


@contextmanager
def opened_files() -> Iterator[set[Path]]:
    """Behind the body the set has the files that were opened for reading in it, are there still, and were not
    written in it, too; absolute."""
    if not _hooks:  # an audit hook cannot be removed again
        sys.addaudithook(_heard)
        _hooks.append(True)
    opened: list[tuple[str, bool]] = []
    files = set[Path]()
    _listeners.append(opened)
    try:
        yield files
    finally:
        _listeners.remove(opened)
        written = {os.path.realpath(name) for name, writes in opened if writes}
        read = {os.path.realpath(name) for name, _ in opened} - written
        files.update(path for path in map(Path, read) if path.is_file())


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listeners or event != "open":
        return
    path, _, flags = arguments
    if isinstance(path, (str, bytes, os.PathLike)):
        heard = os.fsdecode(path), flags & os.O_ACCMODE != os.O_RDONLY
        for opened in _listeners:
            opened.append(heard)
