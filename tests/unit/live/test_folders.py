"""A run, a group of runs, a folder of runs; and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.live.folders import WatchedFolder
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from small_runs import measured, simulated


def begun(path: Path, created: str, system: str = "mohawk", trace: str = "t") -> None:
    measured(path)
    with RunFolder.open(path, write=True) as folder:
        folder.update(created_utc=created, system=system, trace_hash=trace)


def test_a_run_a_group_and_all_runs(tmp_path: Path) -> None:
    begun(tmp_path / "runs/old", "2026-01-01T00:00:00+00:00")
    group = tmp_path / "runs/demo/2026-02-02T0000"
    begun(group / "mohawk", "2026-02-02T00:00:00+00:00")
    begun(group / "hierfavg", "2026-02-02T00:05:00+00:00", "hierfavg")
    (tmp_path / "runs/demo/latest").symlink_to(group.name)
    everything = WatchedFolder(tmp_path / "runs")
    assert [run.name for run in everything.runs()] == [
        "demo/2026-02-02T0000/hierfavg",
        "demo/2026-02-02T0000/mohawk",
        "old",
    ]
    newest = everything.chosen()
    assert newest is not None
    assert newest.name == "demo/2026-02-02T0000/hierfavg"
    assert [run.name for run in WatchedFolder(tmp_path / "runs/demo/latest").runs()] == ["hierfavg", "mohawk"]
    one = WatchedFolder(group / "mohawk")
    assert [run.name for run in one.runs()] == ["hierfavg", "mohawk"]
    chosen = one.chosen()
    assert chosen is not None
    assert chosen.name == "mohawk"


def test_the_run_before_is_of_another_system_on_the_same_movement(tmp_path: Path) -> None:
    begun(tmp_path / "a", "2026-01-01", "hierfavg")
    begun(tmp_path / "b", "2026-01-02", "mohawk")
    begun(tmp_path / "c", "2026-01-03", "mohawk")
    begun(tmp_path / "d", "2026-01-04", "hierfavg", "another movement")
    folder = WatchedFolder(tmp_path)
    named = {run.name: run for run in folder.runs()}
    before = {name: folder.previous(run) for name, run in named.items()}
    assert {name: run and run.name for name, run in before.items()} == {
        "a": None,
        "b": "a",
        "c": "a",
        "d": None,
    }


def test_what_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty/deep").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    for name, problem in (
        ("nowhere", "no such folder; expected a run, a group of runs, or a folder of runs"),
        ("file", "not a folder; expected a run, a group of runs, or a folder of runs"),
        ("empty", "no run in it (nothing there has a run.json)"),
    ):
        with pytest.raises(RunError) as told:
            WatchedFolder(tmp_path / name)
        assert str(told.value) == f"{tmp_path / name}: {problem}"


def test_a_damaged_run_is_listed_with_what_is_wrong_and_names_lead_nowhere_else(tmp_path: Path) -> None:
    simulated(tmp_path / "runs/good")
    (tmp_path / "runs/bad").mkdir()
    (tmp_path / "runs/bad/run.json").write_text("{")
    measured(tmp_path / "secret")
    folder = WatchedFolder(tmp_path / "runs")
    bad = folder.run("bad")
    assert bad is not None
    assert bad.info is None
    assert "not JSON" in bad.problem
    for name in ("../secret", "good/../../secret", str(tmp_path / "secret"), "", "."):
        assert folder.run(name) is None


def test_a_run_that_goes_on_is_chosen_before_a_newer_one_that_is_over(tmp_path: Path) -> None:
    begun(tmp_path / "resumed", "2026-01-01T00:00:00+00:00")
    begun(tmp_path / "over", "2026-02-01T00:00:00+00:00")
    folder = WatchedFolder(tmp_path)
    assert [run.name for run in (folder.chosen(),) if run] == ["over"]
    with RunFolder.open(tmp_path / "resumed", write=True) as run:
        run.update(state=RunState.RUNNING)
        assert [run.name for run in (folder.chosen(),) if run] == ["resumed"]
        run.update(state=RunState.FINISHED)
    assert [run.name for run in (folder.chosen(),) if run] == ["over"]


def test_of_a_command_only_its_own_runs_are_chosen(tmp_path: Path) -> None:
    begun(tmp_path / "older", "2026-01-01T00:00:00+00:00")
    folder = WatchedFolder(tmp_path, since_utc="2026-01-02T00:00:00+00:00")
    assert folder.chosen() is None
    begun(tmp_path / "own", "2026-01-02T00:00:00+00:00")
    assert [run.name for run in (folder.chosen(),) if run] == ["own"]


def test_a_sweep_is_watched_as_the_runs_of_its_points(tmp_path: Path) -> None:
    places = [f"points/m-{seed}/runs/mohawk" for seed in (1, 2)]
    for place in (*places, "points/m-1/attempts/001/runs/mohawk"):
        (tmp_path / "grid" / place).mkdir(parents=True)
        (tmp_path / "grid" / place / "run.json").write_text("{}")
    assert sorted(run.name for run in WatchedFolder(tmp_path / "grid").runs()) == places
    assert len(WatchedFolder(tmp_path).runs()) == 2
