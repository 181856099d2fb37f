"""A controller that forwards for many devices: their records share requests, and a disk holds nothing up."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from roambench.contract.records import Reading, RecordKind
from roambench.runs.influx.forward import InfluxForwarder
from roambench.runs.record_store import RecordStore
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.record_context import RecordContext
from scripted_influx import Scripted, serving

pytestmark = pytest.mark.asyncio
RUN = RecordContext("", "", 0, "", "r1", "lab", "mohawk")
DEVICES = [f"pi-{number:02}" for number in range(40)]


def reading(seq: int) -> tuple[int, int, bytes]:
    return seq, int(RecordKind.READING), Reading(seq * 10**9, 5.0, 0.5, 2.5).to_bytes()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    """Forty devices with a record context and two readings each."""
    store = RecordStore(tmp_path / "records.sqlite")
    context = RecordContext("b" * 32, "0/1.0", 1_700_000_000 * 10**9, "smartpower2")
    for device in DEVICES:
        event = (1, int(RecordKind.EVENT), context.to_event(10**9).to_bytes())
        store.insert(device, "aa", [event, reading(2), reading(3)])
    yield store
    store.close()


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving("127.0.0.1") as server:
        yield server


def forwarder(store: RecordStore, server: Scripted) -> InfluxForwarder:
    settings = InfluxSettings(server.url, "bucket", gzip=False)
    return InfluxForwarder(store, RUN, settings, print, print, print)


async def test_spools_that_wait_share_a_request(store: RecordStore, server: Scripted) -> None:
    server.answer(204)
    forward = forwarder(store, server)
    assert await forward.flush(20.0)
    assert (forward.depth, forward.dead) == (0, 0)
    await forward.aclose()
    lines = [line for _, _, body in server.requests for line in body.decode().splitlines()]
    assert len(lines) == len(set(lines)) == 120
    assert len(server.requests) <= 2  # not one for each of forty spools


async def test_a_line_that_is_refused_costs_its_own_record(store: RecordStore, server: Scripted) -> None:
    def verdict(body: bytes) -> tuple[int, dict[str, str], bytes]:
        bad = b"device=pi-07" in body and b"seq=3i" in body
        return (400, {}, b"unable to parse") if bad else (204, {}, b"")

    server.decides = verdict
    forward = forwarder(store, server)
    assert await forward.flush(20.0)
    assert (forward.depth, forward.dead) == (0, 1)
    await forward.aclose()


async def test_a_writer_that_waits_for_the_disk_does_not_stop_the_loop(
    store: RecordStore, server: Scripted
) -> None:
    server.answer(204)
    forward = forwarder(store, server)
    assert forward.depth == 120
    held, free = threading.Event(), threading.Event()

    def insert() -> None:
        with store.together():
            store.insert("pi-00", "aa", [reading(4)])
            held.set()
            assert free.wait(60)

    inserting = asyncio.create_task(asyncio.to_thread(insert))
    assert await asyncio.to_thread(held.wait, 60)
    assert await forward.flush(20.0)  # which would wait for ever for what only this loop frees
    assert forward.depth == 0
    free.set()
    await inserting
    assert forward.depth == 1
    assert await forward.flush(20.0)
    await forward.aclose()
