"""What Weights & Biases' inspector finds in the offline runs, of which nothing was sent."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from roambench.report.tracked import tracked_runs
from small_runs import measured, simulated, swept
from tracker_room import TrackerRoom

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def room() -> TrackerRoom:
    return TrackerRoom()


def inspected(room: TrackerRoom, folder: Path, *options: str) -> list[Any]:
    told = room.run("wandb", "leet", "inspect", "--json", *options, folder, cwd=folder)
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def test_an_offline_run_has_every_step_and_the_final_figures(room: TrackerRoom, tmp_path: Path) -> None:
    measured(tmp_path / "board")
    simulated(tmp_path / "virtual")
    words = ("export", "wandb", tmp_path / "board", tmp_path / "virtual", "-o", tmp_path / "out")
    told = room.roambench(*words, cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    folders = [Path(line.partition(": ")[2]) for line in told.stdout.splitlines()]
    assert [folder.parent for folder in folders] == [tmp_path / "out" / "wandb"] * 2
    for name, folder in zip(("board", "virtual"), folders, strict=True):
        (run,) = tracked_runs([tmp_path / name])
        records = inspected(room, folder)
        summary: dict[str, Any] = {}
        curves = set()
        for record in records:
            summary |= record.get("summary", {}).get("update", {})
            for key, value in record.get("history", {}).get("item", {}).items():
                if not key.startswith("_"):
                    curves.add((key, record["history"]["item"]["_step"], value))
        assert curves == {(point.tag, point.step, point.value) for point in run.curves}
        finals = {key: value for key, value in summary.items() if key.startswith("final/")}
        assert finals == run.figures
        assert any(key.endswith("_gross_train_j_u") for key in finals)
        (made,) = (record["run"] for record in records if record["type"] == "run")
        assert made["config"]["update"]["learning"] == run.settings["learning"]
        assert made["config"]["update"]["roambench"] == run.tags
        whole = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        hints = (socket.gethostname(), str(tmp_path))
        assert [text for text in hints if len(text) > 3 and text.encode() in whole] == []
    again = room.roambench(*words, cwd=tmp_path)
    assert again.returncode == 2
    assert len(again.stderr.splitlines()) == 2


def test_the_runs_of_a_sweep_are_a_group_and_named_by_what_varies(room: TrackerRoom, tmp_path: Path) -> None:
    swept(tmp_path / "grid")
    points = (tmp_path / "grid/points/m-0.1-1", tmp_path / "grid/points/m-0.5-2")
    made = room.roambench("export", "wandb", *points, "-o", tmp_path / "out", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    folders = [Path(line.partition(": ")[2]) for line in made.stdout.splitlines()]
    runs = [
        record["run"] for folder in folders for record in inspected(room, folder) if record["type"] == "run"
    ]
    assert [(run["run_group"], run["display_name"]) for run in runs] == [
        ("grid", "mohawk alpha=0.1 seed=1"),
        ("grid", "mohawk alpha=0.5 seed=2"),
    ]
