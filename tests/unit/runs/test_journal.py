"""The event log: every record class there and back, in order, also after kill -9."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import typing
from contextlib import closing
from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.contract.events import EventKind
from roambench.contract.phases import Outcome
from roambench.rounds.records import (
    ClockProbed,
    FleetEvent,
    OutcomeDecided,
    ReplayResumed,
    RoundRecord,
    RunResumed,
    StepClosed,
    StepOpened,
)
from roambench.runs.event_log import read_event_log
from roambench.runs.journal import SqliteJournal

from .test_event_log import LOG

EVERY_KIND = [
    *LOG,
    FleetEvent(-1, -1, '},"",{', "", '"},"",{"'),  # what the log has between two records while it writes them
]


def test_every_record_class_comes_back_equal_and_in_order(tmp_path):
    journal = SqliteJournal(tmp_path / "events.sqlite")
    for record in EVERY_KIND:
        journal.append(record)
    journal.close()
    assert list(read_event_log(tmp_path / "events.sqlite")) == EVERY_KIND
    assert {type(record) for record in EVERY_KIND} == set(typing.get_args(RoundRecord))


def test_a_batch_is_read_back_like_its_records_one_by_one(tmp_path):
    one_by_one, batch = SqliteJournal(tmp_path / "one.sqlite"), SqliteJournal(tmp_path / "batch.sqlite")
    for record in EVERY_KIND:
        one_by_one.append(record)
    batch.append(EVERY_KIND[0])
    batch.extend(EVERY_KIND[1:])
    batch.extend([])
    for journal in (one_by_one, batch):
        journal.close()
    assert _rows(tmp_path / "batch.sqlite") == _rows(tmp_path / "one.sqlite")
    assert list(read_event_log(tmp_path / "batch.sqlite")) == EVERY_KIND


def test_a_batch_that_cannot_be_written_leaves_nothing_and_the_next_one_works(tmp_path):
    journal = SqliteJournal(tmp_path / "events.sqlite")
    stepless = FleetEvent(None, 0, "pi-00", EventKind.SESSION_OPENED)  # type: ignore[arg-type]
    with pytest.raises(RunError, match=r"events\.sqlite: NOT NULL"):
        journal.extend([EVERY_KIND[0], stepless])
    journal.extend(EVERY_KIND[1:3])
    journal.close()
    assert list(read_event_log(tmp_path / "events.sqlite")) == EVERY_KIND[1:3]


def _rows(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT step, kind, device, body FROM event ORDER BY id").fetchall()
    finally:
        connection.close()


def test_types_survive_an_integer_where_a_float_belongs_is_a_float_again(tmp_path):
    journal = SqliteJournal(tmp_path / "events.sqlite")
    journal.append(StepOpened(0, (0,), (0,), (5,)))  # type: ignore[arg-type]
    journal.close()
    (found,) = read_event_log(tmp_path / "events.sqlite")
    assert isinstance(found, StepOpened)
    assert type(found.distances_m[0]) is float


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("StepExploded", {}, "event 1: unknown kind 'StepExploded'"),
        ("OutcomeDecided", {"outcome": "eaten"}, "OutcomeDecided: outcome: expected one of .*, got 'eaten'"),
        ("OutcomeDecided", {"device": "zero"}, "OutcomeDecided: device: expected int, got 'zero'"),
        ("OutcomeDecided", {"colour": 1}, "OutcomeDecided: colour: unknown key"),
        ("OutcomeDecided", {"device": None}, "expected int, got None"),
    ],
)
def test_a_row_this_version_does_not_understand_is_named(tmp_path, kind, change, message):
    path = tmp_path / "events.sqlite"
    SqliteJournal(path).close()
    body = {"step": 1, "device": 0, "train_order_id": "t", "outcome": "wasted"} | change
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO event (step, kind, device, body) VALUES (1, ?, 0, ?)", (kind, json.dumps(body))
        )
    connection.close()
    with pytest.raises(RunError, match=message):
        list(read_event_log(path))


def test_a_list_of_the_right_names_is_no_record(tmp_path):
    path = tmp_path / "events.sqlite"
    SqliteJournal(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO event (step, kind, device, body) VALUES (1, 'OutcomeDecided', 0, ?)",
            (json.dumps(["step", "device", "train_order_id", "outcome", "reason"]),),
        )
    connection.close()
    with pytest.raises(RunError, match="event 1: OutcomeDecided: top level: expected an object"):
        list(read_event_log(path))


def test_a_record_without_its_optional_fields_reads_like_one_that_has_them(tmp_path):
    path = tmp_path / "events.sqlite"
    SqliteJournal(path).close()
    body = {"train_order_id": "t", "outcome": "wasted", "device": 0, "step": 1}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO event (step, kind, device, body) VALUES (1, 'OutcomeDecided', 0, ?)",
            (json.dumps(body),),
        )
    connection.close()
    assert list(read_event_log(path)) == [OutcomeDecided(1, 0, "t", Outcome.WASTED, "")]


def test_a_missing_field_is_named(tmp_path):
    path = tmp_path / "events.sqlite"
    SqliteJournal(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO event (step, kind, device, body) VALUES (1, 'OutcomeDecided', 0, '{}')"
        )
    connection.close()
    with pytest.raises(
        RunError, match=r"OutcomeDecided: step: is missing; .*OutcomeDecided: device: is missing"
    ):
        list(read_event_log(path))


_WRITER = """
import sys
from roambench.contract.records import Reading
from roambench.experiment.sections import Experiment
from roambench.rounds.records import FleetEvent
from roambench.runs.folder import RunFolder

folder = RunFolder.create(
    sys.argv[1], Experiment(seed=1), run_id="r", system="mohawk", trace_hash="t", fleet="local",
    device_names=["pi-00"],
)
for number in range(1_000_000):
    folder.journal.append(FleetEvent(number, 0, "pi-00", "tick"))
    folder.records.insert("pi-00", "spool", [(number, 1, Reading(number, 5.0, 0.5, 2.5).to_bytes())])
    if number == 50:
        print("ready", flush=True)
"""


def test_kill_9_of_the_writer_leaves_a_readable_folder_with_everything_acknowledged(tmp_path):
    from roambench.runs.folder import RunFolder
    from roambench.runs.info import RunState

    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        alive = RunFolder.open(tmp_path / "run")
        assert alive.info.state is RunState.RUNNING
        assert len(list(alive.read_log())) > 50  # readable beside the live writer
        with pytest.raises(RunError, match=f"process {writer.pid} is writing this run"):
            RunFolder.open(tmp_path / "run", write=True)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    folder = RunFolder.open(tmp_path / "run")
    assert folder.info.state is RunState.INTERRUPTED
    steps = [record.step for record in folder.read_log()]
    assert steps == list(range(len(steps)))
    assert len(steps) > 50
    stored = folder.records.readings("pi-00").ns
    assert list(stored) == list(range(len(stored)))
    assert len(steps) - len(stored) in (0, 1)  # killed between the two appends at most
    folder.close()
    with RunFolder.open(tmp_path / "run", write=True) as again:  # the dead writer's lock is free
        again.journal.append(FleetEvent(0, 0, "pi-00", "resumed"))
        assert len(list(again.read_log())) == len(steps) + 1


_BATCH_WRITER = """
import os, signal, sys
from pathlib import Path
from roambench.rounds.records import FleetEvent
from roambench.runs.journal import SqliteJournal

journal = SqliteJournal(Path(sys.argv[1]))
batches = [[FleetEvent(step, device, "pi", "tick") for device in range(100)] for step in range(2)]
journal.extend(batches[0])
inserted = 0

def count(statement):
    global inserted
    inserted += statement.startswith("INSERT")
    if inserted == 50:
        os.kill(os.getpid(), signal.SIGKILL)

journal._connection.set_trace_callback(count)
journal.extend(batches[1])
"""


def test_kill_9_within_a_batch_leaves_all_records_before_it_and_none_of_it(tmp_path):
    path = tmp_path / "events.sqlite"
    writer = subprocess.run([sys.executable, "-c", _BATCH_WRITER, str(path)])
    assert writer.returncode == -signal.SIGKILL
    assert [record.step for record in read_event_log(path)] == [0] * 100


_COUNT = """
import sys
from pathlib import Path
from roambench.runs.event_log import read_event_log
print(len(list(read_event_log(Path(sys.argv[1])))))
"""


def test_the_log_can_be_read_from_a_folder_that_cannot_be_written(tmp_path):
    path = tmp_path / "events.sqlite"
    journal = SqliteJournal(path)
    journal.append(EVERY_KIND[0])
    journal.close()
    Path(tmp_path).chmod(0o555)
    command = [sys.executable, "-c", _COUNT, str(path)]
    if os.geteuid() == 0:  # root may write anywhere, unless it lets go of that
        command = ["setpriv", "--bounding-set=-dac_override", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.stdout, done.stderr) == ("1\n", "")
    finally:
        Path(tmp_path).chmod(0o755)


def test_what_was_written_of_steps_that_are_played_again_does_not_count(tmp_path):
    """Twice resumed: at step 1, then at step 0; facts of the world stay."""
    probe = ClockProbed(1, 2, "during", "boot", 7_000, 0.0, 350_000.5, 8, (6_000, 1, 2, 8_000), 4.0)
    seen, held = FleetEvent(1, 0, "pi-01", EventKind.SESSION_OPENED), ReplayResumed(1, 0, 5, "host")
    first, second = StepClosed(0, 1, (), (), 0.1, 0.2, 1.0), StepClosed(0, 9, (), (), 0.1, 0.2, 1.0)
    opened, closed = StepOpened(1, (0,), (0,), (1.0,)), StepClosed(1, 2, (), (), 0.1, 0.2, 1.0)
    path = tmp_path / "events.sqlite"
    journal = SqliteJournal(path)
    parts = [first, opened, probe, seen, held], [RunResumed(1, 0, 3.0)], [opened, closed]
    for part in parts:
        journal.extend(part)
    assert list(read_event_log(path)) == [first, probe, seen, held, RunResumed(1, 0, 3.0), opened, closed]
    journal.extend([RunResumed(0, 0, 4.0), second])
    journal.close()
    assert list(read_event_log(path)) == [
        probe,
        seen,
        held,
        RunResumed(1, 0, 3.0),
        RunResumed(0, 0, 4.0),
        second,
    ]
