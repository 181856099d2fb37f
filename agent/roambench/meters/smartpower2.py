"""Driver of the ODROID Smart Power 2 over its USB serial port.

The port is opened with pyserial's defaults and its modem lines are never touched again: at open both DTR and
RTS rise in one go, at close both fall, and the pair of transistors behind them only resets the ESP8266 when
they differ. `dtr=False`, `rts=False` or `dsrdtr=True` make them differ, and the board that the meter feeds
loses power.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from pathlib import Path
from typing import Final

import serial

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.contract.records import AgentEvent, ReadingFlag
from roambench.meters.frames.smartpower2 import LineCounts, Smartpower2Frames
from roambench.meters.latch import SURVIVED_AFTER_S, PortLatch
from roambench.meters.protocol import MeterItem, MeterState

#: Device time without a line after which the meter is called stale (its period is 1 s).
STALE_AFTER_S: Final = 3.0
REOPEN_FIRST_S: Final = 0.25
REOPEN_MOST_S: Final = 10.0


def smartpower2(port: str, clock: DeviceClock, *, reopen_allowed: bool, latch: Path | None) -> SerialMeter:
    """ODROID Smart Power 2 over its USB serial port, one line a second (firmware 1.4 or later).

    The catalogue's factory: a real meter is latched, an emulated one may be reopened at will.
    """
    if reopen_allowed:
        return SerialMeter(port, clock=clock)
    guard = PortLatch.default(port) if latch is None else PortLatch(latch, port)
    return SerialMeter(port, clock=clock, latch=guard)


class SerialMeter:
    """A `Meter`: readings and events of the meter at `port`, by the running loop's file events.

    Opening fails loudly the first time; a port that vanishes later is an event ("meter lost") and is tried
    again with backoff, unless there is a `latch`: then it stays lost.
    """

    def __init__(
        self,
        port: str,
        baud: int = 115200,
        clock: DeviceClock | None = None,
        *,
        frames: Smartpower2Frames | None = None,
        latch: PortLatch | None = None,
        stale_after_s: float = STALE_AFTER_S,
    ) -> None:
        self._port = port
        self._baud = baud
        self._clock = clock or DeviceClock()
        self._frames = frames or Smartpower2Frames()
        self._latch = latch
        self._stale_after_s = stale_after_s
        self._serial: serial.Serial | None = None
        self._state = MeterState.CLOSED
        self._items: deque[MeterItem] = deque()
        self._news = asyncio.Event()
        self._closed = False
        self._last_line_ns = 0
        self._reopen_s = REOPEN_FIRST_S
        self._watchdog: asyncio.TimerHandle | None = None
        self._reopening: asyncio.TimerHandle | None = None
        self._surviving: asyncio.TimerHandle | None = None

    @property
    def state(self) -> MeterState:
        return self._state

    @property
    def counts(self) -> LineCounts:
        """Lines accepted and rejected so far."""
        return self._frames.counts

    async def open(self) -> None:
        """Open the port; MeterError names it and the cause."""
        if self._serial is not None:
            return
        if self._latch is not None:
            self._latch.take()
        try:
            self._open()
        except (OSError, ValueError) as error:  # SerialException is an OSError
            raise MeterError(f"meter {self._port}: cannot be opened ({_cause(error)})") from None
        if self._latch is not None:
            self._surviving = asyncio.get_running_loop().call_later(SURVIVED_AFTER_S, self._latch.survived)

    def __aiter__(self) -> SerialMeter:
        return self

    async def __anext__(self) -> MeterItem:
        if self._serial is None and self._state is MeterState.CLOSED and not self._closed:
            await self.open()
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._items.popleft()

    async def aclose(self) -> None:
        """Close the port and end the iteration (what arrived before is still handed out)."""
        survived = self._latch is not None and self._surviving is not None and self._serial is not None
        for timer in (self._watchdog, self._reopening, self._surviving):
            if timer is not None:
                timer.cancel()
        self._release()
        if survived and self._latch is not None:
            self._latch.survived()
        self._closed = True
        self._state = MeterState.CLOSED
        self._news.set()

    def _open(self) -> None:
        # exclusive: of two readers of one port each would get half of the bytes.
        self._serial = serial.Serial(self._port, self._baud, timeout=0, exclusive=True)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._serial.fileno(), self._readable, self._serial.fileno())
        self._last_line_ns = self._clock.now_ns()
        self._watch(self._stale_after_s)

    def _readable(self, fd: int) -> None:
        now_ns = self._clock.now_ns()
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(now_ns, error.strerror or str(error))
            return
        if not data:
            self._lose(now_ns, "the port has gone")
            return
        boots = self._frames.counts.boots
        readings = self._frames.feed(data, now_ns)
        if self._frames.counts.boots > boots:
            self._say("meter restarted", now_ns, f"firmware {self._frames.firmware}")
        for reading in readings:
            off = bool(reading.flags & ReadingFlag.OFF)
            self._become(MeterState.OFF if off else MeterState.OK, reading.monotonic_ns)
            self._items.append(reading)
        if readings:
            self._last_line_ns = now_ns
            self._reopen_s = REOPEN_FIRST_S
            self._news.set()

    def _watch(self, device_s: float) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        loop = asyncio.get_running_loop()
        self._watchdog = loop.call_later(self._clock.host_seconds(device_s) + 1e-3, self._check_silence)

    def _check_silence(self) -> None:
        now_ns = self._clock.now_ns()
        silent_s = (now_ns - self._last_line_ns) * 1e-9
        if silent_s >= self._stale_after_s:
            if self._state is not MeterState.LOST:
                self._become(MeterState.STALE, now_ns, f"no line for {silent_s:.1f} s")
            self._watch(self._stale_after_s)
        else:
            self._watch(self._stale_after_s - silent_s)

    def _lose(self, now_ns: int, cause: str) -> None:
        self._release()
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._latch is not None:
            cause += "; not opened again, see the latch"
        self._become(MeterState.LOST, now_ns, cause)
        if self._latch is None:
            self._reopen_later()

    def _reopen_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._reopening = loop.call_later(self._reopen_s, self._reopen)
        self._reopen_s = min(REOPEN_MOST_S, 2.0 * self._reopen_s)

    def _reopen(self) -> None:
        try:
            self._open()
        except (OSError, ValueError):
            self._reopen_later()

    def _release(self) -> None:
        if self._serial is not None:
            asyncio.get_running_loop().remove_reader(self._serial.fileno())
            self._serial.close()
            self._serial = None

    def _become(self, state: MeterState, ns: int, detail: str = "") -> None:
        if state is not self._state:
            self._state = state
            self._say(f"meter {state.value}", ns, detail)

    def _say(self, kind: str, ns: int, detail: str) -> None:
        self._items.append(AgentEvent(kind, ns, detail or self._port))
        self._news.set()


def _cause(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error)
