"""A meter that was recorded: plays a transcript at the pace of device time, through its driver's parser."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

from roambench.contract.device_time import DeviceClock
from roambench.contract.records import AgentEvent, ReadingFlag
from roambench.meters.frames.counts import LineCounts
from roambench.meters.frames.parser import FrameParser
from roambench.meters.protocol import STATE_EVENTS, MeterItem, MeterState
from roambench.meters.traits import MeterDescription
from roambench.meters.transcript import TimedBytes, read_transcript, recorded_meter

DEFAULT_DRIVER = "smartpower2"


def replay(port: str, clock: DeviceClock, *, reopen_allowed: bool, latch: Path | None) -> ReplayMeter:
    """A recorded transcript of any meter, at the pace it was recorded.

    The catalogue's factory: `port` is the transcript's path, then options: `as=DRIVER` and that driver's own,
    as in `mine.txt?as=smartpower3&channel=1`. Without `as` the transcript's comment `# meter:` counts,
    without that it is a Smart Power 2 on serial. Nothing is reset, so nothing is latched.
    """
    return ReplayMeter(port, clock)


class ReplayMeter:
    """A `Meter`. After the transcript's end it is a meter gone silent (METER_STALE), until `aclose`."""

    def __init__(self, port: str, clock: DeviceClock | None = None) -> None:
        path, _, options = port.partition("?")
        self._port = port
        self._path = Path(path)
        self._options = options
        self._clock = clock or DeviceClock()
        self._frames: FrameParser | None = None
        self._describe: Callable[[float], MeterDescription] | None = None
        self._period_s = 0.0
        self._chunks: deque[TimedBytes] = deque()
        self._items: deque[MeterItem] = deque()
        self._start_ns = 0
        self._state = MeterState.CLOSED
        self._closed = asyncio.Event()

    @property
    def state(self) -> MeterState:
        """OK while the transcript plays."""
        return self._state

    @property
    def counts(self) -> LineCounts:
        """Lines accepted and rejected so far."""
        return self._frames.counts if self._frames is not None else LineCounts()

    async def open(self) -> None:
        """Read the transcript; its second 0 is now.

        MeterError names file and line of a mistake, ConfigError a wrong driver or option.
        """
        self._chunks = deque(read_transcript(self._path))
        self._frames, self._describe = self._parser()
        self._start_ns = self._clock.now_ns()
        self._items.append(self._describe(0.0).to_event(self._start_ns))
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
                    self._take(data, ns)
            elif self._state in (MeterState.OK, MeterState.OFF):
                self._become(MeterState.STALE, self._clock.now_ns())
            else:
                await self._closed.wait()
        if not self._items:
            raise StopAsyncIteration
        return self._items.popleft()

    async def aclose(self) -> None:
        """Stop the replay and end the iteration."""
        self._state = MeterState.CLOSED
        self._closed.set()

    def _parser(self) -> tuple[FrameParser, Callable[[float], MeterDescription]]:
        """The parser and the description of the driver that the bytes are of."""
        from roambench.meters.catalogue import driver_row

        # All "as=" but the first are the driver's to refuse.
        given = [item for item in self._options.split("&") if item]
        named = next((item for item in given if item.startswith("as=")), None)
        if named is not None:
            given.remove(named)
            name = named.removeprefix("as=")
        else:
            name, _, recorded = recorded_meter(self._path).partition("?")
            given = given or [item for item in recorded.split("&") if item]
        row = driver_row(name or DEFAULT_DRIVER)
        port = row.port("?".join(["0.0.0.0", "&".join(given)] if given else ["0.0.0.0"]))

        def describe(period_s: float) -> MeterDescription:
            description = row.description(port, period_s)
            return MeterDescription(
                driver=f"replay:{row.name}",
                port=self._port,
                traits=description.traits,
                nominal_s=description.nominal_s,
                serial=description.serial,
                remote_reader=description.remote_reader,
            )

        return row.frames(port), describe

    def _take(self, data: bytes, ns: int) -> None:
        assert self._frames is not None
        assert self._describe is not None
        frames = self._frames
        readings = frames.feed(data, ns)
        self._items.extend(AgentEvent(kind, ns, detail) for kind, detail in frames.events)
        frames.events.clear()
        for reading in readings:
            off = bool(reading.flags & ReadingFlag.OFF)
            self._become(MeterState.OFF if off else MeterState.OK, reading.monotonic_ns)
            self._items.append(reading)
        if frames.off and not readings:
            self._become(MeterState.OFF, ns)
        if frames.period_s != self._period_s:
            self._period_s = frames.period_s
            self._items.append(self._describe(self._period_s).to_event(ns))

    async def _wait_until(self, device_ns: int) -> bool:
        """Sleep until then; True if the meter was closed before."""
        wait_s = self._clock.host_seconds((device_ns - self._clock.now_ns()) * 1e-9)
        try:
            await asyncio.wait_for(self._closed.wait(), max(0.0, wait_s))
        except TimeoutError:
            return False
        return True

    def _become(self, state: MeterState, ns: int) -> None:
        if state is not self._state:
            self._state = state
            self._items.append(AgentEvent(STATE_EVENTS[state], ns, self._port))
