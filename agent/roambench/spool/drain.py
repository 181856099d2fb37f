"""Moves records from a spool to a far side, in order, until they are acknowledged.

At-least-once: a record is deleted only after the far side said that it is durable there; the key
(device, spool uuid, seq) lets the far side drop what it sees twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from roambench.contract.draws import generator
from roambench.spool.spool import Record, Spool

#: Takes records in ascending seq; returns the highest seq that is durable at the far side.
Send = Callable[[list[Record]], Awaitable[int]]

BACKOFF_FIRST_S: Final = 1.0
BACKOFF_MOST_S: Final = 60.0


class BatchRefused(Exception):
    """Raised by a sender: the far side is well, but will never take this batch as it is."""


class Drain:
    """Sends what `spool` holds. `send` raises OSError (a LinkError is one) when it should be tried again.

    `gate`: nothing is sent while this event is cleared (a measured phase must not carry our traffic);
    `flush` does not ask it. A batch that is refused is halved until the bad record is alone; that one goes
    to the dead letters.
    """

    def __init__(
        self,
        spool: Spool,
        send: Send,
        *,
        gate: asyncio.Event | None = None,
        period_s: float = 0.5,
        batch_records: int = 500,
        backoff_first_s: float = BACKOFF_FIRST_S,
        backoff_most_s: float = BACKOFF_MOST_S,
    ) -> None:
        self._spool = spool
        self._send = send
        self._gate = gate
        self._period_s = period_s
        self._batch_records = batch_records
        self._backoff_first_s = backoff_first_s
        self._backoff_most_s = backoff_most_s
        self._limit = batch_records
        self._failures = 0
        self.last_error = ""

    async def run(self) -> None:
        """Drain for ever; cancel to stop. Only a SpoolError or a bug in the sender ends it otherwise."""
        while True:
            if self._gate is not None:
                await self._gate.wait()
            progress = await self._send_some() if self._spool.depth else True
            if not progress:
                await asyncio.sleep(self.backoff_s(self._failures))
            else:
                # With a backlog only let others run: the meter's lines are stamped by this same loop.
                await asyncio.sleep(self._period_s if self._spool.depth < self._batch_records else 0)

    async def flush(self, timeout_s: float) -> bool:
        """Send until the spool is empty; False if `timeout_s` passed first (the rest stays spooled)."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._spool.depth:
                    if not await self._send_some():
                        await asyncio.sleep(min(0.2, self.backoff_s(self._failures)))
        except TimeoutError:
            return self._spool.depth == 0
        return True

    def backoff_s(self, failures: int) -> float:
        """How long to wait after `failures` failures in a row: doubling, half of it drawn.

        Keyed by the spool, so that a fleet whose controller comes back does not arrive in one moment.
        """
        ceiling_s = min(self._backoff_most_s, self._backoff_first_s * 2.0 ** max(0, min(failures, 30) - 1))
        share = generator(int(self._spool.uuid[:15], 16), "drain backoff", step=failures).random()
        return ceiling_s * (0.5 + 0.5 * float(share))

    async def _send_some(self) -> bool:
        """One attempt; True if the spool got shorter."""
        records = self._spool.batch(self._limit)
        first, last = records[0][0], records[-1][0]
        try:
            through = await self._send(records)
        except BatchRefused as error:
            return self._refused(records, str(error))
        except OSError as error:
            return self._failed(str(error))
        # A far side may not acknowledge what it was not sent.
        through = min(through, last)
        if through < first:
            return self._failed(f"far side acknowledged {through}, sent {first} to {last}")
        self._spool.acknowledge(through)
        self._failures = 0
        self.last_error = ""
        self._limit = min(self._batch_records, self._limit * 2)
        return True

    def _refused(self, records: list[Record], reason: str) -> bool:
        self.last_error = reason
        if len(records) == 1:
            self._spool.bury(records[0][0], reason)
        else:
            self._limit = max(1, len(records) // 2)
        return True

    def _failed(self, reason: str) -> bool:
        self._failures += 1
        self.last_error = reason
        return False
