"""Reading members out of tar.gz and zip archives without ever unpacking them onto the disk.

Archives are untrusted. Names in them are only compared with the names that are looked for, so no path in an
archive can lead anywhere; what they hold is read up to a limit, so no bomb can fill the memory.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from roambench.contract.errors import DataError
from roambench.contract.tar_headers import tar_headers

#: What broken archives make the standard library raise, found by feeding it damaged ones.
_BROKEN: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    OSError,
    EOFError,
    zlib.error,
    RuntimeError,  # an encrypted zip member
    NotImplementedError,  # a compression method that zipfile lacks
    ValueError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The size that an archive may have: the largest member that is read, and all of it together."""

    member_bytes: int
    total_bytes: int


def read_members(
    path: Path | IO[bytes], name: str, wanted: Callable[[str], bool], limits: Limits
) -> Iterator[tuple[str, bytes]]:
    """The regular files of an archive whose names are `wanted`, as (name, content), in the archive's order.

    `name` is for messages. DataError if it is no archive, damaged, truncated, or beyond the limits.
    """
    try:
        with path.open("rb") if isinstance(path, Path) else path as file:
            magic = file.read(4)
            file.seek(0)
            if magic[:2] == b"\x1f\x8b":
                yield from _tar_members(file, name, wanted, limits)
            elif magic[:2] == b"PK":
                yield from _zip_members(file, name, wanted, limits)
            else:
                raise DataError(f"{name}: not a tar.gz or zip archive (it starts with {magic.hex(' ')})")
    except DataError:
        raise
    except _BROKEN as error:
        raise DataError(f"{name}: damaged archive ({str(error) or type(error).__name__})") from None


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than `limit` bytes in all: where a gzip bomb stops."""

    def __init__(self, source: IO[bytes], limit: int, name: str) -> None:
        self._source, self._left, self._limit, self._name = source, limit, limit, name
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        # One byte more than is left tells a bomb from an archive that is just as large as allowed.
        content = self._source.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise DataError(f"{self._name}: unpacks to more than {self._limit} bytes")
        self._at += len(content)
        return content

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        """Move forwards."""
        while self._at < at and self.read(min(1 << 16, at - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at


def _tar_members(
    file: IO[bytes], name: str, wanted: Callable[[str], bool], limits: Limits
) -> Iterator[tuple[str, bytes]]:
    with gzip.GzipFile(fileobj=file) as unpacked:
        stream = _Bounded(unpacked, limits.total_bytes, name)  # type: ignore[arg-type]
        for member in tar_headers(cast(IO[bytes], stream)):
            member_name = member.name.removeprefix("./")
            if not member.isreg() or not wanted(member_name):
                continue
            if member.size > limits.member_bytes:
                raise DataError(
                    f"{name}: {member_name} holds {member.size} bytes, more than {limits.member_bytes}"
                )
            stream.seek(member.offset_data)
            content = stream.read(member.size)
            if len(content) < member.size:
                raise tarfile.ReadError("unexpected end of data")
            yield member_name, content
        # The headers stop at the end mark; reading on to the gzip trailer checks that all of it was there.
        while stream.read(1 << 16):
            pass


def _zip_members(
    file: IO[bytes], name: str, wanted: Callable[[str], bool], limits: Limits
) -> Iterator[tuple[str, bytes]]:
    left = limits.total_bytes
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.is_dir() or not wanted(member.filename):
                continue
            with archive.open(member) as stream:
                content = stream.read(min(limits.member_bytes, left) + 1)
            if len(content) > limits.member_bytes:
                raise DataError(f"{name}: {member.filename} holds more than {limits.member_bytes} bytes")
            left -= len(content)
            if left < 0:
                raise DataError(f"{name}: unpacks to more than {limits.total_bytes} bytes")
            yield member.filename, content
