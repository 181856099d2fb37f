"""The idx format of MNIST and its relatives: big-endian header, then unsigned bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import DataError

_UNSIGNED_BYTE: Final = 0x08
#: No file of the MNIST family is larger unpacked; a gzip bomb stops here.
_MAX_BYTES: Final = 1 << 30


def read_idx(path: Path, dimensions: int, max_bytes: int = _MAX_BYTES) -> npt.NDArray[np.uint8]:
    """The array of an idx file, uint8 with `dimensions` axes. DataError names the file and what is wrong."""
    return parse_idx(_content(path, max_bytes), dimensions, str(path))


def parse_idx(content: bytes, dimensions: int, name: str) -> npt.NDArray[np.uint8]:
    """The array in the bytes of an idx file; `name` is for the message. DataError if they are not one."""
    header = 4 + 4 * dimensions
    if len(content) < 4 or content[:2] != b"\0\0":
        raise DataError(f"{name}: not an idx file (it starts with {content[:4].hex(' ') or 'nothing'})")
    kind, found = content[2], content[3]
    if kind != _UNSIGNED_BYTE:
        raise DataError(f"{name}: idx type 0x{kind:02x}, expected unsigned bytes (0x08)")
    if found != dimensions:
        raise DataError(f"{name}: idx array of {found} dimensions, expected {dimensions}")
    if len(content) < header:
        raise DataError(f"{name}: idx header cut off after {len(content)} bytes")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    expected = header + math.prod(shape)
    if len(content) != expected:
        state = "truncated" if len(content) < expected else "too long"
        raise DataError(f"{name}: {state}: {len(content)} bytes, its header {shape} says {expected}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def unpacked(content: bytes, name: str, max_bytes: int = _MAX_BYTES) -> bytes:
    """The content of a gzip file's bytes, other bytes as they are. DataError if damaged or too long."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            plain = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: cannot be read ({error})") from None
    if len(plain) > max_bytes:
        raise DataError(f"{name}: holds more than {max_bytes >> 20} MiB")
    return plain


def _content(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if gzipped else path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    if len(content) > max_bytes:
        raise DataError(f"{path}: holds more than {max_bytes >> 20} MiB")
    return content
