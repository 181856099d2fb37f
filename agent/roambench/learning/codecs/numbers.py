"""Codecs of every number by itself: as it is, of fewer bits, or one of few levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ModelError
from roambench.contract.orders import Vector
from roambench.learning.codecs.codec import CodecRow, Shapes, exact

_BUCKET: Final = 512  # numbers that share a scale, as in QSGD's experiments
_MOST_BF16: Final = np.uint32(0x7F7F0000).view(np.float32)
_MOST_FP32: Final = np.finfo(np.float32).max
_MOST_FP16: Final = np.float32(65504.0)


@dataclass(frozen=True, slots=True)
class Uncoded:
    """float32, 4 bytes a number."""

    feeds_back: bool = False

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """Little-endian."""
        return values.astype("<f4").tobytes()

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """Inverse of `encode`."""
        exact(coded, 4 * count, "a float32 code")
        return np.frombuffer(coded, "<f4").astype(np.float32)

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return 4 a number."""
        return 4 * count


@dataclass(frozen=True, slots=True)
class Half:
    """float16, 2 bytes a number, rounded to nearest even; larger ones become the largest."""

    feeds_back: bool = False

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """Little-endian."""
        return np.clip(values, -_MOST_FP16, _MOST_FP16).astype("<f2").tobytes()

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """The same numbers as float32."""
        exact(coded, 2 * count, "a float16 code")
        return np.frombuffer(coded, "<f2").astype(np.float32)

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return 2 a number."""
        return 2 * count


@dataclass(frozen=True, slots=True)
class BrainHalf:
    """bfloat16, the upper 2 bytes of a float32, rounded to nearest even; larger ones become the largest."""

    feeds_back: bool = False

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """Little-endian."""
        bits = np.clip(values, -_MOST_BF16, _MOST_BF16).astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """The same numbers as float32."""
        exact(coded, 2 * count, "a bfloat16 code")
        return (np.frombuffer(coded, "<u2").astype(np.uint32) << 16).view(np.float32)

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return 2 a number."""
        return 2 * count


@dataclass(frozen=True, slots=True)
class Quantised:
    """Stochastic quantisation (Alistarh et al., QSGD, NeurIPS 2017, Section 3.1) in buckets of 512.

    A number v of a bucket becomes sign(v) floor(levels |v| / scale + u), u uniform in [0, 1): its mean is v.
    The bucket's scale is its largest magnitude, the infinity norm of QSGD's Section 4, not the 2-norm.

    Bytes: a float32 scale for each bucket, then the numbers in one byte each, or two in a byte, the first in
    its lower half, with 8 added.
    """

    bits: int  # 8 or 4
    feeds_back: bool = False

    @property
    def levels(self) -> int:
        """Magnitudes above 0."""
        return (1 << (self.bits - 1)) - 1

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """Scales and levels; one draw for each number."""
        count = values.size
        padded = np.zeros((-(-count // _BUCKET), _BUCKET), np.float32)
        padded.reshape(-1)[:count] = values
        scales = np.abs(padded).max(axis=1)
        share = np.divide(
            np.abs(padded), scales[:, None], out=np.zeros_like(padded), where=scales[:, None] > 0.0
        ).reshape(-1)[:count]
        levels = np.floor(share * np.float32(self.levels) + draws.random(count, np.float32))
        signed = np.copysign(np.minimum(levels, self.levels), values).astype(np.int8)
        return bytes(scales.astype("<f4").tobytes()) + self._packed(signed)

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """Each level times its bucket's scale, in units of the largest level."""
        exact(coded, self.most_bytes(count, shapes), f"an int{self.bits} code of {count} numbers")
        buckets = -(-count // _BUCKET)
        scales = np.frombuffer(coded, "<f4", buckets)
        if not np.isfinite(scales).all() or (scales < 0.0).any():
            raise ModelError("a scale of the code is negative, NaN or infinite")
        signed = self._unpacked(coded[4 * buckets :])[:count]
        if signed.size and int(np.abs(signed.astype(np.int16)).max()) > self.levels:
            raise ModelError(f"a level of the code is beyond {self.levels}")
        steps = np.repeat(scales / np.float32(self.levels), _BUCKET)[:count]
        with np.errstate(over="ignore"):  # a step is rounded: 127 of them may be above the largest float32
            return np.clip(signed * steps, -_MOST_FP32, _MOST_FP32).astype(np.float32)

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return the length of every code of `count` numbers."""
        return 4 * -(-count // _BUCKET) + -(-count * self.bits // 8)

    def _packed(self, signed: npt.NDArray[np.int8]) -> bytes:
        if self.bits == 8:
            return signed.tobytes()
        nibbles = np.full(2 * -(-signed.size // 2), 8, np.uint8)
        nibbles[: signed.size] = signed + 8
        both: npt.NDArray[np.uint8] = nibbles[::2] | nibbles[1::2] << np.uint8(4)
        return both.tobytes()

    def _unpacked(self, coded: bytes) -> npt.NDArray[np.int8]:
        if self.bits == 8:
            return np.frombuffer(coded, np.int8)
        both = np.frombuffer(coded, np.uint8)
        return np.stack((both & 15, both >> 4), axis=1).reshape(-1).astype(np.int8) - np.int8(8)


IDENTITY = CodecRow("float32, nothing is lost", Uncoded)
FP16 = CodecRow("float16", Half)
BF16 = CodecRow("bfloat16", BrainHalf)
INT8 = CodecRow("127 magnitudes, rounded by keyed draws", lambda: Quantised(8))
INT4 = CodecRow("7 magnitudes, rounded by keyed draws", lambda: Quantised(4))
