"""Unix socket addresses: the kernel takes 107 bytes of path, run folders may lie deeper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LONGEST: Final = 107


@contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """An address of the socket at `path`, valid inside the block (to bind or to connect)."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
