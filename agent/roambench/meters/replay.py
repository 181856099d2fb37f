"""A meter that was recorded: plays a transcript at the pace of device time, through the real parser."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

from roambench.contract.device_time import DeviceClock
from roambench.contract.records import AgentEvent
from roambench.meters.frames.smartpower2 import Smartpower2Frames
from roambench.meters.protocol import MeterItem, MeterState
from roambench.meters.transcript import TimedBytes, read_transcript


def replay(port: str, clock: DeviceClock, *, reopen_allowed: bool, latch: Path | None) -> ReplayMeter:
    """A recorded transcript of a meter, at the pace it was recorded.

    The catalogue's factory: `port` is the transcript's path; nothing is reset, so nothing is latched.
    """
    return ReplayMeter(Path(port), clock)


class ReplayMeter:
    """A `Meter`. After the transcript's end it is a meter gone silent ("meter stale"), until `aclose`."""

    def __init__(self, path: Path, clock: DeviceClock | None = None) -> None:
        self._path = path
        self._clock = clock or DeviceClock()
        self._frames = Smartpower2Frames()
        self._chunks: deque[TimedBytes] = deque()
        self._items: deque[MeterItem] = deque()
        self._start_ns = 0
        self._state = MeterState.CLOSED
        self._closed = asyncio.Event()

    @property
    def state(self) -> MeterState:
        return self._state

    async def open(self) -> None:
        """Read the transcript; MeterError names file and line of a mistake. Its second 0 is now."""
        self._chunks = deque(read_transcript(self._path))
        self._start_ns = self._clock.now_ns()
        self._become(MeterState.OK, self._start_ns)

    def __aiter__(self) -> ReplayMeter:
        return self

    async def __anext__(self) -> MeterItem:
        if self._state is MeterState.CLOSED and not self._closed.is_set():
            await self.open()
        while not self._items and not self._closed.is_set():
            if self._chunks:
                at_s, data = self._chunks.popleft()
                ns = self._start_ns + round(at_s * 1e9)
                if not await self._wait_until(ns):
                    self._items.extend(self._frames.feed(data, ns))
            elif self._state is MeterState.OK:
                self._become(MeterState.STALE, self._clock.now_ns())
            else:
                await self._closed.wait()
        if not self._items:
            raise StopAsyncIteration
        return self._items.popleft()

    async def aclose(self) -> None:
        self._state = MeterState.CLOSED
        self._closed.set()

    async def _wait_until(self, device_ns: int) -> bool:
        """Sleep until then; True if the meter was closed before."""
        wait_s = self._clock.host_seconds((device_ns - self._clock.now_ns()) * 1e-9)
        try:
            await asyncio.wait_for(self._closed.wait(), max(0.0, wait_s))
        except TimeoutError:
            return False
        return True

    def _become(self, state: MeterState, ns: int) -> None:
        self._state = state
        self._items.append(AgentEvent(f"meter {state.value}", ns, str(self._path)))
