"""Link rates made by the sender: chunks leave no earlier than the modelled link could have carried them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from roambench.contract.device_time import DeviceClock


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
