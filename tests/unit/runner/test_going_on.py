"""Whole runs on virtual devices, stopped at many moments and gone on with, end as if nothing had been.

Real kills of real processes are in tests/local/test_resumed_runs.py.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from cut_runs import QUIET, Cut, CutShort, cut_short
from roambench.contract.json_values import from_file
from roambench.experiment.sections import Experiment, resolved
from roambench.rounds.records import RunResumed, StepClosed
from roambench.runner.composition import run_experiment
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runner.world import versions
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import load_model
from roambench.study.sweep import point_process
from roambench.study.sweep.left_runs import tell_which_begin_again
from roambench.study.sweep.points import Point
from roambench.study.sweep.sweep_folder import PointEnd, PointFile, SweepFolder, write_outcome

LEARNING = {"dataset": "digits", "model": "mlp", "images_per_device": 20, "test_images": 20}
#: The first model that is scored is good enough.
AT_ONCE = {"cloud_every_steps": 2, "stop_at_threshold": True, "accuracy_threshold": 0.001}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)


def rounds(*systems: str, **more: object) -> Experiment:
    walk = {"presence": "checkins", "devices": 8, "steps": 14}
    return Experiment.model_validate(
        {
            "name": "e",
            "systems": list(systems),
            "rounds": {"cloud_every_steps": 3},
            "trace": {"generator": "city", "steps": 14, "window": "busiest", "parameters": walk},
            "fleet": {"agents": 8, "aps": 3},
            "learning": LEARNING,
            **more,
        }
    )


def peers(system: str) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "e",
            "systems": [system],
            "fleet": {"agents": 5},
            "mobility": {"model": "reflected_walk"},
            "decentralised": {"iterations": 14, "evaluate_every": 5},
            "learning": {**LEARNING, "momentum": 0.9},
        }
    )


def play(experiment: Experiment, runs_dir: Path, cuts: Sequence[int] = (), **more: bool) -> Path:
    """Run it; stopped after so many batches, gone on with by the same command, stopped after so many, ..."""
    for cut in cuts:
        CutShort.left = cut
        with pytest.raises(Cut):
            run_experiment(experiment, fleet="simulated", runs_dir=runs_dir, console=QUIET, **more)
    CutShort.left = -1
    return run_experiment(experiment, fleet="simulated", runs_dir=runs_dir, console=QUIET, **more)[-1]


def told(run: Path) -> tuple[list[object], dict[str, object], np.ndarray]:
    """Records and tables but for what a clock said, and the model."""
    with RunFolder.open(run) as folder:
        assert folder.info.state is RunState.FINISHED
        records = [
            dataclasses.replace(record, wall_s=0.0) if isinstance(record, StepClosed) else record
            for record in folder.read_log()
            if not isinstance(record, RunResumed)
        ]
    found = {path.name: pq.read_table(path) for path in run.glob("*.parquet")}
    found["steps.parquet"] = found["steps.parquet"].drop_columns(["wall_s"])
    return records, found, load_model(run / GLOBAL_MODEL)


def resumptions(run: Path) -> int:
    with RunFolder.open(run) as folder:
        return folder.read_log().count(RunResumed)


@pytest.mark.parametrize(
    "experiment",
    [
        rounds("mohawk"),  # trainings are deferred
        rounds("middle"),  # devices have models of their own
        rounds("hierfavg", simulated={"train": "always"}),
        rounds("mohawk", rounds=AT_ONCE),
        peers("d_psgd"),
    ],
    ids=["mohawk", "middle", "hierfavg", "stops_early", "d_psgd"],
)
def test_a_run_stopped_at_many_moments_ends_as_one_left_alone(tmp_path: Path, experiment: Experiment) -> None:
    whole = play(experiment, tmp_path / "whole")
    batches = -1 - CutShort.left
    few = batches < 40
    draws = np.random.default_rng(7)
    cuts = [batches] if few else [int(draws.integers(8, 20)), *draws.integers(4, 20, size=3).tolist()]
    run = play(experiment, tmp_path / "cut", cuts)
    assert run.name == whole.name
    records, tables, model = told(run)
    expected_records, expected_tables, expected_model = told(whole)
    assert records == expected_records
    assert tables == expected_tables
    assert (model == expected_model).all()
    assert resumptions(run) == len(cuts)
    assert not (run / "simulation").exists()
    assert not (run / "checkpoint.json").exists()


def test_fresh_begins_anew_and_leaves_what_was_there(tmp_path: Path) -> None:
    experiment = rounds("mohawk")
    CutShort.left = 12
    with pytest.raises(Cut):
        run_experiment(experiment, fleet="simulated", runs_dir=tmp_path, console=QUIET)
    run = play(experiment, tmp_path, fresh=True)
    first, second = sorted(path for path in (tmp_path / "e").iterdir() if not path.is_symlink())
    assert (tmp_path / "e" / "latest").resolve() == run.parent == second
    assert resumptions(run) == 0
    assert RunFolder.open(first / "mohawk").info.state is RunState.INTERRUPTED


def test_an_experiment_goes_on_with_the_system_that_was_cut_off(tmp_path: Path) -> None:
    experiment = rounds("mohawk", "middle")
    play(rounds("mohawk"), tmp_path / "alone")
    CutShort.left = 20 - 1 - CutShort.left  # in the second system
    with pytest.raises(Cut):
        run_experiment(experiment, fleet="simulated", runs_dir=tmp_path / "both", console=QUIET)
    mohawk, middle = tmp_path / "both/e/latest/mohawk", tmp_path / "both/e/latest/middle"
    assert RunFolder.open(mohawk).info.state is RunState.FINISHED
    before = (mohawk / "run.json").stat().st_mtime_ns
    assert play(experiment, tmp_path / "both") == middle.resolve()
    assert resumptions(middle) == 1
    assert (mohawk / "run.json").stat().st_mtime_ns == before
    assert sorted(path.name for path in mohawk.parent.iterdir()) == ["middle", "mohawk"]


def test_a_point_of_a_sweep_goes_on_where_it_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = PointFile("k", "simulated", resolved(rounds("mohawk")))
    (tmp_path / "point.json").touch()
    CutShort.left = 20
    with pytest.raises(Cut):
        point_process._carried_out(tmp_path, described)
    clock = SimpleNamespace(monotonic=lambda: 0.0)  # this session takes no time
    monkeypatch.setattr(point_process, "time", clock)
    ended, run = point_process._carried_out(tmp_path, described), tmp_path / "runs" / "mohawk"
    assert ended.finished
    with RunFolder.open(run) as folder:
        assert ended.wall_s == math.fsum(one.wall_s for one in folder.read_log().only(StepClosed)) > 0.0
    assert datetime.fromisoformat(ended.ended) >= datetime.fromisoformat(ended.began)
    assert resumptions(run) == 1


def test_what_cannot_go_on_of_an_interrupted_point_is_kept_and_told(tmp_path: Path) -> None:
    """An update of roambench between two sessions of a sweep costs no hour that was recorded."""
    point = Point((), rounds("mohawk"), "simulated", "0" * 32)
    sweep, put_back, told = SweepFolder(tmp_path), SweepFolder(tmp_path / "again"), list[str]()
    folder = sweep.prepare(point, 1)
    described = from_file(PointFile, folder / "point.json")
    run = folder / "runs" / "mohawk"

    def begun_by_other_code() -> bytes:
        CutShort.left = 20
        with pytest.raises(Cut):
            point_process._carried_out(folder, described)
        tell_which_begin_again([point], sweep, told.append)  # it goes on
        kept = json.loads((run / "checkpoint.json").read_text())
        kept["made_with"]["roambench code"] = "0" * 64
        (run / "checkpoint.json").write_text(json.dumps(kept))
        return (run / "run.json").read_bytes()

    first = begun_by_other_code()
    for _ in range(2):
        tell_which_begin_again([point], sweep, told.append)
    aside = folder / "attempts" / "001" / "runs"
    assert told == [
        f"{point.label} begins again; what it recorded is kept in {aside}: {run}: cannot be resumed: "
        "roambench code changed since it was begun, so it would not end as it would have"
    ]
    known = json.loads((aside / "mohawk" / "checkpoint.json").read_text())
    known["made_with"]["roambench code"] = versions()["roambench code"]
    shutil.copytree(aside, put_back.folder_of(point) / "runs")
    (put_back.folder_of(point) / "runs" / "mohawk" / "checkpoint.json").write_text(json.dumps(known))
    tell_which_begin_again([point], put_back, told.append)  # with what was there it goes on
    assert point_process._carried_out(put_back.folder_of(point), described).finished
    assert resumptions(put_back.folder_of(point) / "runs" / "mohawk") == 1

    second = begun_by_other_code()  # and is not found before the point's own process runs
    assert point_process._carried_out(folder, described).finished
    for number, infos in enumerate((first, second), 1):
        kept = folder / "attempts" / f"00{number}" / "runs" / "mohawk"
        assert (kept / "run.json").read_bytes() == infos
        assert RunFolder.open(kept).read_log().count(StepClosed)
    assert resumptions(run) == 0
    assert len(told) == 1
    assert sweep.attempt_of(point) == 3
    assert sweep.tries_of(point) == []  # neither was one


def cut_off(point: Point, sweep: SweepFolder) -> Path:
    """The folder of the point, whose run was cut off behind its first checkpoint."""
    folder = sweep.prepare(point, 1)
    CutShort.left = 20
    with pytest.raises(Cut):
        point_process._carried_out(folder, from_file(PointFile, folder / "point.json"))
    return folder


def test_a_point_of_other_settings_in_its_place_is_kept_too(tmp_path: Path) -> None:
    """The key of a point leaves out names: that of its experiment changed."""
    sweep, told = SweepFolder(tmp_path), list[str]()
    folder = cut_off(Point((), rounds("mohawk"), "simulated", "0" * 32), sweep)
    tell_which_begin_again([Point((), rounds("mohawk", name="f"), "simulated", "0" * 32)], sweep, told.append)
    assert [
        one.endswith("it was begun with other settings, or finished with other code") for one in told
    ] == [True]
    assert (folder / "attempts" / "001" / "runs" / "mohawk" / "run.json").is_file()


def test_the_sweep_leaves_failed_points_and_those_that_cannot_be_looked_at(tmp_path: Path) -> None:
    sweep, told = SweepFolder(tmp_path), list[str]()
    point = Point((), rounds("mohawk"), "simulated", "0" * 32)
    folder = cut_off(point, sweep)
    (folder / "runs" / "mohawk" / "checkpoint.json").write_text("{}")
    write_outcome(folder, PointEnd(point.key, {}, "the fleet is gone"))
    tell_which_begin_again([point], sweep, told.append)  # failed: its try is put aside as a whole
    (folder / "result.json").unlink()
    (folder / "runs" / "mohawk" / "lock").unlink()
    (folder / "runs" / "mohawk" / "lock").symlink_to("lock")  # cannot be opened
    tell_which_begin_again([point], sweep, told.append)
    assert told == []
    assert (folder / "runs" / "mohawk" / "run.json").is_file()


def test_of_runs_that_cannot_go_on_the_latest_five_are_kept(tmp_path: Path) -> None:
    sweep, told = SweepFolder(tmp_path), list[str]()
    point = Point((), rounds("mohawk"), "simulated", "0" * 32)
    runs = cut_off(point, sweep) / "runs"
    text = json.loads((runs / "mohawk" / "checkpoint.json").read_text())
    text["made_with"]["roambench code"] = "0" * 64
    (runs / "mohawk" / "checkpoint.json").write_text(json.dumps(text))
    shutil.copytree(runs, tmp_path / "copy")
    for _ in range(6):
        shutil.copytree(tmp_path / "copy", runs, dirs_exist_ok=True)
        tell_which_begin_again([point], sweep, told.append)
    assert len(told) == 6
    found = sorted(path.parent.name for path in runs.parent.glob("attempts/*/runs"))
    assert found == ["002", "003", "004", "005", "006"]


def stopped_before_its_result(folder: Path, monkeypatch: pytest.MonkeyPatch, described: PointFile) -> Path:
    """A point whose run is finished; it was killed before its result was written."""

    def killed(*arguments: object, **more: object) -> None:
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(point_process.PointEnd, "of", killed)
        with pytest.raises(Cut):
            point_process._carried_out(folder, described)
    return folder / "runs" / "mohawk"


def test_a_finished_run_of_a_point_without_a_result_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = PointFile("k", "simulated", resolved(rounds("mohawk")))
    run = stopped_before_its_result(tmp_path, monkeypatch, described)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert point_process._carried_out(tmp_path, described).finished
    assert {name: (run / name).read_bytes() for name in before} == before
    with RunFolder.open(run, write=True) as folder:  # a package took part that is another now
        folder.update(code=({"package": "p", "version": "1", "modules": ["p"], "sha256": "0", "needs": []},))
    assert point_process._carried_out(tmp_path, described).finished
    assert RunFolder.open(run).info.code == ()


def test_a_run_of_a_point_that_somebody_goes_on_with_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = PointFile("k", "simulated", resolved(rounds("mohawk")))
    run = stopped_before_its_result(tmp_path, monkeypatch, described)
    with RunFolder.open(run, write=True):
        outcome = point_process._carried_out(tmp_path, described)
    assert f"{run}: process {os.getpid()} is writing this run" in outcome.reason
    assert RunFolder.open(run).info.state is RunState.FINISHED
