"""The largest numbers alone, with their places."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.orders import Vector
from roambench.learning.codecs.codec import CodecRow, Shapes, exact


@dataclass(frozen=True, slots=True)
class TopK:
    """The `share` of the numbers that are largest in magnitude; of equal ones the first.

    What is not sent stays on the device and is added to what it sends next (Stich et al., Sparsified SGD with
    Memory, NeurIPS 2018, Algorithm 1; Lin et al., Deep Gradient Compression, ICLR 2018, without its momentum
    correction). Bytes: ascending places as uint32, then the numbers as float32.
    """

    share: float
    feeds_back: bool = True

    def encode(self, values: Vector, shapes: Shapes, draws: np.random.Generator) -> bytes:
        """Places and numbers."""
        kept, size = self._kept(values.size), np.abs(values)
        least = np.partition(size, values.size - kept)[values.size - kept]
        above, equal = np.flatnonzero(size > least), np.flatnonzero(size == least)
        places = np.sort(np.concatenate((above, equal[: kept - above.size])))
        return places.astype("<u4").tobytes() + values[places].astype("<f4").tobytes()

    def decode(self, coded: bytes, count: int, shapes: Shapes) -> Vector:
        """The numbers in their places, 0 elsewhere."""
        kept = self._kept(count)
        exact(coded, 8 * kept, f"a code of {kept} of {count} numbers")
        places = np.frombuffer(coded, "<u4", kept).astype(np.int64)
        if places[-1] >= count or (np.diff(places) <= 0).any():
            raise ModelError(f"places of the code are not ascending and below {count}")
        values = np.zeros(count, np.float32)
        values[places] = np.frombuffer(coded, "<f4", kept, 4 * kept)
        return values

    def most_bytes(self, count: int, shapes: Shapes) -> int:
        """Return 8 for each number kept."""
        return 8 * self._kept(count)

    def _kept(self, count: int) -> int:
        # Rounded: 0.07 of 100 is 7, not 7.000000000000001.
        return min(count, max(1, math.ceil(round(self.share * count, 6))))


def _top_k(share: float) -> TopK:
    if not 0.0 < share <= 1.0:
        raise ConfigError([f"topk: expected a share above 0 and at most 1, got {share:g}"])
    return TopK(share)


TOP_K = CodecRow("the largest share of the numbers; the rest is sent later (0.01)", _top_k, 0.01)
