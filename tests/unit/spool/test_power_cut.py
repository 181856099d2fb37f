"""A power cut takes back what was appended last, also what was sent already; nothing that was sent is mixed
up with what comes after it.

The log of a spool after a cut is a shorter one: these tests cut real logs. In `tests/hosts/test_power_cut.py`
a real file system does.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.runs.record_store import RecordStore
from roambench.spool.line_protocol import LineEncoder
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import CONTROLLER, Spool

RUN = "run"


def context(boot: str) -> RecordContext:
    return RecordContext(boot, "0/1.0", 1_000_000 * int(boot[1:]), "smartpower2", RUN)


def reading(ns: int) -> bytes:
    return Reading(ns, 5.0, 0.5, 2.5).to_bytes()


class Board:
    """Appends, syncs and drains into a run's store as a test decides, until its power is cut."""

    def __init__(self, path: Path, store: RecordStore, boot: str) -> None:
        self.path, self.store = path, store
        self.spool = Spool(path)
        self.durable_bytes = self._log_bytes()
        self.stamp = int(boot[1:]) * 1_000_000
        self.spool.begin_context(context(boot), self.stamp)

    def read(self, count: int) -> list[int]:
        stamps = [self.stamp + i + 1 for i in range(count)]
        for ns in stamps:
            self.spool.append(RecordKind.READING, reading(ns))
        self.stamp += count
        return stamps

    def sync(self) -> None:
        self.spool.sync()
        self.durable_bytes = self._log_bytes()

    def drain(self) -> None:
        queue = self.spool.consumers[CONTROLLER]
        while records := queue.batch(7):
            name = self.spool.uuid_of(records[0][0])
            assert {self.spool.uuid_of(seq) for seq, _, _ in records} == {name}
            queue.acknowledge(self.store.insert("pi-01", name, records))

    def lose_power(self, to: Path) -> Path:
        """What a reboot finds: the log only as far as it was synced."""
        after = to / "spool.sqlite"
        to.mkdir()
        shutil.copy(self.path, after)
        log = Path(f"{self.path}-wal").read_bytes()
        Path(f"{after}-wal").write_bytes(log[: self.durable_bytes])
        self.spool.close()
        return after

    def _log_bytes(self) -> int:
        return Path(f"{self.path}-wal").stat().st_size


@pytest.fixture
def store(tmp_path: Path):
    made = RecordStore(tmp_path / "records.sqlite")
    yield made
    made.close()


@pytest.mark.parametrize("unsynced", [0, 1, 13, 200])
def test_every_reading_of_both_boots_is_stored_although_the_cut_took_back_what_was_sent(
    tmp_path, store, unsynced
):
    board = Board(tmp_path / "spool.sqlite", store, "b1")
    wanted = board.read(30)
    board.sync()
    wanted += board.read(unsynced)
    board.drain()
    again = Board(board.lose_power(tmp_path / "cut"), store, "b2")
    wanted += again.read(250)
    again.drain()
    assert list(store.readings("pi-01").ns) == wanted
    begun = [
        RecordContext.from_json(e.detail).boot_id
        for e in store.events("pi-01")
        if e.kind == EventKind.RECORD_CONTEXT_BEGINS
    ]
    assert begun == ["b1", "b2"]
    assert again.spool.depth == 0
    again.spool.close()


def test_not_even_a_cut_before_the_first_sync_gives_a_number_twice(tmp_path, store):
    """Nothing but the empty tables is durable when the power goes, and they carry the file's name."""
    board = Board(tmp_path / "spool.sqlite", store, "b1")
    wanted = board.read(5)
    board.drain()
    again = Board(board.lose_power(tmp_path / "cut"), store, "b2")
    wanted += again.read(5)
    again.drain()
    assert list(store.readings("pi-01").ns) == wanted
    again.spool.close()


def test_what_the_boot_before_left_unsent_goes_out_under_its_own_name(tmp_path, store):
    board = Board(tmp_path / "spool.sqlite", store, "b1")
    board.read(10)
    board.drain()
    first = board.spool.uuid
    unsent = board.read(10)
    board.sync()
    again = Board(board.lose_power(tmp_path / "cut"), store, "b2")
    seen = again.read(10)
    assert again.spool.uuid != first
    # The acknowledgement was durable with the records: twelve to twenty-one are of the first boot.
    assert {again.spool.uuid_of(seq) for seq in range(12, 22)} == {first}
    assert again.spool.uuid_of(22) == again.spool.uuid
    again.drain()
    columns, places = store.placed_readings("pi-01")
    by_name = {name: [ns for ns, (uuid, _) in zip(columns.ns, places, strict=True) if uuid == name]
               for name in (first, again.spool.uuid)}  # fmt: skip
    assert by_name[first][10:] == unsent
    assert by_name[again.spool.uuid] == seen
    again.spool.close()


def test_a_database_gets_every_point_under_the_name_and_boot_of_its_record(tmp_path, store):
    board = Board(tmp_path / "spool.sqlite", store, "b1")
    board.read(1)
    board.sync()
    first = board.spool.uuid
    again = Board(board.lose_power(tmp_path / "cut"), store, "b2")
    again.read(1)
    encoder = LineEncoder("pi-01", again.spool)
    lines = [encoder.line(*record) for record in again.spool.batch() if record[1] is RecordKind.READING]
    assert [(f'spool="{first}"' in line, "boot=b1" in line) for line in lines] == [
        (True, True),
        (False, False),
    ]
    again.spool.close()


def test_a_restart_within_a_boot_keeps_the_name(tmp_path):
    path = tmp_path / "spool.sqlite"
    spool = Spool(path)
    spool.begin_context(context("b1"), 1)
    name = spool.uuid
    spool.close()
    again = Spool(path)
    again.begin_context(context("b1"), 2)
    assert again.uuid == name
    again.close()


def test_a_spool_of_the_version_before_goes_on_under_its_name_until_the_next_boot(tmp_path):
    path = tmp_path / "spool.sqlite"
    spool = Spool(path)
    with closing(sqlite3.connect(path)) as rows, rows:  # as that version left it, with one name
        (old,) = rows.execute("SELECT value FROM meta WHERE key = 'uuid'").fetchone()
        rows.execute("INSERT INTO record_contexts VALUES (1, ?)", (context("b1").to_json(),))
        event = AgentEvent(EventKind.RECORD_CONTEXT_BEGINS, 1, context("b1").to_json()).to_bytes()
        rows.execute("INSERT INTO records(kind, unix_ms, payload) VALUES (3, 0, ?)", (event,))
        rows.execute("DROP TABLE names")
    rows.close()
    spool.close()
    again = Spool(path)
    again.begin_context(context("b1"), 2)
    assert (again.uuid, again.uuid_of(1)) == (old, old)
    again.begin_context(context("b2"), 3)
    assert again.uuid != old
    assert again.uuid_of(1) == old
    again.close()
