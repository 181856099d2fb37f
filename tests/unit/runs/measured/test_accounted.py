"""Accounts of this process: made once, and again when what they are made of has changed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import Reading, RecordKind, phase_to_bytes
from roambench.report.summaries.evidence import read_runs
from roambench.rounds.records import StepOpened
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.measured import accounts
from roambench.runs.measured.accounted import energy_of
from roambench.runs.measured.accounts import RunEnergy, account_run
from small_runs import a_run

S = 1_000_000_000


def reading(second: int) -> bytes:
    return Reading(second * S, 5.0, 0.4, 2.0, math.nan).to_bytes()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    """One board at 2 W for a minute."""
    folder = a_run(tmp_path / "run", "local")
    folder.journal.append(StepOpened(0, (0,), (0,), (50.0,)))
    records = [(second, RecordKind.READING, reading(second)) for second in range(60)]
    span = PhaseSpan("pi-01", "b", Phase.IDLE, -1, 0, 60 * S)
    folder.records.insert("pi-01", "s", [*records, (60, RecordKind.PHASE, phase_to_bytes(span))])
    folder.update(start_device_ns=0, end_device_ns=60 * S)
    yield folder
    folder.close()


def account(run: RunFolder) -> RunEnergy:
    energy = energy_of(run, run.read_log())
    assert energy is not None
    return energy


def test_export_and_report_share_one_account(run: RunFolder) -> None:
    export_run(run)
    made = account(run)
    run.close()
    (evidence,) = read_runs([run.path])
    assert evidence.energy is made


def drained(run: RunFolder) -> None:
    run.records.insert("pi-01", "s", [(61, RecordKind.READING, reading(60))])


def journalled(run: RunFolder) -> None:
    run.journal.append(StepOpened(1, (0,), (0,), (50.0,)))
    run.journal.sync()


def cut_shorter(run: RunFolder) -> None:
    run.update(end_device_ns=50 * S)


def calibrated(run: RunFolder) -> None:
    path = run.path / "experiment.json"
    values = json.loads(path.read_text("utf-8"))
    values["energy"]["idle_baseline_s"] += 1.0
    path.write_text(json.dumps(values), "utf-8")


def true_energy_known(run: RunFolder) -> None:
    (run.path / "truth" / "pi-01.csv").write_text(f"ns,watts,idle_watts\n{-S},2.0\n{100 * S},\n")


@pytest.mark.parametrize("change", [drained, journalled, cut_shorter, calibrated, true_energy_known])
def test_an_account_is_made_again_after_a_change(run: RunFolder, change: Callable[[RunFolder], None]) -> None:
    before = account(run)
    assert account(run) is before
    change(run)
    assert account(run) is not before


def test_a_run_of_too_many_readings_is_accounted_each_time(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roambench.runs.measured.accounted._MAX_READINGS", 59)
    assert account(run) is not account(run)


def test_a_long_run_reads_its_readings_again_and_has_the_same_account(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (short,) = account_run(run, run.read_log()).devices
    monkeypatch.setattr(accounts, "_MOST_KEPT", 59)  # one less than there are
    (long,) = account_run(run, run.read_log()).devices
    assert (long.rows, long.whole_run, long.lines.count) == (short.rows, short.whole_run, 60)
    assert short.readings is short.readings
    assert long.readings is not long.readings
    assert len(short.account.curve.at_s) > len(long.account.curve.at_s) == 0
    run.close()
    assert long.readings.watts.tolist() == short.readings.watts.tolist() == [2.0] * 60
    assert long.samples.ns.tolist() == short.samples.ns.tolist()
