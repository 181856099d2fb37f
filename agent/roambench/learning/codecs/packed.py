"""Lossless compression of another codec's bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.extra_packages import install_command
from roambench.contract.orders import Vector
from roambench.learning.codecs.codec import Codec, CodecRow, Shapes


@dataclass(frozen=True, slots=True)
class Packed:
    """`unpack` gets the most bytes that may come out, and stops there."""

    inner: Codec
    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes, int], bytes]

    @property
    def feeds_back(self) -> bool:
        """The same as the codec whose bytes are packed."""
        return self.inner.feeds_back

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """The other codec's bytes, compressed."""
        return self.pack(self.inner.encode(values, shapes, draws))

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """Inverse of `encode`, no longer than a code can be before it was compressed."""
        return self.inner.decode(self.unpack(coded, self.inner.most_bytes(count, shapes)), count, shapes)

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return what incompressible bytes become: a little more than they were."""
        inner = self.inner.most_bytes(count, shapes)
        return inner + inner // 256 + 128


def _inflated(coded: bytes, most_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(coded, most_bytes + 1)
    except zlib.error as error:
        raise ModelError(f"the code cannot be unpacked: {error}") from None
    if len(found) > most_bytes:
        raise ModelError(f"the code unpacks to more than {most_bytes} bytes")
    if not stream.eof or stream.unused_data:
        raise ModelError("the code cannot be unpacked: it is cut short, or more lies behind it")
    return found


def _zstd(inner: Codec) -> Packed:
    try:
        import zstandard
    except ImportError:
        raise ConfigError(
            [f"zstd: expected the package zstandard: {install_command('zstd')}; or use deflate"]
        ) from None

    def unpack(coded: bytes, most_bytes: int) -> bytes:
        try:
            stated_bytes = zstandard.frame_content_size(coded)  # -1: it does not say
            if not 0 <= stated_bytes <= most_bytes:
                raise ModelError(
                    f"the code says that it unpacks to {stated_bytes} of at most {most_bytes} bytes"
                )
            # Into as many bytes as it says, however many there are.
            return bytes(zstandard.ZstdDecompressor().decompress(coded, allow_extra_data=False))
        except zstandard.ZstdError as error:
            raise ModelError(f"the code cannot be unpacked: {error}") from None

    return Packed(inner, zstandard.ZstdCompressor(level=3).compress, unpack)


DEFLATE = CodecRow(
    "another codec's bytes, compressed by zlib",
    lambda inner: Packed(inner, lambda plain: zlib.compress(plain, 6), _inflated),
    packs=True,
)
ZSTD = CodecRow("another codec's bytes, compressed by Zstandard", _zstd, packs=True)
