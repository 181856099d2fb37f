"""Bytes without meaning, for transfers that only measure the link; no compression makes them smaller."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from roambench.contract.draws import generator
from roambench.contract.model_blob import piece_bytes

_BLOCK_BYTES = 4 * 1024 * 1024


def padding(total_bytes: int, mbit_s: float) -> Iterator[bytes]:
    """`total_bytes` of it in pieces that suit a transfer paced to `mbit_s` (0: not paced)."""
    block, size = _block(), piece_bytes(mbit_s)
    left = total_bytes
    while left > 0:
        yield block[: min(size, left)]
        left -= size


@cache
def _block() -> bytes:
    return generator(0, "padding").bytes(_BLOCK_BYTES)
