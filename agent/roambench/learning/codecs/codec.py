"""A codec's port, and its row in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from roambench.contract.errors import ModelError
from roambench.contract.orders import Vector

#: The model's tensors in order of its vector; what the vector has beyond them is one more, flat.
Shapes = tuple[tuple[int, ...], ...]


class Codec(Protocol):
    """Numbers to bytes and back; equal arguments give equal bytes on every fleet of a machine."""

    @property
    def feeds_back(self) -> bool:
        """True where a device adds what was lost to what it codes next (error feedback). Such a codec is for
        differences alone: most of a model would be gone."""
        ...

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """The bytes of finite float32 `values`, shape (n,)."""
        ...

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """The `count` float32 numbers that these bytes stand for. ModelError for bytes that `encode` did not
        make; what they say of themselves never decides how much memory is taken."""
        ...

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return the length of the longest code of `count` numbers."""
        ...


@dataclass(frozen=True, slots=True)
class CodecRow:
    """`make` takes the number behind the colon, `parameter` where none is written (None: it takes none).
    With `packs` it takes the codec before the plus, whose bytes it makes fewer. ConfigError says what is
    wrong with the number, or what is not installed."""

    summary: str
    make: Callable[..., Codec]
    parameter: float | None = None
    packs: bool = False


def exact(coded: bytes, expected_bytes: int, what: str) -> None:
    """ModelError for a code that is longer or shorter than its kind is."""
    if len(coded) != expected_bytes:
        raise ModelError(f"{what} has {len(coded)} bytes, expected {expected_bytes}")
