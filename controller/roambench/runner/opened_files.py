"""The files that Python opens for reading while a learning task is made.

A user's task, data set or model may read any file, and need not name it anywhere. Files that a library opens
without Python's `open` (Arrow and HDF5 map theirs) are not seen here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True, eq=False)
class _Listener:
    """A body that listens. `others`: threads that ran before and do their own work meanwhile; `opened`: paths
    as they were given, and whether they were opened for writing."""

    others: frozenset[threading.Thread]
    opened: list[tuple[str, bool]] = field(default_factory=list)


_listeners: Final[list[_Listener]] = []
_hooks: Final[list[bool]] = []


@contextmanager
def opened_files() -> Iterator[set[Path]]:
    """Behind the body the set has the files that its thread, and those that it started, opened for reading,
    that are there still, and that were not written in it, too; absolute."""
    if not _hooks:  # an audit hook cannot be removed again
        sys.addaudithook(_heard)
        _hooks.append(True)
    others = set(threading.enumerate()) - {threading.current_thread()}
    listener = _Listener(frozenset(others))
    files = set[Path]()
    _listeners.append(listener)
    try:
        yield files
    finally:
        _listeners.remove(listener)
        written = {os.path.realpath(name) for name, writes in listener.opened if writes}
        read = {os.path.realpath(name) for name, _ in listener.opened} - written
        files.update(path for path in map(Path, read) if path.is_file())


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listeners or event != "open":
        return
    path, _, flags = arguments
    if isinstance(path, (str, bytes, os.PathLike)):
        heard = os.fsdecode(path), flags & os.O_ACCMODE != os.O_RDONLY
        for listener in _listeners:
            # Not by their numbers: a thread that has ended leaves its own to the next.
            if threading.current_thread() not in listener.others:
                listener.opened.append(heard)
