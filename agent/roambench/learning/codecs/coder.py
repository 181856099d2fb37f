"""Models as coded blobs: the one way in and out, for devices and for who takes their bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from roambench.contract.draws import draw_key
from roambench.contract.errors import ModelError
from roambench.contract.link_codecs import IDENTITY, LinkCodecs
from roambench.contract.model_blob import MESSAGE_HEADER_BYTES, decode_coded, encode_coded
from roambench.contract.orders import Vector
from roambench.learning.codecs.catalogue import codec_of
from roambench.learning.codecs.codec import Codec, Shapes


@dataclass(frozen=True, slots=True)
class Coder:
    """One direction's codec, for models of this layout (its fingerprint, and its shapes)."""

    codec: Codec
    layout: str
    shapes: Shapes

    @classmethod
    def of(cls, text: str, layout: str, shapes: Shapes) -> Coder | None:
        """The coder of a codec as experiments spell it; None where nothing is coded. ConfigError."""
        return None if text == IDENTITY else cls(codec_of(text), layout, shapes)

    def encode(
        self, model: Vector, key: int, base: Vector | None = None, memory: Vector | None = None
    ) -> tuple[bytes, Vector | None]:
        """The blob of `model`, or of its difference to `base`, and the device's next `memory`: what was lost
        of that and of the memory before (None: the codec has none, or nothing was lost yet)."""
        wanted = model if base is None else model - base
        if self.codec.feeds_back and memory is not None:
            wanted = wanted + memory
        if not np.isfinite(wanted).all():
            raise ModelError("what is to be coded holds NaN or infinity")
        draws = np.random.Generator(np.random.PCG64(key))
        coded = self.codec.encode(wanted, self.shapes, draws)
        left = None
        if self.codec.feeds_back:
            left = wanted - self.codec.decode(coded, wanted.size, self.shapes)
        return encode_coded(coded, self.layout, wanted.size), left

    def decode(self, blob: bytes, count: int = 0, base: Vector | None = None) -> Vector:
        """The model of a blob, shape (count,) (0: as many numbers as it says). ModelError for what `encode`
        did not make."""
        coded, length = decode_coded(blob, self.layout)
        if count and length != count:
            raise ModelError(f"coded model says that it has {length} numbers, expected {count}")
        values = self.codec.decode(coded, length, self.shapes)
        with np.errstate(over="ignore", invalid="ignore"):
            model = values if base is None else base + values
        if not np.isfinite(model).all():
            raise ModelError("coded model holds NaN or infinity")
        return model

    def most_bytes(self, count: int) -> int:
        """Return the length of the longest blob of a model of `count` numbers."""
        return self.codec.most_bytes(count, self.shapes) + MESSAGE_HEADER_BYTES


def download_key(codecs: LinkCodecs, blob: bytes) -> int:
    """The key of the draws by which the version `blob` is coded for all who download it. By SHA-256, however
    the version is named: earlier runs, which named it so, are repeated with the same draws."""
    return draw_key(codecs.seed, f"decode {hashlib.sha256(blob).hexdigest()}")


def upload_key(codecs: LinkCodecs, device: int, step: int) -> int:
    """The key of the draws by which a device codes what it uploads in a step."""
    return draw_key(codecs.seed, "encode", device, step)
