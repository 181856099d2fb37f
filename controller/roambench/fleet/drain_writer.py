"""Writes the records that devices drain: in a thread, and those that wait at the same time together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

#: (device name, spool uuid, [(seq, kind, payload)]) -> highest seq that is durable. A RecordConflict is the
#: records' own fault.
RecordSink = Callable[[str, str, Sequence[tuple[int, int, bytes]]], int]

_MOST_TOGETHER: Final = 256  # drains that wait for each other's disk
_BETWEEN_S: Final = 0.02  # host seconds from one sync to the next: 1,000 devices would ask for 200 a second


@dataclass(frozen=True, slots=True, eq=False)
class _Drain:
    device: str
    spool_uuid: str
    records: Sequence[tuple[int, int, bytes]]
    stored: asyncio.Future[int]


class DrainWriter:
    """Calls `sink` for every drain, in a thread that waits for the disk: the event loop paces
    and counts what is measured. What is stored inside one `together()` is durable when that ends, by one
    sync of the disk; the next begins `between_s` host seconds after it at the earliest."""

    def __init__(
        self,
        sink: RecordSink,
        together: Callable[[], AbstractContextManager[object]],
        between_s: float = _BETWEEN_S,
    ) -> None:
        self._sink, self._together, self._between_s = sink, together, between_s
        self._next_s = 0.0  # by the event loop's clock
        self._thread = ThreadPoolExecutor(1, "records")
        self._waiting: list[_Drain] = []
        self._writing: asyncio.Task[None] | None = None

    async def store(self, device: str, spool_uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        """Store records of `device`; returns the highest number that is durable. Raises what `sink` does."""
        loop = asyncio.get_running_loop()
        drain = _Drain(device, spool_uuid, records, loop.create_future())
        self._waiting.append(drain)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="records")
        return await drain.stored

    async def close(self) -> None:
        """Wait until all is stored that was given."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
        await asyncio.to_thread(self._thread.shutdown)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(max(0.0, self._next_s - loop.time()))
            self._next_s = loop.time() + self._between_s
            some, self._waiting = self._waiting[:_MOST_TOGETHER], self._waiting[_MOST_TOGETHER:]
            outcomes = await loop.run_in_executor(self._thread, self._store_together, some)
            for drain, outcome in zip(some, outcomes, strict=True):
                if drain.stored.done():  # the call is over
                    continue
                if isinstance(outcome, int):
                    drain.stored.set_result(outcome)
                else:
                    drain.stored.set_exception(outcome)
        self._writing = None

    def _store_together(self, drains: Sequence[_Drain]) -> list[int | Exception]:
        try:
            with self._together():
                return [self._store(drain) for drain in drains]
        except Exception as error:  # none of them is durable
            return [error] * len(drains)

    def _store(self, drain: _Drain) -> int | Exception:
        try:
            return self._sink(drain.device, drain.spool_uuid, drain.records)
        except Exception as error:  # of this drain alone
            return error
