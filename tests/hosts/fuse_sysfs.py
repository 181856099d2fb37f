"""A folder shown as another by a file system of its own (FUSE), whose reads fail as a sensor's driver fails.

A line of the file `faults` in the folder is what one read of an attribute gives: an error's name, or the
number of bytes that it is cut to. As sysfs, it keeps no values, and reports one page as each file's size.
"""

from __future__ import annotations

import errno
import stat
import sys
from pathlib import Path

from mfusepy import FUSE, FuseOSError, Operations

_PAGE = 4096


class Faulty(Operations):  # type: ignore[misc]
    """The folder's files, read only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._faults = folder / "faults"

    def _at(self, path: str) -> Path:
        return self._folder / path.lstrip("/")

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """The mode and the size; ENOENT where the folder has no such file."""
        mode = self._at(path).lstat().st_mode
        return {"st_mode": mode, "st_size": _PAGE if stat.S_ISREG(mode) else 0, "st_nlink": 1}

    def readdir(self, path: str, fh: int) -> list[str]:
        """Names, as the folder has them."""
        return [".", "..", *(entry.name for entry in self._at(path).iterdir())]

    def readlink(self, path: str) -> str:
        """Where a link points."""
        return str(self._at(path).readlink())

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """The bytes, or what the next fault gives."""
        fault = self._next_fault() if path.endswith("_input") else ""
        if fault and not fault.isdecimal():
            raise FuseOSError(getattr(errno, fault))
        return self._at(path).read_bytes()[offset : offset + int(fault or size)]

    def _next_fault(self) -> str:
        if not self._faults.exists():
            return ""
        fault, *rest = self._faults.read_text().split()
        if rest:
            self._faults.write_text("\n".join(rest))
        else:
            self._faults.unlink()
        return fault


if __name__ == "__main__":
    FUSE(
        Faulty(Path(sys.argv[1])),
        sys.argv[2],
        foreground=True,
        nothreads=True,
        direct_io=True,
        attr_timeout=0,
        entry_timeout=0,
    )
