"""Link rates made by the sender: chunks leave no earlier than the modelled link could have carried them.

Transfers that only measure the link send bytes without meaning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from functools import cache

from roambench.contract.device_time import DeviceClock
from roambench.contract.draws import generator
from roambench.contract.model_blob import piece_bytes

_BLOCK_BYTES = 4 * 1024 * 1024


async def paced(chunks: Iterable[bytes], mbit_s: float, clock: DeviceClock) -> AsyncIterator[bytes]:
    """Yield `chunks` at `mbit_s` of device time (10^6 bit; 0: as fast as the link goes).

    A chunk is handed over at the moment its last bit would have arrived, so that a transfer of B bytes
    lasts 8B/rate for the receiver as well.
    """
    started_ns = clock.now_ns()
    sent_bits = 0
    for chunk in chunks:
        if mbit_s > 0:
            sent_bits += 8 * len(chunk)
            await clock.sleep_until_ns(started_ns + round(sent_bits * 1e3 / mbit_s))
        yield chunk


def padding(total_bytes: int, mbit_s: float) -> Iterator[bytes]:
    """`total_bytes` without meaning, in pieces that suit a transfer paced to `mbit_s` (0: not paced).

    No compression makes them fewer.
    """
    block, size = _block(), piece_bytes(mbit_s)
    left = total_bytes
    while left > 0:
        yield block[: min(size, left)]
        left -= size


@cache
def _block() -> bytes:
    return generator(0, "padding").bytes(_BLOCK_BYTES)
