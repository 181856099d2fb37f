"""Archives of many files (.zip, .tar, packed .tar): members by name, never written to the disk.

An archive is opened, and its list of members read, once while members are read one after the other. Only
regular files are members: links, devices and folders are none. A list that is longer than one can be meant,
or damaged, is refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol, cast

from roambench.contract.errors import TraceError
from roambench.contract.tar_headers import tar_headers
from roambench.mobility.readers.documents import DAMAGE

#: How single files are packed, by the end of their name.
PACKINGS: Final[Mapping[str, Callable[..., IO[bytes]]]] = {
    ".gz": cast(Callable[..., IO[bytes]], gzip.open),
    ".xz": cast(Callable[..., IO[bytes]], lzma.open),
    ".bz2": cast(Callable[..., IO[bytes]], bz2.open),
}
_TARS: Final = {".tgz": ".gz", ".txz": ".xz", ".tbz": ".bz2", ".tbz2": ".bz2"}
_MAX_MEMBERS: Final = 1_000_000
_MAX_NAMES: Final = 128 << 20  # characters of all names together
#: Unpacked files may have this many bytes, and beyond that this many times those that lie on the disk: of
#: recorded movement gzip makes a tenth, xz of a simulator's a hundredth.
_FREE_BYTES: Final = 256 << 20
_MOST_TIMES: Final = 300


def unpacked(file: Path | IO[bytes], suffix: str, on_disk: Path) -> IO[bytes]:
    """The bytes of a file, unpacked while they are read if the suffix of its name is that of a packing; it is
    `on_disk` or lies in that archive."""
    if opener := PACKINGS.get(suffix.lower()):
        return _limited(opener(file, "rb"), on_disk)
    return file.open("rb") if isinstance(file, Path) else file


def _limited(file: IO[bytes], on_disk: Path) -> IO[bytes]:
    """A file that ends in an OSError where it becomes much larger than what lies on the disk."""
    most_bytes = max(_FREE_BYTES, _MOST_TIMES * on_disk.stat().st_size)
    return cast(IO[bytes], io.BufferedReader(_Limited(file, most_bytes), 1 << 17))


class _Limited(io.RawIOBase):
    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        self._file, self._most_bytes = file, most_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        if self._file.tell() > self._most_bytes:
            raise OSError(
                f"it unpacks to more than {self._most_bytes:,} bytes, as no recorded movement of its size "
                "does: unpack it yourself if it is meant so"
            )
        buffer[: len(data)] = data
        return len(data)

    def seek(self, at: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(at, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def is_archive(name: str) -> bool:
    """Tell if a file is a zip or tar archive by its name."""
    return name.lower().endswith(".zip") or _tar_packing(name) is not None


def _tar_packing(name: str) -> str | None:
    """Find how a tar archive of that name is packed ("": it is not); None for another file."""
    path = PurePosixPath(name.lower())
    if path.suffix in _TARS:
        return _TARS[path.suffix]
    if path.suffix == ".tar":
        return ""
    return path.suffix if path.suffix in PACKINGS and path.stem.endswith(".tar") else None


class _Archive(Protocol):
    names: tuple[str, ...]  # in the order in which reading them is cheapest

    def open(self, name: str) -> IO[bytes]: ...
    def close(self) -> None: ...


class Archives:
    """The archives of one reading. The one used last stays open; members are open one at a time."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._archive: _Archive | None = None

    def names(self, path: Path) -> tuple[str, ...]:
        """The members of an archive. Raises TraceError for one that cannot be read."""
        try:
            return self._opened(path).names
        except (*DAMAGE, tarfile.TarError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise TraceError(f"{path}: cannot be read: {reason}") from None

    def open(self, path: Path, name: str) -> IO[bytes]:
        """A member's bytes, as the archive holds them."""
        return self._opened(path).open(name)

    def close(self) -> None:
        """Close the archive that is open."""
        if self._archive is not None:
            self._archive.close()
        self._path, self._archive = None, None

    def _opened(self, path: Path) -> _Archive:
        if self._archive is None or path != self._path:
            self.close()
            packing = _tar_packing(path.name)
            self._archive = _Zip(path) if packing is None else _Tar(path, packing)
            self._path = path
        return self._archive


class _Zip:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive = zipfile.ZipFile(path)
        self.names = tuple(sorted({row.filename for row in self._archive.infolist() if not row.is_dir()}))

    def open(self, name: str) -> IO[bytes]:
        return _limited(self._archive.open(name), self._path)

    def close(self) -> None:
        self._archive.close()


class _Tar:
    """Members in the archive's own order: a packed one is unpacked once to list them and once to read all."""

    def __init__(self, path: Path, packing: str) -> None:
        self._file = unpacked(path, packing, path)
        try:
            self._parts = _parts_of(self._file)
        except BaseException:
            self._file.close()
            raise
        self.names = tuple(self._parts)

    def open(self, name: str) -> IO[bytes]:
        return cast(IO[bytes], io.BufferedReader(_Part(self._file, *self._parts[name])))

    def close(self) -> None:
        self._file.close()


class _Part(io.RawIOBase):
    """`size` bytes of a file from `first` on; others may read the file in between."""

    def __init__(self, file: IO[bytes], first: int, size: int) -> None:
        self._file, self._at, self._end = file, first, first + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        length = min(len(buffer), self._end - self._at)
        self._file.seek(self._at)
        data = self._file.read(length)
        if length and not data:
            raise EOFError("it ends too early")
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _parts_of(file: IO[bytes], most: int = _MAX_MEMBERS) -> dict[str, tuple[int, int]]:
    """First byte and size of every regular file of a tar; of one name the last, as when it is extracted."""
    parts: dict[str, tuple[int, int]] = {}
    length = 0
    for count, row in enumerate(tar_headers(file), start=1):
        length += len(row.name)
        if count > most or length > _MAX_NAMES:
            raise tarfile.ReadError(f"more than {most:,} members, or very long names")
        if not row.isreg():
            continue
        parts.pop(row.name, None)
        parts[row.name] = row.offset_data, row.size
    return parts
