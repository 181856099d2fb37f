"""The headers of a tar file that may be hostile or damaged."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO, Any, Final, cast

_MAX_HEADER: Final = 1 << 20  # bytes of one header: names and attributes, no data


def tar_headers(file: IO[bytes]) -> Iterator[tarfile.TarInfo]:
    """Yield every header of an unpacked tar. `file` is only moved forwards, and may stand behind the content
    of the last header when the next is asked for. tarfile.ReadError if a header says that it is longer than
    1 MiB (before it is read), is damaged (which `tarfile` takes for the end), or is one of a sparse file."""
    blocks = _Blocks(file)
    archive: Any = tarfile.TarFile(fileobj=cast(IO[bytes], blocks), errorlevel=2)
    at = -1
    while row := archive.next():
        if archive.offset <= at or row.size < 0:
            raise tarfile.ReadError(f"{row.name[:80]!r} has a size below 0")
        if row.issparse():
            raise tarfile.ReadError(f"{row.name[:80]!r} is a sparse file: pack it without --sparse")
        at = archive.offset
        yield row
        archive.members.clear()  # they would all be kept
    if blocks.last.strip(b"\0"):
        raise tarfile.ReadError(f"no header at byte {archive.offset:,}, where one is expected")


class _Blocks:
    """A tar file while its headers are read: no read takes more than a header may hold; the last is kept."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.last = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        self.last = self._file.read(size)
        return self.last

    def seek(self, at: int) -> int:
        return self._file.seek(at)

    def tell(self) -> int:
        return self._file.tell()
