"""A model as bytes: a checked header in front of a flat little-endian vector. Never pickle.

    magic   8 B  b"ROAMBLB1"
    size    4 B  little-endian length of the JSON header (at most 4,096)
    header       {"layout": hex, "count": int, "dtype": "float32"}; `layout` fingerprints names and shapes;
                 blanks fill it up until data begins at a multiple of 16
    data         count * 4 bytes

In the float64 test mode of simulated fleets the header says "float64" and the data has count * 8 bytes.
A message of a program is a blob, too: its header says "bytes", no layout, and the data has count bytes.
The header of a coded model says "coded": count numbers became the data, as the run's codec has it.

`contract.model_digest` names a version of a model by all of it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Final, Literal

import numpy as np

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.json_values import from_json
from roambench.contract.orders import Vector

MAGIC: Final = b"ROAMBLB1"
#: Pieces of a paced transfer: small enough for a smooth rate (0.4 % of what was asked, at 20 Mbit/s).
PACED_CHUNK_BYTES: Final = 256 * 1024
#: On a slow link a piece holds no more than this much of the time: a small model in one piece would leave
#: the radio silent for seconds and then send at the port's own speed.
PACED_CHUNK_S: Final = 0.25
#: But never less than about a packet.
LEAST_CHUNK_BYTES: Final = 1024
#: Pieces of an unpaced one: MOHAWK's 2.6 MB go in one, which spares two copies at each end. 36 of them took
#: 89 ms in pieces of 256 KiB, 81 ms of 1 MiB, 75 ms in one (raw TCP 74 ms), and with TLS a tenth less CPU.
BULK_CHUNK_BYTES: Final = 4 * 1024 * 1024
#: Refuse anything larger than this before reading it (a ResNet-50 is 94 MB).
MAX_BLOB_BYTES: Final = 512 * 1024 * 1024
#: A model up to this length travels within the session, unless it is paced: an agent needs no second
#: connection then (0.14 MB of the controller, a handshake), and fewer calls.
SESSION_BYTES: Final = 64 * 1024
_MAX_HEADER_BYTES: Final = 4096
#: The blob of a message, or of a coded model, is longer than that by less than this.
MESSAGE_HEADER_BYTES: Final = 256
#: Blanks after the header let the numbers begin at a multiple of this: NumPy copies what is not aligned
#: before it computes (sums of received models took 2.3 times as long).
_ALIGNMENT: Final = 16
_WIRE_DTYPES: Final = {"float32": "<f4", "float64": "<f8"}


@dataclass(frozen=True, slots=True)
class _Header:
    count: int
    dtype: Literal["float32", "float64", "bytes", "coded"]
    layout: str


def encode(vector: Vector, layout: str) -> bytes:
    """The blob of a flat float32 or float64 `vector`, shape (parameters,); `layout` as `learning` has it."""
    return b"".join(parts(vector, layout))


def parts(vector: Vector, layout: str) -> tuple[bytes, memoryview]:
    """The header and the data of `encode`'s blob; the data are the vector's own bytes, not a copy."""
    dtype = str(vector.dtype)
    if dtype not in _WIRE_DTYPES or vector.ndim != 1:
        raise ModelError(f"a model is a flat float32 vector, got {dtype} of shape {vector.shape}")
    data = np.ascontiguousarray(vector, dtype=_WIRE_DTYPES[dtype]).view(np.uint8).data
    return _head(layout, vector.size, dtype), data


def encode_message(message: bytes) -> bytes:
    """The blob of a program's message; `decode_message` is the inverse."""
    return _head("", len(message), "bytes") + message


def encode_coded(coded: bytes, layout: str, count: int) -> bytes:
    """The blob of a model of `count` numbers that a codec made bytes of; `decode_coded` is the inverse."""
    return _head(layout, count, "coded") + coded


def decode_coded(blob: bytes, layout: str) -> tuple[bytes, int]:
    """The coded bytes of a model, and how many numbers they say they are; ModelError where that is more than
    a model can have, or the layout is another."""
    size, header = _header(blob)
    if header.dtype != "coded" or not 0 < header.count <= MAX_BLOB_BYTES // 4:
        raise ModelError(f"model header: expected a coded model, got {header.count} of {header.dtype}")
    if header.layout != layout:
        raise ModelError(f"model has layout {header.layout[:12]}, expected {layout[:12]}")
    return blob[12 + size :], header.count


def _head(layout: str, count: int, dtype: str) -> bytes:
    about = {"layout": layout, "count": count, "dtype": dtype}
    header = json.dumps(about, separators=(",", ":"), sort_keys=True).encode()
    header += b" " * (-(12 + len(header)) % _ALIGNMENT)
    return MAGIC + struct.pack("<I", len(header)) + header


def decode(blob: bytes | mmap, *, layout: str | None = None, dtype: str = "float32") -> Vector:
    """The vector of a blob (read-only view of its bytes), shape (parameters,), of the `dtype` expected.

    Raises ModelError for anything that `encode` did not make: wrong magic, header, length, layout, NaN.
    """
    size, header = _header(blob)
    if header.dtype != dtype or header.count < 0:
        raise ModelError(f"model header: expected {dtype} and a count, got {header.dtype}, {header.count}")
    if layout is not None and header.layout != layout:
        raise ModelError(f"model has layout {header.layout[:12]}, expected {layout[:12]}")
    wire_dtype = np.dtype(_WIRE_DTYPES[dtype])
    told_bytes = wire_dtype.itemsize * header.count
    if len(blob) - 12 - size != told_bytes:
        raise ModelError(f"model data has {len(blob) - 12 - size} bytes, its header says {told_bytes}")
    vector: Vector = np.frombuffer(blob, dtype=wire_dtype, count=header.count, offset=12 + size)
    if not np.isfinite(vector).all():
        raise ModelError("model holds NaN or infinity")
    return vector


def decode_message(blob: bytes) -> bytes:
    """The message of a blob; ModelError for anything that `encode_message` did not make."""
    size, header = _header(blob)
    told_bytes = len(blob) - 12 - size
    if header.dtype != "bytes" or header.count != told_bytes:
        expected = f"expected a message of {told_bytes} bytes"
        raise ModelError(f"message header: {expected}, got {header.count} of {header.dtype}")
    return blob[12 + size :]


def layout_of(blob: bytes) -> str:
    """The layout that a blob says it has; ModelError where there is no readable header."""
    return _header(blob)[1].layout


def _header(blob: bytes | mmap) -> tuple[int, _Header]:
    """The header's length, and what it says."""
    if len(blob) < 12 or blob[:8] != MAGIC:
        raise ModelError("not a model blob (wrong magic)")
    (size,) = struct.unpack_from("<I", blob, 8)
    if size > _MAX_HEADER_BYTES or len(blob) < 12 + size:
        raise ModelError(f"model header of {size} bytes does not fit")
    try:
        return size, from_json(_Header, blob[12 : 12 + size], "model header")
    except ConfigError as error:
        raise ModelError(error.problems[0]) from None


def fits_session(total_bytes: int, mbit_s: float) -> bool:
    """Return whether a blob travels within the session; not where it is paced, by `mbit_s` above 0."""
    return mbit_s == 0.0 and total_bytes <= SESSION_BYTES


def piece_bytes(mbit_s: float) -> int:
    """Return how long the pieces of a transfer paced to `mbit_s` are; 0: of one without a pace."""
    if mbit_s <= 0:
        return BULK_CHUNK_BYTES
    return min(PACED_CHUNK_BYTES, max(LEAST_CHUNK_BYTES, round(mbit_s * 125_000 * PACED_CHUNK_S)))


def chunks(blob: bytes, mbit_s: float) -> Iterator[bytes]:
    """The blob in pieces that suit a transfer paced to `mbit_s` (0: not paced); the last may be shorter."""
    chunk_bytes = piece_bytes(mbit_s)
    for start in range(0, len(blob), chunk_bytes):
        yield blob[start : start + chunk_bytes]
