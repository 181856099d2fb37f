"""Any meter that talks by itself: a source of bytes, a parser of frames, and watching over both."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError, error_text
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, ReadingFlag
from roambench.contract.stillness import LOOK_S
from roambench.meters.frames.counts import LineCounts
from roambench.meters.frames.parser import FrameParser
from roambench.meters.latch import SURVIVED_AFTER_S, PortLatch
from roambench.meters.protocol import STATE_EVENTS, MeterItem, MeterState
from roambench.meters.sources.source import MeterSource, cause
from roambench.meters.traits import MeterDescription

#: Device time without a line after which a meter is called stale (rule R6).
STALE_AFTER_S: Final = 3.0
#: Device time without a line after which a connection is given up: its other end may be long gone.
REDIAL_AFTER_S: Final = 10.0
#: Rejected lines are reported at most this often (device time).
COUNTS_EVERY_S: Final = 60.0
REOPEN_FIRST_S: Final = 0.25
REOPEN_MOST_S: Final = 10.0


class StreamMeter:
    """A `Meter`: readings and events of the meter behind `source`.

    Opening fails loudly the first time; a line that is lost later is an event (METER_LOST) and is opened
    again with backoff, unless the `latch` forbids it. After every opening comes METER_DESCRIBED,
    and again when its period is known by the meter's own clock.
    `redials`: the line is a connection, so that a long silence may mean that it is dead.
    """

    def __init__(
        self,
        source: MeterSource,
        frames: FrameParser,
        describe: Callable[[float], MeterDescription],
        clock: DeviceClock | None = None,
        *,
        latch: PortLatch | None = None,
        redials: bool = False,
        stale_after_s: float = STALE_AFTER_S,
    ) -> None:
        self._source = source
        self._frames = frames
        self._describe = describe
        self._port = describe(0.0).port
        self._clock = clock or DeviceClock()
        self._latch = latch
        self._redials = redials
        self._stale_after_s = stale_after_s
        self._state = MeterState.CLOSED
        self._items: deque[MeterItem] = deque()
        self._arrived = asyncio.Event()
        self._opened = False
        self._closed = False
        self._last_line_ns = 0
        self._period_s = 0.0
        self._reported_rejected = 0
        self._reported_ns = 0
        self._failure = ""
        self._watchdog: asyncio.TimerHandle | None = None
        self._surviving: asyncio.TimerHandle | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._reopen_s = REOPEN_FIRST_S

    @property
    def state(self) -> MeterState:
        """Return how the meter is now."""
        return self._state

    @property
    def counts(self) -> LineCounts:
        """Lines accepted and rejected so far."""
        return self._frames.counts

    async def open(self) -> None:
        """Open the line; MeterError names it and the cause."""
        if self._opened:
            return
        try:
            await self._open()
        except (OSError, ValueError) as error:  # SerialException and TimeoutError are OSErrors
            raise MeterError(f"meter {self._port}: cannot be opened ({cause(error)})") from None
        except Exception as error:  # of a maker's library, or of another package's driver
            raise MeterError(f"meter {self._port}: its driver fails: {error_text(error)}") from error
        self._opened = True

    def __aiter__(self) -> StreamMeter:
        return self

    async def __anext__(self) -> MeterItem:
        if not self._opened and not self._closed:
            await self.open()
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._items.popleft()

    async def aclose(self) -> None:
        """Close the line and end the iteration (what arrived before is still handed out)."""
        self._closed = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._reopening is not None:
            self._reopening.cancel()
            await asyncio.gather(self._reopening, return_exceptions=True)
        await self._source.close()
        self._survived()
        self._state = MeterState.CLOSED
        self._arrived.set()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._latch is not None:
            self._latch.take()
            self._surviving = loop.call_later(SURVIVED_AFTER_S, self._survived)
        try:
            await self._source.open(self._take, self._lose)
        except Exception:
            self._survived()
            raise
        now_ns = self._clock.now_ns()
        self._last_line_ns = now_ns
        self._report_described(now_ns)
        self._watch(self._stale_after_s)

    def _take(self, data: bytes) -> None:
        if self._closed:
            return
        now_ns = self._clock.now_ns()
        frames = self._frames
        try:
            readings = frames.feed(data, now_ns)
        except Exception as error:  # of another package's parser, which may read the next line
            if (failure := f"its driver fails: {error_text(error)}") != self._failure:
                self._failure = failure
                self._report(EventKind.METER_ALARM, now_ns, failure)
            return
        if frames.events:
            for kind, detail in frames.events:
                self._report(kind, now_ns, detail)
                if kind == EventKind.METER_RESTARTED:
                    self._survived(restarted=True)
            frames.events.clear()
        if frames.counts.rejected != self._reported_rejected:
            self._report_counts(now_ns)
        if frames.period_s != self._period_s:
            self._period_s = frames.period_s
            self._report_described(now_ns)
        for reading in readings:
            off = bool(reading.flags & ReadingFlag.OFF)
            self._become(MeterState.OFF if off else MeterState.OK, reading.monotonic_ns)
            self._items.append(reading)
        if readings:
            self._last_line_ns = now_ns
            self._reopen_s = REOPEN_FIRST_S
            self._arrived.set()
        elif frames.off:
            self._become(MeterState.OFF, now_ns)

    def _watch(self, device_s: float) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        wait_s = self._clock.host_seconds(device_s) + 1e-3
        loop = asyncio.get_running_loop()
        due_s = loop.time() + wait_s
        self._watchdog = loop.call_at(due_s, self._check_silence, due_s)

    def _check_silence(self, due_s: float) -> None:
        if asyncio.get_running_loop().time() - due_s > LOOK_S:
            # This process stood still: the lines that came meanwhile are read first.
            self._watch(self._stale_after_s)
            return
        now_ns = self._clock.now_ns()
        silent_s = (now_ns - self._last_line_ns) * 1e-9
        if silent_s < self._stale_after_s:
            self._watch(self._stale_after_s - silent_s)
            return
        if self._frames.off and self._state is MeterState.OFF:
            self._watch(self._stale_after_s)  # it has said that it is off, and has nothing more to say
        elif self._redials and silent_s >= REDIAL_AFTER_S:
            self._lose(f"no line for {silent_s:.1f} s")
        else:
            self._become(MeterState.STALE, now_ns, f"no line for {silent_s:.1f} s")
            self._watch(self._stale_after_s)

    def _lose(self, why: str) -> None:
        if self._closed:
            return
        now_ns = self._clock.now_ns()
        for timer in (self._watchdog, self._surviving):
            if timer is not None:
                timer.cancel()
        self._surviving = None  # gone so soon: that proves nothing
        self._become(MeterState.LOST, now_ns, why)
        self._reopening = asyncio.create_task(self._reopen(), name=f"reopening {self._port}")

    async def _reopen(self) -> None:
        await self._source.close()
        while True:
            await asyncio.sleep(self._reopen_s)
            self._reopen_s = min(REOPEN_MOST_S, 2.0 * self._reopen_s)
            try:
                await self._open()
            except Exception:
                continue
            return

    def _survived(self, *, restarted: bool = False) -> None:
        """The opening that is on trial has done no harm, or has `restarted` the meter."""
        if self._latch is not None and self._surviving is not None:
            self._surviving.cancel()
            self._surviving = None
            if restarted:
                self._latch.restarted()
            else:
                self._latch.survived()

    def _report_counts(self, now_ns: int) -> None:
        """Keep a note of the rejected lines where the readings go, seldom."""
        if self._reported_ns and now_ns - self._reported_ns < COUNTS_EVERY_S * 1e9:
            return
        self._reported_ns, self._reported_rejected = now_ns, self._frames.counts.rejected
        self._report(EventKind.METER_LINE_COUNTS, now_ns, self._frames.counts.text())

    def _report_described(self, ns: int) -> None:
        described = replace(self._describe(self._period_s), unit=getattr(self._source, "unit", ""))
        if (own := getattr(self._source, "traits", None)) is not None:
            described = replace(
                described,
                own=own,
                nominal_s=own.nominal_s,
                look_cpu_s=getattr(self._source, "look_cpu_s", 0.0),
                settings=getattr(self._source, "settings", ""),
            )
        self._items.append(described.to_event(ns))
        self._arrived.set()

    def _become(self, state: MeterState, ns: int, detail: str = "") -> None:
        if state is not self._state:
            self._state = state
            self._report(STATE_EVENTS[state], ns, detail)

    def _report(self, kind: EventKind, ns: int, detail: str) -> None:
        self._items.append(AgentEvent(kind, ns, detail or self._port))
        self._arrived.set()
