"""What MLflow's own client finds in a store of its own and behind a server of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roambench.report.tracked import tracked_runs
from small_runs import measured, simulated, swept
from tracker_room import TrackerRoom

pytestmark = pytest.mark.timeout(600)

READER = """\
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
found = {}
for run in client.search_runs([client.get_experiment_by_name(sys.argv[2]).experiment_id]):
    points = {
        name: [[point.step, point.value] for point in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
    }
    files = [file.path for file in client.list_artifacts(run.info.run_id)]
    found[run.info.run_name] = {
        "id": run.info.run_id, "status": run.info.status, "start": run.info.start_time,
        "params": run.data.params, "tags": run.data.tags, "points": points, "files": files,
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def room() -> TrackerRoom:
    return TrackerRoom()


def stored(room: TrackerRoom, uri: str, experiment: str, cwd: Path) -> dict[str, Any]:
    told = room.run("python", "-W", "ignore", "-c", READER, uri, experiment, cwd=cwd)
    assert told.returncode == 0, told.stderr
    return dict(json.loads(told.stdout.splitlines()[-1]))


def assert_stored(found: dict[str, Any], path: Path) -> None:
    (run,) = tracked_runs([path])
    assert found["status"] == "FINISHED"
    assert found["start"] == 1000 * run.began_s
    finals = {name: points for name, points in found["points"].items() if name.startswith("final/")}
    assert finals == {name: [[0, value]] for name, value in run.figures.items()}
    assert any(name.endswith("_gross_train_j_u") for name in finals)
    curves: dict[str, list[list[float]]] = {}
    for point in run.curves:
        curves.setdefault(point.tag, []).append([point.step, point.value])
    assert {name: sorted(points) for name, points in found["points"].items() if name not in finals} == {
        name: sorted(points) for name, points in curves.items()
    }
    assert found["params"]["learning.alpha"] == repr(run.parameters["learning.alpha"])
    assert found["params"].keys() == run.parameters.keys()
    assert found["tags"]["roambench.flags"] == run.tags["flags"]


@pytest.mark.slow  # what the sweep's test reads, of both kinds of run, with files and a second time
def test_a_folder_has_both_runs_whole_and_takes_none_twice(room: TrackerRoom, tmp_path: Path) -> None:
    measured(tmp_path / "board")
    simulated(tmp_path / "virtual")
    runs = (tmp_path / "board", tmp_path / "virtual")
    words = ("export", "mlflow", *runs, "-o", tmp_path / "store", "--experiment", "a/b c")
    told = room.roambench(*words, "--artifacts", "20", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert [line.partition(":")[0] for line in told.stdout.splitlines()] == ["board", "virtual"]
    found = stored(room, f"sqlite:///{tmp_path}/store/mlflow.db", "a/b c", tmp_path)
    assert found.keys() == {"board", "virtual"}
    for path in runs:
        assert_stored(found[path.name], path)
        assert found[path.name]["files"] == ["report.html"]
    again = room.roambench(*words, cwd=tmp_path)
    assert again.returncode == 2
    assert [line.split(", as ")[0] for line in again.stderr.splitlines()] == [
        "roambench: board: is in the store already",
        "roambench: virtual: is in the store already",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["board", "store", "virtual"]


def test_a_sweep_is_a_parent_run_with_a_child_per_point(room: TrackerRoom, tmp_path: Path) -> None:
    swept(tmp_path / "grid")
    words = ("export", "mlflow", "-o", tmp_path / "store", "--experiment", "e")
    for part in (tmp_path / "grid/points/m-0.1-1", *(tmp_path / "grid/points").glob("m-0.[15]-2")):
        said = room.roambench(*words, part, cwd=tmp_path)
        assert (said.returncode, said.stderr) == (0, "")
    found = stored(room, f"sqlite:///{tmp_path}/store/mlflow.db", "e", tmp_path)
    assert found.keys() == {
        "grid",
        "mohawk alpha=0.1 seed=1",
        "mohawk alpha=0.1 seed=2",
        "mohawk alpha=0.5 seed=2",
    }
    assert_stored(found["mohawk alpha=0.1 seed=1"], tmp_path / "grid/points/m-0.1-1/runs/mohawk")
    parents = {name: run["tags"].get("mlflow.parentRunId") for name, run in found.items()}
    assert parents.pop("grid") is None
    assert set(parents.values()) == {found["grid"]["id"]}


def test_a_store_that_refuses_is_one_line_without_its_password(room: TrackerRoom, tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    for uri in ("http://me:geheim@127.0.0.1:9", "nonsense://me:geheim@x"):
        told = room.roambench("export", "mlflow", tmp_path / "run", "-o", uri, cwd=tmp_path)
        assert told.returncode == 1
        assert len(told.stderr.splitlines()) == 1
        assert told.stderr.startswith("roambench: --output: ")
        assert "geheim" not in told.stderr
