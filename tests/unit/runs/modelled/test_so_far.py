"""Modelled joules of virtual devices while their run goes on, beside the ledger of the finished run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from roambench.contract.phases import Phase
from roambench.rounds.records import EnergySeen, OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import energy_model, ledger_of_log
from roambench.runs.modelled.so_far import ModelledSoFar
from small_runs import simulated

pytestmark = pytest.mark.asyncio


class Notebook:
    """A journal in memory."""

    def __init__(self) -> None:
        self.records: list[RoundRecord] = []

    def append(self, record: RoundRecord) -> None:
        self.records.append(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        self.records.extend(records)


async def test_what_is_known_at_the_end_is_the_ledger_of_the_run(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    with RunFolder.open(tmp_path / "run") as folder:
        found = await ModelledSoFar(folder, Notebook()).of(range(len(folder.info.device_names)))
        model, rate = energy_model(folder)
        ledger = ledger_of_log(folder.read_log(), folder.info.device_names, model, rate, folder.info.rest_s)
    for device, spent in found.items():
        rows = ledger.device == device
        assert spent.total.joules == pytest.approx(float(ledger.gross_j[rows].sum()), rel=1e-12)
        for phase, energy in spent.phases.items():
            expected = float(ledger.gross_j[rows & ledger.of_phase(phase)].sum())
            assert energy.joules == pytest.approx(expected, rel=1e-12)
    assert list(found[0].phases) == [Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD]
    assert sum(spent.total.joules for spent in found.values()) > 0.0


async def test_records_are_passed_on_and_counted_once(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    notebook = Notebook()
    with RunFolder.open(tmp_path / "run") as folder:
        so_far = ModelledSoFar(folder, notebook)
        before = (await so_far.of((0,)))[0].total.joules
        assert (await so_far.of((0,)))[0].total.joules == before
        again = [record for record in folder.read_log() if isinstance(record, OrderGiven | OrderAnswered)]
        so_far.append(again[0])
        so_far.extend((*again[1:], EnergySeen(2, (), (), (), (), (), ())))
        assert (await so_far.of((0,)))[0].total.joules == pytest.approx(2 * before, rel=1e-12)
        assert (await so_far.of((99,)))[99].total.joules == 0.0
    assert [type(record) for record in notebook.records] == [*map(type, again), EnergySeen]
