"""Shortages of a machine, and what helps; by the number of the OSError."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

_ROOM: Final = "free some space and inodes (df, df -i)"
SHORTAGES: Final[Mapping[int | None, str]] = {
    errno.EMFILE: "allow this process more open files (ulimit -n)",
    errno.ENFILE: "the machine may open no more files: end what holds them (lsof), or raise fs.file-max",
    errno.ENOMEM: "end what takes so much memory (free -m)",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EROFS: "the file system is read-only: its disk may fail (dmesg)",
    errno.EIO: "the disk fails (dmesg)",
    errno.ENOLCK: "the file system gives no lock: start NFS's lock service, or move to a local disk",
}
