"""A part of a run's folder that was lost, or is another run's, is told: by resume, and by the report."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from cut_runs import QUIET, Cut, CutShort, cut_short
from roambench.contract.errors import RunError
from roambench.contract.records import Reading, RecordKind
from roambench.experiment.sections import Experiment
from roambench.report.report import report
from roambench.runner.composition import run_experiment
from roambench.runner.resuming import ended_by_others, resume_run
from roambench.runs.checkpoint_file import read_checkpoint, write_checkpoint
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

EXPERIMENT = Experiment.model_validate(
    {
        "name": "e",
        "systems": ["mohawk"],
        "trace": {
            "generator": "city",
            "steps": 10,
            "parameters": {"presence": "checkins", "devices": 8, "steps": 10},
        },
        "fleet": {"agents": 4, "aps": 2},
        "learning": {"dataset": "digits", "model": "mlp", "images_per_device": 20, "test_images": 20},
    }
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)


def cut(runs_dir: Path) -> Path:
    CutShort.left = 24
    with pytest.raises(Cut):
        run_experiment(EXPERIMENT, fleet="simulated", runs_dir=runs_dir, console=QUIET, fresh=True)
    CutShort.left = -1
    return (runs_dir / "e" / "latest" / "mohawk").resolve()


def lose_log(run: Path) -> None:
    for path in run.glob("events.sqlite*"):
        path.unlink()


def empty_log(run: Path) -> None:
    lose_log(run)
    (run / "events.sqlite").touch()


def cut_log(run: Path) -> None:
    with closing(sqlite3.connect(run / "events.sqlite")) as log, log:
        log.execute("DELETE FROM event WHERE id > 3")
    log.close()


def another_log(run: Path) -> None:
    """That of the same experiment, which another start made."""
    other = cut(run.parents[2])
    for path in other.glob("events.sqlite*"):
        shutil.copy(path, run)


def another_checkpoint(run: Path) -> None:
    shutil.copy(cut(run.parents[2]) / "checkpoint.json", run)


def lose_checkpoint(run: Path) -> None:
    (run / "checkpoint.json").unlink()


def lose_trace(run: Path) -> None:
    (run / "trace.parquet").unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lose_log, "cannot be resumed: events.sqlite is not there, so what came before would be missing"),
        (empty_log, "cannot be resumed: events.sqlite is not the event log that this run wrote"),
        (cut_log, r"cannot be resumed: events.sqlite has 3 of \d+ rows"),
        (another_log, "cannot be resumed: events.sqlite is not the event log that this run wrote"),
        (another_checkpoint, "cannot be resumed: events.sqlite is not the event log that this run wrote"),
        (lose_checkpoint, "nothing to resume: its checkpoint.json is not there, though steps were closed"),
        (lose_trace, "cannot be resumed: trace.parquet is not there"),
    ],
)
def test_a_run_that_lost_a_part_is_not_gone_on_with(
    tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    run = cut(tmp_path)
    change(run)
    before = {path: path.read_bytes() for path in run.glob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(RunError, match=words):
        resume_run(run, QUIET)
    after = {path: path.read_bytes() for path in run.glob("*") if path.is_file() and path.name != "lock"}
    assert {path.name for path in after} - {path.name for path in before} <= {
        "events.sqlite-shm",
        "events.sqlite-wal",
    }
    assert after[run / "run.json"] == before[run / "run.json"]


def test_a_folder_of_runs_names_one_whose_checkpoint_is_lost(tmp_path: Path) -> None:
    run = cut(tmp_path)
    with RunFolder.open(run, write=True) as folder:
        folder.update(state=RunState.INTERRUPTED, reason="the machine was booted")
    lose_checkpoint(run)
    assert ended_by_others(tmp_path) == [run]


def test_readings_that_were_stored_are_missed(tmp_path: Path) -> None:
    run = cut(tmp_path)
    with RunFolder.open(run, write=True) as folder:
        folder.journal  # noqa: B018
        reading = Reading(monotonic_ns=7, volts=5.0, amps=0.5, watts=2.5)
        folder.records.insert("pi-01", "spool", [(4, int(RecordKind.READING), reading.to_bytes())])
        folder.update()
    for path in run.glob("records.sqlite*"):
        path.unlink()
    with pytest.raises(RunError, match=r"cannot be resumed: records\.sqlite is not there"):
        resume_run(run, QUIET)
    shutil.copy(cut(tmp_path / "other") / "records.sqlite", run)
    with pytest.raises(RunError, match=r"cannot be resumed: records\.sqlite lacks records of pi-01 that"):
        resume_run(run, QUIET)


def test_a_run_of_an_older_version_that_marked_nothing_goes_on(tmp_path: Path) -> None:
    run = cut(tmp_path)
    with closing(sqlite3.connect(run / "events.sqlite")) as log, log:
        log.execute("PRAGMA user_version = 0")
    log.close()
    checkpoint = read_checkpoint(run)
    assert checkpoint is not None
    write_checkpoint(run, type(checkpoint)(1, checkpoint.rounds, checkpoint.made_with, checkpoint.fleet))
    with RunFolder.open(run, write=True) as folder:
        folder.update(marks=type(folder.info.marks)())
    text = io.StringIO()
    resume_run(run, Console(file=text, width=2000))
    assert RunFolder.open(run).info.state is RunState.FINISHED


def test_a_report_names_each_part_that_its_run_lost(tmp_path: Path) -> None:
    (run,) = run_experiment(EXPERIMENT, fleet="simulated", runs_dir=tmp_path, console=QUIET)
    assert not any("incomplete" in flag for flag in report([run]).summaries[0].flags)
    (run / "models/global.safetensors").unlink()
    cut_log(run)
    flags = [flag for flag in report([run]).summaries[0].flags if "incomplete" in flag]
    assert len(flags) == 2
    assert flags[0].startswith("events.sqlite has 3 of ")
    assert flags[1].startswith("models/global.safetensors is not there: ")
    lose_log(run)
    lost = report([run])
    assert lost.summaries == ()
    (half,) = lost.halves
    assert "events.sqlite: no such file" in half.problem
