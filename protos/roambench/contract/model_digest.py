"""Digests that name models by their bytes: "blake3-" and 64 hex digits.

Folders of earlier versions have 64 hex digits alone, of SHA-256. On the wire such a digest is its 32 bytes,
every other one its text.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from blake3 import blake3

_NAME: Final = "blake3-"
_DIGEST: Final = re.compile(rf"(?:{_NAME})?[0-9a-f]{{64}}")
_SHA_256_BYTES: Final = 32
#: Characters of a digest that messages show: the name of its kind and 16 digits.
SHOWN: Final = 23


def digest_of(*parts: bytes | memoryview) -> str:
    """The digest of a blob, which may come in parts, with the name of its kind in front."""
    digest = blake3()
    for part in parts:
        digest.update(part)
    return _NAME + digest.hexdigest()


def digest_like(other: str, blob: bytes) -> str:
    """The digest of the blob, of the same kind as an `other` digest."""
    return digest_of(blob) if other.startswith(_NAME) else hashlib.sha256(blob).hexdigest()


def names(digest: str, blob: bytes) -> bool:
    """Return whether `digest`, of either kind, is that of the blob."""
    return digest_like(digest, blob) == digest


def is_digest(text: str) -> bool:
    """Return whether this is a digest of either kind."""
    return _DIGEST.fullmatch(text) is not None


def same_kind(one: str, other: str) -> bool:
    """Return whether two digests of the same bytes would be equal."""
    return one.startswith(_NAME) == other.startswith(_NAME)


def to_wire(digest: str) -> bytes:
    """A digest, or none (""), as a message's field has it."""
    return digest.encode() if digest.startswith(_NAME) else bytes.fromhex(digest)


def from_wire(field: bytes) -> str:
    """The inverse of `to_wire`; bytes that are none are read as a text that names nothing."""
    return field.hex() if len(field) == _SHA_256_BYTES else field.decode("ascii", "replace")
