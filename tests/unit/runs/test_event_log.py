"""The event log as columns: the same records in the same order as row by row, and the same complaints."""

from __future__ import annotations

import json
import math
import sqlite3
import typing
from contextlib import closing

import numpy as np
import pytest

from roambench.contract.errors import RunError
from roambench.contract.phases import Outcome
from roambench.rounds.records import (
    BatteriesSeen,
    BoardSwitched,
    ClockProbed,
    CloudAggregated,
    EdgeAggregated,
    EnergySeen,
    FleetEvent,
    MetricsScored,
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    PeersDescribed,
    ReplayPaused,
    ReplayResumed,
    RoundRecord,
    RunEnded,
    RunResumed,
    StepClosed,
    StepOpened,
)
from roambench.runs.event_log import EventLog, read_event_log
from roambench.runs.event_tail import EventTail
from roambench.runs.journal import ROWS_THAT_COUNT, SqliteJournal, decode
from roambench.runs.record_columns import COLUMNS

LOG = [
    FleetEvent(-1, -1, 'pi-x\n<b>é "mean_loss": \\', "refused", ""),
    StepOpened(0, (0, 2), (1, 1), (10.5, 100.0)),
    OrderGiven(0, 0, "a", "train", 1, "", "ab" * 32, 10.5, "wifi", 1000.0),
    OrderGiven(0, 2, "b", "train", 1, "", "ab" * 32, 10.5, "lte", 20.0),
    OrderAnswered(0, 2, "b", "done", "", 2637000, 0.1, 12.5, 500, None, 0.02),
    OrderAnswered(0, 0, "a", "done", "", 2637000, 0.4, 12.5, 500, 1.0 / 3.0, 0.02),
    StepClosed(0, 0, (0, 2), (), None, None, 1.5),
    StepOpened(1, (), (), ()),
    EdgeAggregated(1, 1, (0, 2), ("a", "b"), (0.25, 0.75), "cd" * 32),
    CloudAggregated(1, (), (), "ef" * 32),
    OutcomeDecided(1, 0, "a", Outcome.WASTED, "absent"),
    StepClosed(1, 2, (), (1,), 0.875, 0.4, 2.0),
    PeersDescribed(0, (1,), (0.0, 40.5)),
    MixingPlanned(0, (2, 0, 1), (0, 2, 2), (0.75, 0.25, 1.0), None, 0.5),
    ModelsExchanged(0, 0, "x", (2,), ("late",), 96, 12, 0.25, 96, 0.5, "ab", (12,), (2,), (7,), 48),
    ModelsScored(0, (0, 2), (0.5, 0.25), (1.5, 2.0), ("ab" * 32, ""), 0.75, 0.5),
    MetricsScored(0, ("F1 of é", "top 5"), (0.25, 1e-300), ("higher", "lower")),
    ReplayPaused(1),
    ReplayResumed(1, 7_000, 12_500_007_000, "device"),
    RunResumed(2, 7_000, 30.5),
    RunEnded(1, "accuracy 0.8750 reached the threshold of 0.87"),
    ClockProbed(1, 2, "during", "boot", 2**62, -2.5e14, 350_000.5, 8, (6_000, -1, 2, 8_000), 4.0),
    EnergySeen(0, (0, 0), ("", "train"), (2.5, 1.0 / 3.0), (0.1, 0.0), (1.0, 0.5), (0.0, 0.25)),
    BatteriesSeen(1, (0.5, 0.0), (2.5, 1.0 / 3.0), (1.5, 0.0), (0,), (1,), 61.5),
    BoardSwitched(1, 1, False, 61_600_000_000),
]


@pytest.fixture
def path(tmp_path):
    journal = SqliteJournal(tmp_path / "events.sqlite")
    journal.extend(LOG)
    journal.close()
    return tmp_path / "events.sqlite"


def add(path, kind, body):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO event (step, kind, device, body) VALUES (1, ?, 0, ?)", (kind, body))
    connection.close()


def row_by_row(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute(ROWS_THAT_COUNT).fetchall()
    connection.close()
    return [decode(kind, body, f"{path}: event {row}") for row, kind, body in rows]


@pytest.mark.parametrize("chunk", [1, 3, 20_000])
def test_every_record_class_comes_back_equal_and_in_order_however_it_is_read(path, chunk):
    log = read_event_log(path, chunk)
    assert list(log) == LOG
    assert {type(record) for record in LOG} == set(typing.get_args(RoundRecord))
    assert [type(value) for value in (log[4].mean_loss, log[10].outcome)] == [type(None), Outcome]


def packed(path, names=range(1_500)):
    """A journal with a row of many records between rows of one."""
    many = [OrderGiven(1, name, f"run/1/{name}/train", "train", 1, "", "ab" * 32, name / 3) for name in names]
    edges = [EdgeAggregated(1, 2, tuple(names), tuple(map(str, names)), (1 / 3,) * len(names), "cd")]
    one = OrderGiven(1, 0, "one", "idle", -1)
    journal = SqliteJournal(path)
    journal.append(one)
    journal.extend(many)
    journal.append(one)
    journal.extend(edges)
    journal.close()
    return [one, *many, one, *edges]


@pytest.mark.parametrize("chunk", [1, 3, 20_000])
def test_many_records_in_a_row_come_back_equal_and_in_order(tmp_path, chunk):
    expected = packed(tmp_path / "events.sqlite")
    log = read_event_log(tmp_path / "events.sqlite", chunk)
    assert list(log) == expected
    assert [log[1], log[1500], log[-2]] == [expected[1], expected[1500], expected[-2]]
    assert log.count(OrderGiven) == 1_502
    assert log.array(OrderGiven, "distance_m").tolist() == [one.distance_m for one in expected[:-1]]
    assert log.table(EdgeAggregated).num_rows == 1
    with closing(EventTail(tmp_path / "events.sqlite")) as tail:
        assert [*tail.more(1), *tail.more(1), *tail.more(20_000)] == expected
        assert tail.more(1) == []
    with closing(sqlite3.connect(tmp_path / "events.sqlite")) as connection:
        rows, size = connection.execute("SELECT count(*), sum(length(body)) FROM event").fetchone()
    assert rows == 4
    assert size < 20 * len(expected)


def test_a_row_of_many_records_that_is_damaged_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "events.sqlite"
    packed(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        (body,) = connection.execute("SELECT body FROM event WHERE id = 2").fetchone()
    table = COLUMNS[OrderGiven].table([OrderGiven(1, 0, "one", "idle", -1)])
    for wrong, why in {
        body[:-40]: "damaged",
        body[:2_000] + bytes(200) + body[2_200:]: "damaged",
        COLUMNS[OrderAnswered].pack(COLUMNS[OrderAnswered].table([LOG[4]])): "unknown field 'coding_s'",
        COLUMNS[OrderGiven].pack(table.drop_columns(["step"])): "step: missing",
        COLUMNS[OrderGiven].pack(table.slice(1)): "0 records",
        COLUMNS[OrderGiven].pack(table.set_column(3, "kind", [["nap"]])): "kind: not a value of OrderGiven",
    }.items():
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE event SET body = ? WHERE id = 2", (wrong,))
        with pytest.raises(RunError, match=f"events.sqlite: event 2: .*{why}"):
            read_event_log(path)


def test_a_field_that_was_added_since_has_its_default_in_rows_of_many(tmp_path):
    path = tmp_path / "events.sqlite"
    (one, *_) = packed(path)
    columns = COLUMNS[OrderGiven]
    body = columns.pack(columns.table([one, one]).drop_columns(["paced_mbit_s", "link"]))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE event SET body = ? WHERE id = 2", (body,))
    assert read_event_log(path)[1:3] == (one, one)


def test_a_log_is_a_sequence(path):
    log = read_event_log(path)
    assert len(log) == len(LOG)
    assert (log[0], log[5], log[-1]) == (LOG[0], LOG[5], LOG[-1])
    assert log[2:-3] == tuple(LOG[2:-3])
    with pytest.raises(IndexError):
        log[len(LOG)]
    assert EventLog.of(log) is log
    assert list(EventLog.of(LOG)) == LOG
    assert list(EventLog.of([])) == []


def test_kinds_are_read_alone_and_together_in_the_logs_order(path):
    log = read_event_log(path)
    assert list(log.only(StepClosed)) == [LOG[6], LOG[11]]
    assert list(log.only(StepClosed, OrderAnswered)) == [LOG[4], LOG[5], LOG[6], LOG[11]]


def test_columns_hold_the_fields(path):
    log = read_event_log(path)
    assert log.array(OrderGiven, "throughput_mbit_s").tolist() == [1000.0, 20.0]
    assert log.array(OrderGiven, "device").dtype == np.int64
    assert log.texts(OrderGiven, "link").to_pylist() == ["wifi", "lte"]
    assert log.codes(OrderGiven, "link", ["lte", "3g"]).tolist() == [-1, 0]
    assert log.missing(OrderAnswered, "mean_loss").tolist() == [True, False]
    items, lengths = log.lists(StepOpened, "distances_m")
    assert (items.tolist(), lengths.tolist()) == ([10.5, 100.0], [2, 0])
    assert math.isnan(log.array(StepClosed, "accuracy")[0])


def test_answers_find_their_orders_the_last_one_of_a_name():
    given = [OrderGiven(step, 0, name, "train", 0) for step, name in enumerate("aba")]
    answers = [OrderAnswered(3, 0, name, "done") for name in "abc"]
    assert EventLog.of([*given, *answers]).answered.tolist() == [2, 1, -1]


def test_an_empty_log_has_empty_columns(tmp_path):
    SqliteJournal(tmp_path / "events.sqlite").close()
    log = read_event_log(tmp_path / "events.sqlite")
    assert (len(log), list(log), log.answered.tolist()) == (0, [], [])
    assert [column.tolist() for column in log.lists(StepOpened, "devices")] == [[], []]


def test_what_older_versions_wrote_reads_as_row_by_row(path):
    """A field that was not there is its default: 0.0, where null would mean that nothing was computed."""
    add(path, "OrderAnswered", json.dumps({"step": 1, "device": 0, "order_id": "old", "status": "done"}))
    add(path, "StepOpened", '{"distances_m": [5], "step": 2, "devices": [0], "aps": [0]}')
    closed = {"step": 2, "aggregated": 0, "outstanding": [], "participating_aps": []}
    add(path, "StepClosed", json.dumps({**closed, "accuracy": math.nan, "loss": math.inf, "wall_s": 1}))
    log = read_event_log(path)
    assert [repr(record) for record in log] == [repr(record) for record in row_by_row(path)]
    assert log[-3] == OrderAnswered(1, 0, "old", "done", mean_loss=0.0)
    assert log[-2] == StepOpened(2, (0,), (0,), (5.0,))
    assert math.isnan(log[-1].accuracy)
    assert log[-1].loss == math.inf


GOOD = {"step": 1, "device": 0, "train_order_id": "t", "outcome": "wasted", "reason": ""}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("StepExploded", "{}"),
        ("OutcomeDecided", "{}"),
        ("OutcomeDecided", json.dumps({**GOOD, "outcome": "eaten"})),
        ("OutcomeDecided", json.dumps({**GOOD, "device": "zero"})),
        ("OutcomeDecided", json.dumps({**GOOD, "device": None})),
        ("OutcomeDecided", json.dumps({**GOOD, "device": 1.5})),
        ("OutcomeDecided", json.dumps({**GOOD, "colour": 1})),
        ("OutcomeDecided", json.dumps(list(GOOD))),
        ("OutcomeDecided", json.dumps(GOOD) + json.dumps(GOOD)),
        ("OutcomeDecided", ""),
        ("OutcomeDecided", "[" * 100_000),
        ("StepOpened", '{"step":0,"devices":[null],"aps":[0],"distances_m":[1.0]}'),
        ("ClockProbed", "null"),
    ],
)
def test_what_cannot_be_read_is_named_as_row_by_row(path, kind, body):
    add(path, kind, body)
    with pytest.raises(RunError, match=rf"events\.sqlite: event {len(LOG) + 1}") as told:
        read_event_log(path)
    with pytest.raises(RunError) as expected:
        row_by_row(path)
    assert str(told.value) == str(expected.value)


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"step": \x00', 7, b'{"step":"\xff"}'])
def test_bytes_that_are_no_text_are_refused_with_the_row(path, body):
    add(path, "OutcomeDecided", body)
    with pytest.raises(RunError, match=rf"events\.sqlite: event {len(LOG) + 1}: OutcomeDecided"):
        read_event_log(path)


def test_two_objects_in_one_row_are_not_made_up_for_by_an_empty_row(path):
    add(path, "OutcomeDecided", json.dumps(GOOD) + json.dumps(GOOD))
    add(path, "OutcomeDecided", "{ }")
    with pytest.raises(RunError, match=f"event {len(LOG) + 1}: OutcomeDecided: not JSON"):
        read_event_log(path)


def test_a_number_that_fits_no_column_is_refused(path):
    add(path, "OutcomeDecided", json.dumps({**GOOD, "device": 2**64}))
    with pytest.raises(RunError, match="OutcomeDecided: a number of more than 64 bits"):
        read_event_log(path)
