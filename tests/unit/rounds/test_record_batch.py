"""Records as columns: the same records, one by one, as those that small steps write."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from roambench.rounds.loop import run_rounds
from roambench.rounds.record_batch import MANY, RecordBatch
from roambench.rounds.records import OrderAnswered, OrderGiven, OutcomeDecided, RoundRecord
from roambench.rounds.rehearsal import MemoryJournal, RehearsalFleet
from roambench.rounds.run import RunSettings
from roambench.runs.event_log import read_event_log
from roambench.runs.journal import SqliteJournal
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions

from .conftest import random_trace

PRESENT = 10.0  # the trace's chance to stay, above 1: once there, always there


class BatchJournal(MemoryJournal):
    """Keeps which kinds came as columns."""

    def extend(self, records):
        self.batches = getattr(self, "batches", [])
        self.batches += [records] if isinstance(records, RecordBatch) else []
        super().extend(records)


def rehearsed(name: str, devices: int, journal) -> None:
    trace = random_trace(4, devices=devices, steps=6, aps=3, back=PRESENT)
    system = make_system(name, SystemOptions(k1=1, k2=2))
    samples = tuple(1 + device % 7 for device in range(devices))
    settings = RunSettings("many", 4, trace.steps, 3, samples, pace_links=True, orders_to_absent=False)
    asyncio.run(
        run_rounds(
            settings,
            system,
            system.association(trace, 4),
            RehearsalFleet(4, samples, model_bytes=11),
            journal,
            np.ones(4, dtype=np.float32),
            throughput=lambda distance_m, direction: distance_m + len(direction),
            stopwatch=lambda: 0.0,
        )
    )


@pytest.mark.parametrize("name", ["mohawk", "hierfavg", "middle"])
def test_big_steps_say_as_columns_what_small_ones_say_in_records(name, monkeypatch, tmp_path: Path):
    columns, log = BatchJournal(), SqliteJournal(tmp_path / "events.sqlite")
    rehearsed(name, 2 * MANY, columns)
    rehearsed(name, 2 * MANY, log)
    log.close()
    monkeypatch.setattr("roambench.rounds.loop.MANY", 10**9)
    one_by_one = MemoryJournal()
    rehearsed(name, 2 * MANY, one_by_one)
    if name != "middle":  # whose selection is of few
        assert {batch.kind for batch in columns.batches} == {OrderGiven, OrderAnswered, OutcomeDecided}
    assert by_kind(columns.records) == by_kind(one_by_one.records)
    assert by_kind(read_event_log(tmp_path / "events.sqlite")) == by_kind(one_by_one.records)


def by_kind(records) -> dict[type[RoundRecord], list[RoundRecord]]:
    groups: dict[type[RoundRecord], list[RoundRecord]] = {}
    for record in records:
        groups.setdefault(type(record), []).append(record)
    return groups


def test_a_batch_is_a_sequence_of_its_records():
    batch = RecordBatch.of(
        OutcomeDecided, 3, step=2, device=[4, 5, 6], train_order_id=["a", "b", "c"], outcome="wasted"
    )
    records = [OutcomeDecided(2, device, order, "wasted") for device, order in ((4, "a"), (5, "b"), (6, "c"))]
    assert list(batch) == records
    assert [batch[0], batch[-1], *batch[1:]] == [records[0], records[2], records[1], records[2]]
    assert len(batch[5:]) == 0
    with pytest.raises(IndexError):
        batch[3]
