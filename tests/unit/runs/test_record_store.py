"""Drained records: exactly once, durable, and never a crash for strange bytes."""

from __future__ import annotations

import math
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import RecordConflict, RunError
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import AgentEvent, Reading, ReadingFlag, RecordKind, phase_to_bytes
from roambench.runs.record_store import READING_DTYPE, RecordStore


@pytest.fixture
def store(tmp_path: Path):
    made = RecordStore(tmp_path / "records.sqlite")
    yield made
    made.close()


def reading(ns: int, watts: float = 2.5, flags: ReadingFlag = ReadingFlag.NONE) -> bytes:
    return Reading(ns, 5.1, watts / 5.1, watts, math.nan, flags).to_bytes()


def test_a_drain_that_is_repeated_stores_each_record_once(store):
    batch = [(seq, RecordKind.READING, reading(seq * 10)) for seq in range(1, 6)]
    assert store.insert("pi-00", "spool-a", batch) == 5
    assert store.insert("pi-00", "spool-a", [*batch[2:], (6, RecordKind.READING, reading(60))]) == 6
    assert list(store.readings("pi-00").ns) == [10, 20, 30, 40, 50, 60]


def test_a_record_that_is_there_is_never_written_over_and_the_other_one_never_acknowledged(store):
    batch = [(seq, RecordKind.READING, reading(seq * 10, 2.5)) for seq in range(1, 6)]
    store.insert("pi-00", "a", batch)
    batch[1:3] = [(2, RecordKind.READING, reading(20, 99.0)), (3, RecordKind.EVENT, b'["other",30,""]')]
    with pytest.raises(
        RecordConflict, match=r"pi-00: spool a has other records .* already: 2, 3; not stored"
    ):
        store.insert("pi-00", "a", [*batch, (6, RecordKind.READING, reading(60, 2.5))])
    assert list(store.readings("pi-00").watts) == [2.5] * 6  # what is in no conflict is stored
    assert store.events("pi-00") == []


def test_two_records_of_one_number_in_one_batch_are_a_conflict_and_the_same_one_twice_is_not(store):
    one, other = (1, 1, reading(10)), (1, 1, reading(11))
    assert store.insert("pi-00", "a", [one, one]) == 1
    with pytest.raises(RecordConflict):
        store.insert("pi-00", "b", [one, other])
    with pytest.raises(RecordConflict):  # what does not decode is kept under its number, too
        store.insert("pi-00", "c", [(1, 1, b"short"), (1, 1, b"shorter")])
    assert store.insert("pi-00", "d", [(1, 1, b"short"), (1, 1, b"short")]) == 1


def test_the_same_seq_of_another_spool_or_device_is_another_record(store):
    for device, spool in (("pi-00", "a"), ("pi-00", "b"), ("pi-01", "a")):
        store.insert(device, spool, [(1, RecordKind.READING, reading(1))])
    assert len(store.readings("pi-00")) == 2
    assert len(store.readings("pi-01")) == 1
    assert store.devices() == ["pi-00", "pi-01"]


def test_readings_of_two_spools_come_back_in_time_order_with_raw_values(store):
    store.insert("pi-00", "b", [(1, RecordKind.READING, reading(300, 3.0, ReadingFlag.INCONSISTENT))])
    store.insert("pi-00", "a", [(1, RecordKind.READING, reading(100, 1.0)), (2, 1, reading(500, 5.0))])
    columns = store.readings("pi-00")
    assert list(columns.ns) == [100, 300, 500]
    assert list(columns.watts) == [1.0, 3.0, 5.0]
    assert list(columns.flags) == [0, 1, 0]
    assert np.isnan(columns.watt_hours).all()


def test_readings_of_an_outage_are_left_out_but_for_those_at_its_borders(store):
    told = [(seq, RecordKind.READING, reading(100 * seq, float(seq))) for seq in range(1, 10)]
    store.insert("pi-00", "a", told)
    columns = store.readings("pi-00").outside([(150, 650), (700, 800), (850, 860)])
    assert list(columns.ns) == [100, 200, 600, 700, 800, 900]
    assert list(columns.watts) == [1.0, 2.0, 6.0, 7.0, 8.0, 9.0]
    assert len(store.readings("pi-00").outside([])) == 9


def test_spans_and_events_come_back_as_they_went(store):
    late = PhaseSpan("pi-00", "boot", Phase.TRAIN, 3, 200, 900, "r/3/0/train", "r/3/0/train", 7)
    early = PhaseSpan("pi-00", "boot", Phase.IDLE, 2, 0, 200)
    event = AgentEvent(EventKind.METER_LOST, 450, "3 s of silence")
    store.insert(
        "pi-00",
        "a",
        [
            (1, RecordKind.PHASE, phase_to_bytes(late)),
            (2, RecordKind.PHASE, phase_to_bytes(early)),
            (3, RecordKind.EVENT, event.to_bytes()),
        ],
    )
    assert store.spans("pi-00") == [early, late]
    assert store.events("pi-00") == [event]
    assert store.counts("pi-00") == {RecordKind.PHASE: 2, RecordKind.EVENT: 1}


@pytest.mark.parametrize(
    ("seq", "kind", "payload", "reason"),
    [
        (1, 1, b"short", "52 bytes"),
        (1, 99, b"", "99"),
        (1, 2, b"\xff\xfe", "JSON"),
        (1, 2, b"[" * 5000, "JSON"),
        (1, 2, b'["b","train",1,9,3,"","",0,0,0,[]]', "ends before"),
        (1, 2, b'["b","train",1,0,1' + b"0" * 30 + b',"","",0,0,0,[]]', "63 bits"),
        (1, 2, b'["b","cooking",1,0,1,"","",0,0,0,[]]', "cooking"),
        (1, 2, b'["b","upload",1,0,9,"","",1,2,8,[[1,4]]]', "between its first and last byte"),
        (1, 2, b'["b","upload",1,0,9,"","",1,2,1' + b"0" * 30 + b",[[3,4]]]", "63 bits"),
        (1, 2, b'["\\ud800","train",1,0,9,"","",0,0,0,[]]', "surrogates"),
        (2**64 - 1, 1, reading(5), "63 bits"),
        (1, 1, Reading(1, 5.0, 1.0, math.inf).to_bytes(), "infinite"),
    ],
)
def test_an_undecodable_record_becomes_a_dead_letter_with_its_reason(store, seq, kind, payload, reason):
    through = store.insert("pi-00", "a", [(7, 1, reading(70)), (seq, kind, payload)])
    assert through == 7
    (dead,) = store.dead_letters()
    assert dead.seq == str(seq)
    assert reason in dead.reason
    assert list(store.readings("pi-00").ns) == [70]
    assert store.insert("pi-00", "a", [(seq, kind, payload)]) >= 0
    assert len(store.dead_letters()) == 1


def test_what_was_acknowledged_is_there_for_another_process_at_once(store, tmp_path):
    store.insert("pi-00", "a", [(1, 1, reading(10))])
    other = sqlite3.connect(tmp_path / "records.sqlite")
    assert other.execute("SELECT count(*) FROM record").fetchone() == (1,)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: syncs at every commit
    other.close()


def test_a_full_disk_acknowledges_nothing_and_says_what_to_do(store):
    store._connection.execute(
        f"PRAGMA max_page_count={store._connection.execute('PRAGMA page_count').fetchone()[0]}"
    )
    batch = [(seq, 1, reading(seq)) for seq in range(1, 2000)]
    with pytest.raises(RunError, match="disk is full; free some space"):
        store.insert("pi-00", "a", batch)
    assert len(store.readings("pi-00")) == 0
    store._connection.execute("PRAGMA max_page_count=1000000")
    assert store.insert("pi-00", "a", batch) == 1999


def test_36_devices_at_60_readings_a_second_take_less_than_a_fifth_of_the_time(store):
    """36 devices at 10 Hz and time_scale 6, drained once a second: 36 batches of 60 per host second."""
    payload = reading(1)
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)
    began_s = time.thread_time()  # how long the disk takes is the disk's
    for device in range(36):
        store.insert(f"pi-{device:02d}", "a", [(seq, 1, payload) for seq in range(60)])
    assert time.thread_time() - began_s < 0.2  # measured: 0.03 s
    assert statements.count("COMMIT") == 36  # a batch waits for the disk once


def test_a_reader_of_a_missing_store_is_told_which_file(tmp_path):
    with pytest.raises(RunError, match=r"records\.sqlite: no such file"):
        RecordStore(tmp_path / "records.sqlite", read_only=True)


def test_a_dead_letters_reason_is_one_line_however_much_is_wrong(tmp_path):
    store = RecordStore(tmp_path / "records.sqlite")
    store.insert("pi-00", "spool", [(1, RecordKind.EVENT, b"[1, 2, 3]")])
    (dead,) = store.dead_letters()
    assert dead.reason == "event: [0]: expected str, got 1; event: [2]: expected str, got 3"
    store.close()


def test_the_writer_knows_without_a_look_where_a_spool_ends(store):
    for seq in (1, 2):
        store.insert("pi-00", "a", [(seq, RecordKind.READING, reading(seq))])
    assert [store.count_beyond("pi-00", "a", seq) for seq in (0, 2)] == [2, 0]
    assert [store.ends_at("pi-00", spool) for spool in "ab"] == [2, -1]
    statements = []
    store._connection.set_trace_callback(statements.append)
    assert [store.ends_at("pi-00", "a") for _ in range(3)] == [2, 2, 2]
    assert statements == []
    store.insert("pi-00", "a", [(3, RecordKind.READING, reading(3))])
    store.insert("pi-00", "b", [(9, RecordKind.READING, reading(9))])
    assert [store.ends_at("pi-00", spool) for spool in "ab"] == [3, 9]


def test_another_process_looks_every_time(store):
    store.insert("pi-00", "a", [(1, RecordKind.READING, reading(1))])
    reader = RecordStore(store.path, read_only=True)
    assert reader.count_beyond("pi-00", "a", 1) == 0
    store.insert("pi-00", "a", [(2, RecordKind.READING, reading(2))])
    assert reader.count_beyond("pi-00", "a", 1) == 1
    reader.close()


def test_many_readings_are_read_as_the_bytes_they_were_whatever_lies_between(store):
    """Zeros, NaN and quotation marks; more than SQLite joins at a time."""
    size = 100_050
    table = np.zeros(size, READING_DTYPE)
    table["ns"], table["watts"] = np.arange(size) * 1_000_003, np.where(np.arange(size) % 3, np.nan, 34.0)
    table["meter_ms"] = 0x22275C00
    rows = [(3 * seq, RecordKind.READING, table[seq].tobytes()) for seq in range(size)]
    rows += [
        (3 * seq + 1, RecordKind.EVENT, AgentEvent("seen", seq).to_bytes()) for seq in range(0, size, 999)
    ]
    store.insert("pi-00", "a", rows)
    store.insert("pi-00", "b", [(2**62, RecordKind.READING, reading(-5))])
    found = store.readings("pi-00")
    assert found.ns.tolist() == [-5, *table["ns"].tolist()]
    assert np.array_equal(found.watts[1:], table["watts"], equal_nan=True)
    assert [event.monotonic_ns for event in store.events("pi-00")] == list(range(0, size, 999))
    assert store.count_before("pi-00", "a", 300, RecordKind.READING) == 100


def test_names_and_what_lies_between_readings_cost_a_look_each_and_no_walk_through_readings(store):
    for device in ("pi-00", "pi-01"):
        for spool in ("a", "b"):
            store.insert(device, spool, [(seq, RecordKind.READING, reading(seq)) for seq in range(3_000)])
            store.insert(device, spool, [(3_000, RecordKind.EVENT, AgentEvent("seen", 7).to_bytes())])
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store._connection.set_progress_handler(count, 10)
    assert store.spools() == [("pi-00", "a"), ("pi-00", "b"), ("pi-01", "a"), ("pi-01", "b")]
    assert store.devices() == ["pi-00", "pi-01"]
    assert [event.monotonic_ns for event in store.events("pi-00")] == [7, 7]
    assert len(store.events_through("pi-00", "a", 3_000)) == 1
    assert not store.spans("pi-00")
    assert not len(store.host_table("pi-00"))
    assert steps < 300  # times ten instructions, of 12,000 records
