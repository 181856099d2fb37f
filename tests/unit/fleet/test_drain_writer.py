"""Drains that wait for the disk at the same time are written together; one that fails costs itself alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from roambench.contract.errors import RecordConflict, RunError
from roambench.contract.records import Reading, RecordKind
from roambench.fleet.drain_writer import DrainWriter
from roambench.runs.record_store import RecordStore

pytestmark = pytest.mark.asyncio
READING = Reading(7, 5.0, 0.5, 2.5).to_bytes()
OTHER = Reading(7, 5.0, 0.5, 9.9).to_bytes()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    store = RecordStore(tmp_path / "records.sqlite")
    yield store
    store.close()


class Disk:
    """A sink that waits with its first drain until the test lets it go on."""

    def __init__(self, store: RecordStore) -> None:
        self.store, self.reached, self.free = store, threading.Event(), threading.Event()

    def insert(self, device: str, uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        self.reached.set()
        assert self.free.wait(30)
        return self.store.insert(device, uuid, records)


async def many(store: RecordStore, bad: str = "") -> list[int | BaseException]:
    """Outcomes of twenty drains that wait while another one is written; `bad` is the spool of the fifth."""
    disk = Disk(store)
    writer = DrainWriter(disk.insert, store.together)
    first = asyncio.create_task(writer.store("pi-00", "a", [(1, RecordKind.READING, READING)]))
    assert await asyncio.to_thread(disk.reached.wait, 30)
    drains = [
        writer.store(f"pi-{n:02}", bad if n == 5 and bad else "a", [(n, RecordKind.READING, READING)])
        for n in range(1, 21)
    ]
    outcomes = asyncio.gather(*drains, return_exceptions=True)
    await asyncio.sleep(0)
    disk.free.set()
    assert await first == 1
    found = await outcomes
    await writer.close()
    return found


async def test_what_waits_together_is_one_commit(store: RecordStore) -> None:
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)
    assert await many(store) == list(range(1, 21))
    assert statements.count("COMMIT") == 2
    assert len(store.devices()) == 21


async def test_what_comes_soon_after_a_commit_waits_for_the_next(store: RecordStore) -> None:
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)
    writer = DrainWriter(store.insert, store.together, between_s=1.0)
    drains = []
    for n in range(20):
        drains.append(
            asyncio.create_task(writer.store(f"pi-{n:02}", "a", [(n, RecordKind.READING, READING)]))
        )
        await asyncio.sleep(0.005)
    assert await asyncio.gather(*drains) == list(range(20))
    await writer.close()
    assert statements.count("COMMIT") < 8  # without the wait: some 20; with it: 2


async def test_a_drain_that_fails_costs_itself_alone(store: RecordStore) -> None:
    found = await many(store, bad="\ud800")  # which no database can keep
    assert isinstance(found[4], Exception)
    assert [one for one in found if isinstance(one, int)] == [n for n in range(1, 21) if n != 5]
    assert len(store.devices()) == 20


async def test_a_conflict_is_told_to_its_own_device(store: RecordStore) -> None:
    store.insert("pi-05", "a", [(5, RecordKind.READING, OTHER)])
    found = await many(store)
    assert isinstance(found[4], RecordConflict)
    assert sum(isinstance(one, int) for one in found) == 19


async def test_a_full_disk_is_told_to_all_that_waited(store: RecordStore) -> None:
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    writer = DrainWriter(store.insert, store.together)
    rows = [(seq, RecordKind.READING, READING) for seq in range(2000)]
    found = await asyncio.gather(*(writer.store("pi-00", u, rows) for u in "ab"), return_exceptions=True)
    assert [type(one) for one in found] == [RunError, RunError]
    await writer.close()
    assert store.devices() == []


async def test_a_caller_that_has_gone_holds_nothing_up(store: RecordStore) -> None:
    disk = Disk(store)
    writer = DrainWriter(disk.insert, store.together)
    gone = asyncio.create_task(writer.store("pi-00", "a", [(1, RecordKind.READING, READING)]))
    assert await asyncio.to_thread(disk.reached.wait, 30)
    gone.cancel()
    later = asyncio.create_task(writer.store("pi-01", "a", [(1, RecordKind.READING, READING)]))
    await asyncio.sleep(0)
    disk.free.set()
    assert await later == 1
    await writer.close()
    assert store.devices() == ["pi-00", "pi-01"]


async def test_nobody_sees_what_is_not_durable_yet(store: RecordStore) -> None:
    reader = RecordStore(store.path, read_only=True)
    with store.together():
        store.insert("pi-00", "a", [(1, RecordKind.READING, READING)])
        assert reader.devices() == []
    assert reader.devices() == ["pi-00"]
    reader.close()
