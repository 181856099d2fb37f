"""Files that grow line by line, where a power cut or a full disk that tears a line spoils no other one.

Only the last line can be truncated, and only until the next is appended: one that `is_whole` gets the line
end that it lacks (an editor may have left it off), any other is cut off. One process at a time may append.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from roambench.contract.whole_file import sync

_PIECE_BYTES: Final = 64 * 1024


def append_lines(
    path: Path, lines: Iterable[str], is_whole: Callable[[str], bool], *, mode: int = 0o666
) -> None:
    """Durable when it returns; OSError where it cannot be written, and then none of `lines` is in it.

    A file that is not there is made with `mode`.
    """
    is_new = not path.exists()
    rest = memoryview("".join(f"{line}\n" for line in lines).encode())
    with os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode), "a+b", buffering=0) as file:
        _mend(file.fileno(), is_whole)
        before = os.fstat(file.fileno()).st_size
        try:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
            if is_new:
                sync(path.parent)
        except OSError as error:
            error.filename = str(path)  # a write's error names none
            file.truncate(before)
            raise


def mend_last_line(path: Path, is_whole: Callable[[str], bool] = lambda line: False) -> None:
    """Before others append to `path`, which may not be there yet; OSError."""
    with path.open("a+b", buffering=0) as file:
        _mend(file.fileno(), is_whole)


def whole_lines(path: Path, is_whole: Callable[[str], bool]) -> list[str]:
    """All lines but a truncated last one; OSError and UnicodeDecodeError where it cannot be read."""
    written, _, torn = path.read_bytes().rpartition(b"\n")  # it may be torn within a letter
    lines, last = written.decode().split("\n") if written else [], torn.decode(errors="replace")
    return [*lines, last] if last and is_whole(last) else lines


def _mend(descriptor: int, is_whole: Callable[[str], bool]) -> None:
    end = start = os.fstat(descriptor).st_size
    last = b""
    while start and b"\n" not in last:
        piece = os.pread(descriptor, min(_PIECE_BYTES, start), start - min(_PIECE_BYTES, start))
        start -= len(piece)
        last = piece + last
    last = last.rpartition(b"\n")[2]
    if last and is_whole(last.decode(errors="replace")):
        os.write(descriptor, b"\n")
    elif last:
        os.ftruncate(descriptor, end - len(last))
