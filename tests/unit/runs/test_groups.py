"""What a user names is runs: themselves, or a folder of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.runs.groups import new_group, runs_at


def made_run(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "run.json").write_text("{}")
    return path


def test_a_folder_of_runs_that_is_a_link_to_nowhere_is_refused(tmp_path: Path) -> None:
    """It went on for ever."""
    (tmp_path / "runs").symlink_to(tmp_path / "unplugged")
    with pytest.raises(RunError, match=r"runs: expected a folder, a link that leads nowhere is there"):
        new_group(tmp_path / "runs", "demo")


def test_a_run_and_what_holds_none_stay_as_they_are(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    named = [run, tmp_path / "empty", tmp_path / "none", run / "run.json"]
    assert runs_at(named) == named


def test_a_group_and_the_link_to_the_last_start_are_their_runs(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    for start in ("2026-11-27T1000", "2026-11-27T1100"):
        for system in ("mohawk", "hierfavg"):
            made_run(home / start / system)
    (home / "latest").symlink_to("2026-11-27T1100")
    first = home / "2026-11-27T1000"
    assert runs_at([first]) == [first / "hierfavg", first / "mohawk"]
    last = home / "latest"
    assert runs_at([last]) == [last / "hierfavg", last / "mohawk"]
    assert runs_at([home]) == [last / "hierfavg", last / "mohawk"]  # not those of all starts
    assert runs_at([home / "latest" / "mohawk"]) == [last / "mohawk"]


def test_a_sweep_is_the_runs_of_its_points(tmp_path: Path) -> None:
    home = tmp_path / "grid"
    points = [made_run(home / "points" / point / "runs" / "mohawk") for point in ("a-1", "b-2")]
    made_run(home / "points" / "a-1" / "attempts" / "001" / "runs" / "mohawk")
    assert runs_at([home]) == runs_at([tmp_path]) == points
    assert runs_at([home / "points" / "a-1"]) == points[:1]
