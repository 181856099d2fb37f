"""A meter is heard in a thread of its own: no stamp waits for the loop, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from odd_meters import odd_meters
from roambench.agent.readings.meter_reader import keep_reading, meter_items
from roambench.agent.settings import MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.meters.catalogue import open_meter
from roambench.meters.protocol import Meter
from roambench.meters.stream_meter import StreamMeter

LINE = b"5.161,0.662,3.416,0.000\r\n"


@dataclass(frozen=True)
class Line:
    """A serial line: what is printed on it can be read from `path`."""

    ours: int
    theirs: int

    @property
    def path(self) -> str:
        return os.ttyname(self.theirs)

    def print(self) -> None:
        os.write(self.ours, LINE)


@pytest.fixture
def line() -> Iterator[Line]:
    ours, theirs = os.openpty()
    yield Line(ours, theirs)
    for thread in listeners():
        thread.join(10)
    os.close(ours)
    os.close(theirs)


def meter_on(path: str) -> Meter:
    return open_meter("smartpower2", path, DeviceClock(), reopen_allowed=True)


def listeners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "meter"]


@pytest.mark.asyncio
async def test_a_line_is_read_and_stamped_while_the_loop_waits_for_something_else(line: Line) -> None:
    meter = meter_on(line.path)
    assert isinstance(meter, StreamMeter)
    async with asyncio.timeout(20), contextlib.aclosing(meter_items(meter)) as items:
        described = await anext(items)
        assert isinstance(described, AgentEvent)
        line.print()
        deadline_s = time.monotonic() + 60
        while meter.counts.accepted == 0 and time.monotonic() < deadline_s:
            time.sleep(0.01)  # noqa: ASYNC251  (the loop stands still)
        assert meter.counts.accepted == 1
        read_by_ns = time.monotonic_ns()
        time.sleep(0.1)  # noqa: ASYNC251
        reading = next(item for item in [await anext(items), await anext(items)] if isinstance(item, Reading))
        assert reading.watts == 3.416
        assert reading.monotonic_ns < read_by_ns


@pytest.mark.asyncio
async def test_closing_ends_the_thread_and_frees_the_port(line: Line) -> None:
    for _ in range(2):
        async with contextlib.aclosing(meter_items(meter_on(line.path))) as items:
            await anext(items)
            assert len(listeners()) == 1
        for thread in listeners():
            thread.join(10)
        assert listeners() == []


@pytest.mark.asyncio
async def test_who_waits_for_a_line_can_be_cancelled(line: Line) -> None:
    async def follow() -> None:
        async with contextlib.aclosing(meter_items(meter_on(line.path))) as items:
            async for _ in items:
                pass

    following = asyncio.create_task(follow())
    while not listeners():
        await asyncio.sleep(0.01)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    for thread in listeners():
        thread.join(10)
    assert listeners() == []


@pytest.mark.asyncio
async def test_a_port_that_cannot_be_opened_is_told_to_who_listens(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="cannot be opened"):
        async for _ in meter_items(meter_on(str(tmp_path / "no-port"))):
            pass
    assert [thread for thread in listeners() if thread.join(10) or thread.is_alive()] == []


@pytest.fixture(scope="module")
def odd_drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with odd_meters(tmp_path_factory.mktemp("package")):
        yield


@pytest.mark.lengthy
@pytest.mark.asyncio
@pytest.mark.usefixtures("odd_drivers")
async def test_a_line_at_which_a_strangers_parser_fails_is_an_alarm_and_the_next_is_read(line: Line) -> None:
    items = []
    async with (
        asyncio.timeout(30),
        contextlib.aclosing(meter_items(open_meter("words", line.path, DeviceClock()))) as said,
    ):
        async for item in said:
            items.append(item)
            if len(items) == 1:  # described: it is open
                os.write(line.ours, b"one\n")
                await asyncio.sleep(0.1)
                for word in (b"three\n", b"three\n", b"two\n"):
                    os.write(line.ours, word)
                    await asyncio.sleep(0.1)
            if isinstance(item, Reading) and item.watts == 2.0:
                break
    (alarm,) = [item for item in items if isinstance(item, AgentEvent) and item.kind == EventKind.METER_ALARM]
    assert alarm.detail.startswith("its driver fails: KeyError: b'three' (")
    assert [item.watts for item in items if isinstance(item, Reading)] == [1.0, 2.0]


class Kept:
    """Where readings are kept, and what is heard: nothing is, here."""

    def append(self, kind: RecordKind, payload: bytes) -> int:
        return 0

    def take(self, item: object) -> None: ...

    def spooled(self, reading: Reading) -> None: ...


@pytest.mark.lengthy
@pytest.mark.asyncio
@pytest.mark.usefixtures("odd_drivers")
async def test_a_driver_that_cannot_open_leaves_its_meter_unavailable_with_one_sentence(
    tmp_path: Path,
) -> None:
    told: asyncio.Queue[AgentEvent] = asyncio.Queue()
    kept, settings = Kept(), MeterSettings("broken", "/dev/x")
    reading = asyncio.create_task(
        keep_reading(settings, DeviceClock(), kept, tmp_path, kept, told.put_nowait)
    )
    event = await asyncio.wait_for(told.get(), 30)
    assert event.kind == EventKind.METER_UNAVAILABLE
    assert event.detail.startswith("meter /dev/x: its driver fails: RuntimeError: no device of this maker (")
    assert not reading.done()  # it looks again
    reading.cancel()
