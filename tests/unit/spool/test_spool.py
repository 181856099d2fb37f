"""The durable queue, on real SQLite files."""

import dataclasses
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import SpoolError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, RecordKind
from roambench.spool.record_context import RecordContext, following
from roambench.spool.spool import ROW_OVERHEAD_BYTES, Spool


def fill(spool: Spool, count: int, first: int = 0) -> list[int]:
    return [spool.append(RecordKind.READING, b"%06d" % i) for i in range(first, first + count)]


def test_records_come_out_in_the_order_they_went_in_until_acknowledged(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    assert fill(spool, 5) == [1, 2, 3, 4, 5]
    spool.append(RecordKind.EVENT, b"boot")
    assert spool.batch(2) == [(1, RecordKind.READING, b"000000"), (2, RecordKind.READING, b"000001")]
    assert [seq for seq, _, _ in spool.batch(10, after_seq=4)] == [5, 6]
    assert spool.acknowledge(4) == 4
    assert spool.acknowledge(4) == 0
    assert spool.acknowledge(3) == 0
    assert spool.batch(10)[-1] == (6, RecordKind.EVENT, b"boot")
    assert spool.depth == 2
    spool.close()


def test_a_sequence_number_is_never_given_twice_not_even_after_emptying_and_restart(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    name = spool.uuid
    fill(spool, 7)
    spool.acknowledge(7)
    spool.close()
    again = Spool(tmp_path / "spool.sqlite")
    assert again.depth == 0
    assert again.append(RecordKind.READING, b"") == 8
    assert again.uuid == name
    other = Spool(tmp_path / "other.sqlite")
    assert other.uuid != name
    again.close()
    other.close()


WRITER = """
import sys
from pathlib import Path
from roambench.contract.records import RecordKind
from roambench.spool.spool import Spool
spool = Spool(Path(sys.argv[1]))
while True:
    seq = spool.append(RecordKind.READING, b"reading")
    sys.stdout.write(f"{seq}\\n"); sys.stdout.flush()
    if seq % 50 == 0: spool.sync()
"""


@pytest.mark.parametrize("lines", [1, 73, 400])
def test_every_record_that_was_appended_survives_sigkill(tmp_path, lines):
    path = tmp_path / "spool.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(lines):
        writer.stdout.readline()
    writer.kill()
    rest = writer.stdout.read().split(b"\n")[:-1]
    writer.wait()
    writer.stdout.close()
    promised = lines + len(rest)
    spool = Spool(path)
    found = [seq for seq, _, _ in spool.batch(1_000_000)]
    # At most the one it was about to report is there beyond what it promised.
    assert found in (list(range(1, promised + 1)), list(range(1, promised + 2)))
    assert spool.depth == len(found)
    assert spool.append(RecordKind.READING, b"") == found[-1] + 1
    spool.close()


def test_a_full_queue_drops_the_oldest_and_counts_them_for_ever(tmp_path):
    row_bytes = 6 + ROW_OVERHEAD_BYTES
    spool = Spool(tmp_path / "spool.sqlite", cap_bytes=100 * row_bytes)
    fill(spool, 100)
    assert (spool.depth, spool.dropped) == (100, 0)
    fill(spool, 1, first=100)
    # One row over the cap, and a hundredth of it to spare: two rows go.
    assert (spool.depth, spool.dropped) == (99, 2)
    assert spool.batch(1)[0][0] == 3
    fill(spool, 50, first=101)
    assert spool.depth + spool.dropped == 151
    assert spool.batch(1000)[-1][0] == 151
    dropped = spool.dropped
    spool.close()
    again = Spool(tmp_path / "spool.sqlite", cap_bytes=100 * row_bytes)
    assert again.dropped == dropped
    again.close()


def test_a_record_nobody_will_take_goes_to_the_dead_letters(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    fill(spool, 3)
    spool.acknowledge(1)
    spool.dead_letter("field type conflict")
    assert [seq for seq, _, _ in spool.batch(10)] == [3]
    assert (spool.depth, spool.dead) == (1, 1)
    spool.dead_letter("that too")
    spool.dead_letter("nothing is left to refuse")
    assert (spool.depth, spool.dead) == (0, 2)
    spool.close()
    with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as rows, rows:
        found = rows.execute("SELECT consumer, seq, payload, error FROM dead_letters").fetchall()
    rows.close()
    assert found == [
        ("controller", 2, b"000001", "field type conflict"),
        ("controller", 3, b"000002", "that too"),
    ]


def test_of_a_flood_of_dead_letters_the_newest_are_kept_and_all_are_counted(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite", dead_letters_kept=5)
    fill(spool, 20)
    for _ in range(20):
        spool.dead_letter("field type conflict")
    assert spool.dead == 20
    spool.close()
    with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as rows, rows:
        assert [seq for (seq,) in rows.execute("SELECT seq FROM dead_letters")] == [16, 17, 18, 19, 20]
    rows.close()


def test_syncing_in_another_thread_never_costs_the_appender_a_record(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    done = threading.Event()

    def sync() -> None:
        while not done.is_set():
            spool.sync()

    thread = threading.Thread(target=sync)
    thread.start()
    fill(spool, 500)
    spool.acknowledge(100)
    fill(spool, 500)
    done.set()
    thread.join()
    assert [seq for seq, _, _ in spool.batch(2000)] == list(range(101, 1001))
    spool.close()


def test_an_append_does_not_wait_for_a_slow_disk(tmp_path, monkeypatch):
    """Minutes of a busy SD card are one sync here that ends when the test lets it."""
    spool = Spool(tmp_path / "spool.sqlite")
    log = Path(f"{tmp_path}/spool.sqlite-wal")
    syncing, written, synced = threading.Event(), threading.Event(), []

    def slow_sync(file: int) -> None:
        syncing.set()
        assert written.wait(30)
        synced.append(os.path.samestat(os.fstat(file), log.stat()))

    monkeypatch.setattr("roambench.spool.write_ahead.os.fdatasync", slow_sync)
    thread = threading.Thread(target=spool.sync)
    thread.start()
    assert syncing.wait(30)
    assert fill(spool, 3) == [1, 2, 3]
    assert spool.acknowledge(2) == 2
    assert synced == []  # the disk is still at it
    written.set()
    thread.join()
    assert synced == [True]  # what it synced is where the records are
    monkeypatch.undo()
    spool.close()


def test_a_log_that_was_moved_begins_short_again(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    log = Path(f"{tmp_path}/spool.sqlite-wal")
    for _ in range(7):
        spool.append(RecordKind.EVENT, b"x" * 200_000)
    assert log.stat().st_size > 1_400_000
    spool.sync()
    spool.append(RecordKind.EVENT, b"")
    assert log.stat().st_size <= 1_000_000
    assert [len(payload) for _, _, payload in spool.batch()] == [200_000] * 7 + [0]
    spool.close()


def test_the_log_beside_the_database_does_not_grow_for_ever(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    for _ in range(40):
        spool.append(RecordKind.EVENT, b"x" * 200_000)
        spool.sync()
        spool.acknowledge(10**6)
    assert Path(f"{tmp_path}/spool.sqlite-wal").stat().st_size < 4_000_000
    spool.close()


def test_the_age_of_the_oldest_record_is_told(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    assert spool.oldest_age_s == 0.0
    began_s = time.time()
    spool.append(RecordKind.EVENT, b"")
    with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as rows, rows:
        rows.execute("UPDATE records SET unix_ms = unix_ms - 5000")
    rows.close()
    age_s = spool.oldest_age_s
    assert 4.999 <= age_s <= 5.0 + time.time() - began_s + 0.002  # kept to the millisecond
    spool.close()


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(SpoolError, match="unable to open database file"):
        Spool(tmp_path / "no" / "such" / "spool.sqlite")


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from roambench.contract.errors import SpoolError
from roambench.contract.records import RecordKind
from roambench.spool.spool import Spool
spool = Spool(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # writing beyond it fails, as on a full disk
kept = 0
try:
    while True:
        spool.append(RecordKind.EVENT, b"x" * 1000)
        kept += 1
except SpoolError as error:
    print(kept, error, flush=True)
"""


def test_a_full_disk_is_an_error_that_names_the_file_and_loses_nothing_before_it(tmp_path):
    path = tmp_path / "spool.sqlite"
    result = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False
    )
    kept, _, message = result.stdout.partition(" ")
    assert message.startswith(f"spool {path}: ")
    assert int(kept) > 20
    spool = Spool(path)
    assert [seq for seq, _, _ in spool.batch(10_000)] == list(range(1, int(kept) + 1))
    spool.close()


def consumed(spool: Spool, name: str) -> list[int]:
    return [seq for seq, _, _ in spool.consumers[name].batch(10_000)]


def test_a_record_goes_only_when_every_consumer_has_acknowledged_it(tmp_path):
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, consumers=("controller", "influxdb"))
    fill(spool, 10)
    assert spool.consumers["controller"].acknowledge(8) == 8
    assert spool.depth == 10
    assert spool.consumers["influxdb"].acknowledge(3) == 3
    assert [seq for seq, _, _ in spool.batch(20)] == [4, 5, 6, 7, 8, 9, 10]
    assert (consumed(spool, "controller"), consumed(spool, "influxdb")) == ([9, 10], [4, 5, 6, 7, 8, 9, 10])
    spool.close()
    again = Spool(path, consumers=("controller", "influxdb"))
    assert (again.consumers["controller"].depth, again.consumers["influxdb"].depth, again.depth) == (2, 7, 7)
    assert again.consumers["influxdb"].acknowledge(10**9) == 7  # no further than what there is
    assert (again.depth, again.append(RecordKind.READING, b"")) == (2, 11)
    again.close()


def test_a_consumer_that_is_no_longer_named_holds_nothing_back_and_a_new_one_gets_the_rest(
    tmp_path,
):
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, consumers=("controller", "influxdb"))
    fill(spool, 10)
    spool.acknowledge(6)
    spool.close()
    alone = Spool(path)
    assert (alone.depth, consumed(alone, "controller")) == (4, [7, 8, 9, 10])
    alone.close()
    both = Spool(path, consumers=("controller", "victoria"))
    assert consumed(both, "victoria") == [7, 8, 9, 10]
    both.close()


def test_each_consumer_counts_what_the_full_queue_cost_it(tmp_path):
    row_bytes = 6 + ROW_OVERHEAD_BYTES
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, cap_bytes=100 * row_bytes, consumers=("controller", "influxdb"))
    for i in range(300):
        fill(spool, 1, first=i)
        spool.acknowledge(i + 1)  # the controller is always there, InfluxDB never
    assert spool.consumers["controller"].dropped == 0
    assert spool.consumers["influxdb"].dropped == spool.dropped == 300 - spool.depth
    assert 98 <= spool.depth <= 100
    assert consumed(spool, "influxdb")[-1] == 300
    spool.close()
    again = Spool(path, consumers=("controller", "influxdb"))
    assert again.consumers["influxdb"].dropped == 300 - again.depth
    again.close()


def context(run: str = "", boot_id: str = "b1", offset_ns: int = 1000) -> RecordContext:
    return RecordContext(boot_id, "0/1.0", offset_ns, "smartpower2", run)


def test_every_record_finds_its_context_also_after_a_restart(tmp_path):
    path = tmp_path / "spool.sqlite"
    spool = Spool(path)
    fill(spool, 2)
    spool.begin_context(context(), 5)  # seq 3 is its event
    spool.begin_context(context(), 6)  # nothing has changed
    fill(spool, 2)
    spool.begin_context(context("mohawk", offset_ns=2000), 7)  # seq 6
    fill(spool, 2)
    spool.close()
    again = Spool(path)
    found = [again.context_of(seq) for seq in range(1, 9)]
    assert found == [None, None, *[context()] * 3, *[context("mohawk", offset_ns=2000)] * 3]
    events = [
        AgentEvent.from_bytes(payload) for _, kind, payload in again.batch() if kind is RecordKind.EVENT
    ]
    assert [(event.kind, event.monotonic_ns) for event in events] == [
        (EventKind.RECORD_CONTEXT_BEGINS, 5),
        (EventKind.RECORD_CONTEXT_BEGINS, 7),
    ]
    assert RecordContext.from_json(events[1].detail) == context("mohawk", offset_ns=2000)
    again.acknowledge(6)
    again.begin_context(context(boot_id="b2"), 1)
    again.acknowledge(9)
    assert again.context_of_boot("b1") is None  # no record is left of it
    assert again.context == again.context_of(10) == context(boot_id="b2")
    again.close()


def test_a_restart_keeps_the_wall_clock_of_its_boot_and_run_and_a_new_run_asks_anew():
    clock = DeviceClock()
    first = following(None, boot_id="b1", clock=clock, meter="smartpower2", run="r1")
    assert abs(first.unix_ns(time.monotonic_ns()) - time.time_ns()) < 1_000_000_000
    old = dataclasses.replace(first, unix_minus_device_ns=12345)
    assert following(old, boot_id="b1", clock=clock, meter="smartpower2", run="r1") == old
    assert following(old, boot_id="b1", clock=clock, meter="replay", run="r1").unix_minus_device_ns == 12345
    for changed in (
        following(old, boot_id="b2", clock=clock, meter="smartpower2", run="r1"),
        following(old, boot_id="b1", clock=clock, meter="smartpower2", run="r2"),
        following(old, boot_id="b1", clock=DeviceClock(7, 4.0), meter="smartpower2", run="r1"),
    ):
        assert abs(changed.unix_minus_device_ns - first.unix_minus_device_ns) < 1_000_000_000
