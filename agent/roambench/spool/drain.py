"""Moves records from a queue to a far side, in order, until they are acknowledged.

At-least-once: a record is given up only after the far side said that it is durable there; the key
(device, spool uuid, seq) lets the far side drop what it sees twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final

from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.counts import count
from roambench.contract.draws import generator
from roambench.contract.errors import LinkError
from roambench.spool.consumer import DrainSource, Record
from roambench.spool.gate import Gate

#: Takes records in ascending seq; returns the highest seq that is durable at the far side.
Send = Callable[[list[Record]], Awaitable[int]]

BACKOFF_FIRST_S: Final = 1.0
BACKOFF_MOST_S: Final = 60.0
#: However long a far side asks us to wait, we look again after this.
RETRY_AFTER_MOST_S: Final = 600.0
#: Host seconds between looks at a queue that is nearly empty.
PERIOD_S: Final = 0.5
_PERIOD_MOST_S: Final = 60.0
#: Pauses of a flush, which has little time, unless the far side asks for longer ones.
_FLUSH_FIRST_S: Final = 0.2
_FLUSH_MOST_S: Final = 2.0
#: A far side is slow from the first answer that takes this long, until one takes less than half of it.
SLOW_S: Final = 5.0


class BatchRefused(Exception):
    """Raised by a sender: the far side is well, but will never take this batch as it is."""


class BatchTooLarge(BatchRefused):
    """Raised by a sender: the batch is too much for one request; that is never so of a single record."""


class NotWelcome(LinkError):
    """Raised by a sender: the far side is there and takes nothing from us until a person mends something
    (a wrong token, a database that does not exist). The records stay; it is tried again, seldom."""


class Busy(LinkError):
    """Raised by a sender: the far side asks to be left alone for `retry_after_s`."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class TooSlow(Busy):
    """Raised by a sender: no answer came in time. The records may be stored; fewer at once may be quicker."""


class Drain:
    """Sends what `source` holds. `send` raises OSError (a LinkError is one) when it should be tried again.

    `gate`: nothing is sent while it is shut (a measured phase must not carry our traffic), and what is on its
    way for too long then is broken off and sent later; `flush` does not ask it. A batch that is refused is
    halved until the bad record is alone; that one goes to the dead letters. One that is not answered in time
    is halved, too. `trouble` is called once when nothing will work until a person acts, and once ("") when it
    does; `slow` likewise of a far side that takes its time.
    """

    def __init__(
        self,
        source: DrainSource,
        send: Send,
        *,
        gate: Gate | None = None,
        period_s: float = PERIOD_S,
        batch_records: int = 500,
        backoff_first_s: float = BACKOFF_FIRST_S,
        backoff_most_s: float = BACKOFF_MOST_S,
        trouble: Callable[[str], None],
        slow: Callable[[str], None] = lambda how: None,
    ) -> None:
        self._source = source
        self._send = send
        self._gate = gate or Gate()
        self.period_s = period_s
        self._batch_records = batch_records
        self._backoff_first_s = backoff_first_s
        self._backoff_most_s = backoff_most_s
        self._report_trouble = trouble
        self._report_slow = slow
        self.trouble = ""  # what a person must mend
        self.slow = ""  # how slow it is, as was reported
        self._share = 1.0  # of a period, that the next wait is
        self._limit = batch_records
        self._failures = 0
        self.pause_s = 0.0  # after the last failure
        self._asked_until_s = 0.0  # by the monotonic clock: the far side asked to be left alone
        self.last_error = ""
        self._nudged = asyncio.Event()

    async def run(self) -> None:
        """Drain for ever; cancel to stop. Only a SpoolError or a bug in the sender ends it otherwise."""
        while True:
            progress = True
            if self._source.depth:
                try:
                    async with self._gate.passing():
                        progress = await self._send_some()
                except TimeoutError:
                    how = "the answer did not come before a measured phase: the batch was broken off"
                    self._slow(how)
                    progress = self._failed(how, self._backoff_most_s)  # every attempt may hold a phase up
            if not progress:
                await self._pause()
            else:
                # With a backlog only let others run.
                await asyncio.sleep(self.wait_s() if self._source.depth < self._batch_records else 0)

    def look_every(self, period_s: float) -> None:
        """Wait `period_s` (host seconds) between drains, as the far side asks; a backlog does not wait.

        The next wait is a drawn part of it: a fleet that is welcomed in one moment would drain in one moment
        from then on.
        """
        self.period_s = min(_PERIOD_MOST_S, max(PERIOD_S, period_s))
        self._share = float(generator(self._source.key, "drain phase", step=0).random())

    def wait_s(self) -> float:
        """Take the next wait between drains (host seconds)."""
        share, self._share = self._share, 1.0
        return share * self.period_s

    def nudge(self) -> None:
        """The far side is there (again): do not wait out the pause."""
        self._nudged.set()

    async def _pause(self) -> None:
        self._nudged.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.pause_s):
                await self._nudged.wait()

    async def flush(self, timeout_s: float, is_there: Callable[[], bool] | None = None) -> bool:
        """Send until the queue is empty; False if `timeout_s` passed first, or at once where only a person
        can help, where the far side asks to be left alone for longer, or where, after a failure, it is not
        there (None: it will come). The rest stays queued."""
        ends_s, pause_s = time.monotonic() + timeout_s, _FLUSH_FIRST_S
        try:
            async with AwakeTimeout(timeout_s):
                while self._source.depth:
                    if self._asked_until_s > ends_s:
                        return False
                    await asyncio.sleep(max(0.0, self._asked_until_s - time.monotonic()))
                    if not await self._send_some():
                        if self.trouble or (is_there is not None and not is_there()):
                            return False
                        await asyncio.sleep(min(pause_s, self.pause_s))
                        pause_s = min(_FLUSH_MOST_S, 2 * pause_s)
        except TimeoutError:
            return self._source.depth == 0
        return True

    def backoff_s(self, failures: int) -> float:
        """Return how long to wait after `failures` failures in a row: doubling, half of it drawn.

        Keyed by the queue, so that a fleet whose controller comes back does not arrive in one moment.
        """
        ceiling_s = min(self._backoff_most_s, self._backoff_first_s * 2.0 ** max(0, min(failures, 30) - 1))
        share = generator(self._source.key, "drain backoff", step=failures).random()
        return ceiling_s * (0.5 + 0.5 * float(share))

    async def _send_some(self) -> bool:
        """One attempt; True if the queue got shorter (or the next attempt will be smaller)."""
        records = self._source.batch(self._limit)
        first, last = records[0][0], records[-1][0]
        try:
            began_s = time.monotonic()
            through = await self._send(records)
            took_s = time.monotonic() - began_s
        except BatchRefused as error:
            if isinstance(error, BatchTooLarge) and len(records) == 1:
                return self._not_welcome(str(error))
            self._well()
            return self._refused(records, str(error))
        except NotWelcome as error:
            return self._not_welcome(str(error))
        except TooSlow as error:
            self._limit = max(1, len(records) // 2)
            self._slow(f"{error}, to {len(records):,} records")
            return self._failed(str(error))
        except OSError as error:
            asked_s = min(error.retry_after_s, RETRY_AFTER_MOST_S) if isinstance(error, Busy) else 0.0
            self._asked_until_s = time.monotonic() + asked_s
            return self._failed(str(error), asked_s)
        # A far side may not acknowledge what it was not sent.
        through = min(through, last)
        if through < first:
            return self._failed(f"far side acknowledged {through}, sent {first} to {last}")
        self._source.acknowledge(through)
        self._well()
        self._failures = 0
        self.last_error = ""
        if took_s < SLOW_S:  # else a larger batch might not be answered in time
            self._limit = min(self._batch_records, self._limit * 2)
            if took_s < SLOW_S / 2:
                self._slow("")
        else:
            self._slow(f"{took_s:.0f} s to store {count(len(records), 'record')}")
        return True

    def _slow(self, how: str) -> None:
        """Report it when it begins and when it ends."""
        if bool(how) is not bool(self.slow):
            self.slow = how
            self._report_slow(how)

    def _refused(self, records: list[Record], reason: str) -> bool:
        self.last_error = reason
        if len(records) == 1:
            self._source.dead_letter(reason)
        else:
            self._limit = max(1, len(records) // 2)
        return True

    def _not_welcome(self, reason: str) -> bool:
        if self.trouble != reason:
            self.trouble = reason
            self._report_trouble(reason)
        return self._failed(reason, self._backoff_most_s)

    def _failed(self, reason: str, at_least_s: float = 0.0) -> bool:
        self._failures += 1
        self.last_error = reason
        # What the far side asks for is the least; the drawn part keeps a fleet apart there, too.
        own_s = self.backoff_s(self._failures)
        self.pause_s = max(own_s, at_least_s + 0.1 * own_s if at_least_s else 0.0)
        return False

    def _well(self) -> None:
        if self.trouble:
            self.trouble = ""
            self._report_trouble("")
