"""Looks at a run that goes on: each reads what is new, and finds what one look at all finds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roambench.contract.events import EventKind
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import AgentEvent, Reading, RecordKind, phase_to_bytes
from roambench.experiment.sections import Experiment
from roambench.rounds.records import StepOpened
from roambench.runs.folder import RunFolder
from roambench.runs.growing_records import GrowingRecords, Known
from roambench.runs.marks import RECORDS
from roambench.runs.measured.accounts import account_run
from roambench.runs.measured.so_far import MeasuredSoFar
from roambench.runs.record_store import RecordStore
from roambench.systems.system import SpentEnergy

S = 1_000_000_000
NAMES = ("pi-01", "pi-02")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    folder = RunFolder.create(
        tmp_path / "run",
        Experiment(seed=1),
        run_id="run",
        system="mohawk",
        trace_hash="",
        fleet="local",
        device_names=NAMES,
    )
    folder.journal.append(StepOpened(0, (0,), (0,), (50.0,)))
    folder.update(start_device_ns=0)
    yield folder
    folder.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many readings each query gave."""
    found: list[int] = []
    rows = RecordStore._rows

    def counted(self: RecordStore, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        given = rows(self, query, values)
        found.append(sum(len(row[-1]) == 52 for row in given if isinstance(row[-1], bytes)))
        return given

    monkeypatch.setattr(RecordStore, "_rows", counted)
    return found


def reading(second: int, number: int) -> bytes:
    watts = 2.0 + number + (second % 60 >= 30)
    return Reading(second * S, 5.0, 0.4, watts, math.nan).to_bytes()


def drain(run: RunFolder, minute: int) -> None:
    """A minute of each board, half of it a training; pi-02 has a new spool every other minute."""
    for number, name in enumerate(NAMES):
        spool = f"s{minute // 2 if number else 0}"
        first = 100 * minute
        rows = [
            (first + second, int(RecordKind.READING), reading(60 * minute + second, number))
            for second in range(60)
        ]
        for offset, (phase, start, end) in enumerate(((Phase.IDLE, 0, 30), (Phase.TRAIN, 30, 60))):
            at = 60 * minute
            span = PhaseSpan(name, "b", phase, minute, (at + start) * S, (at + end) * S, f"{minute}-{phase}")
            rows.append((first + 60 + offset, int(RecordKind.PHASE), phase_to_bytes(span)))
        event = AgentEvent(EventKind.METER_OK, 60 * minute * S)
        rows.append((first + 62, int(RecordKind.EVENT), event.to_bytes()))
        run.records.insert(name, spool, rows)


def whole(run: RunFolder) -> dict[str, SpentEnergy]:
    with RunFolder.open(run.path) as folder:
        energy = account_run(folder, folder.read_log())
    assert energy is not None
    return {one.device: SpentEnergy(one.whole_run, one.ledger.by_phase()) for one in energy.counted}


@pytest.mark.asyncio
async def test_each_look_reads_what_is_new_and_sees_what_the_whole_run_gives(
    run: RunFolder, read: list[int]
) -> None:
    so_far = MeasuredSoFar(run)
    for minute in range(6):
        drain(run, minute)
        read.clear()
        seen = await so_far.of((0, 1))
        assert sum(read) == 2 * 60
        assert {NAMES[device]: spent for device, spent in seen.items()} == whole(run)  # to the last bit
    assert seen[1].total.joules > seen[0].total.joules > 600.0
    read.clear()
    assert await so_far.of((0, 1)) == seen
    assert sum(read) == 0


def test_what_was_read_in_parts_is_what_the_store_has(run: RunFolder) -> None:
    known: Known = {}
    for minute in range(5):
        drain(run, minute)
        with closing(GrowingRecords(run.path / RECORDS, known)) as grown:
            for name in NAMES:
                store = run.records
                assert grown.spans(name) == store.spans(name)
                assert grown.events(name) == store.events(name)
                assert grown.placed(name, RecordKind.EVENT) == store.placed(name, RecordKind.EVENT)
                for one, other in (
                    (grown.readings(name), store.readings(name)),
                    (grown.placed_readings(name)[0], store.placed_readings(name)[0]),
                ):
                    for item in fields(one):
                        pair = getattr(one, item.name), getattr(other, item.name)
                        assert np.array_equal(*pair, equal_nan=True)
                assert grown.placed_readings(name)[1] == store.placed_readings(name)[1]
    assert len(grown.readings("pi-02")) == 300
