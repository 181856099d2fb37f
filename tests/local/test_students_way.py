"""The way of docs/start/own-data-to-paper.md, typed as the page has it, on a CSV that a stranger wrote.

The whole way sets up a clean clone with its libraries (slow); the short one has the libraries of the tests,
and leaves out MLflow and Weights & Biases.
"""

from __future__ import annotations

import csv
import json
import math
import os
import random
import shlex
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from forked_commands import roambench
from page_commands import ROOT, PageCommands

PAGE = PageCommands("docs/start/own-data-to-paper.md")
SETTINGS = {f"mohawk alpha={alpha} seed={seed}" for alpha in ("0.1", "100.0") for seed in (1, 2, 3)}


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


def comma(number: float) -> str:
    return f"{number:.6f}".replace(".", ",")


def write_as_a_stranger(folder: Path) -> None:
    """25 taxis of a German company: a fix each four to seven minutes; a list of stations beside it."""
    draw = random.Random(3)
    rows, began = [], datetime(2024, 3, 4, 6)
    for taxi in range(25):
        latitude, longitude = 52.52 + draw.gauss(0, 0.02), 13.40 + draw.gauss(0, 0.03)
        now = began + timedelta(seconds=14 + draw.randrange(300))
        while now < began + timedelta(hours=8):
            latitude, longitude = latitude + draw.gauss(0, 0.002), longitude + draw.gauss(0, 0.003)
            when = now.strftime("%d.%m.%Y %H:%M:%S")
            rows.append(f"B-TX {100 + taxi};{when};{comma(latitude)};{comma(longitude)};{draw.randrange(2)}")
            now += timedelta(seconds=draw.randrange(240, 420))
    rows[0] = PAGE.files["taxis.csv"].splitlines()[1]
    stations = [
        f"Wache {at};{comma(52.52 + draw.gauss(0, 0.02))};{comma(13.40 + draw.gauss(0, 0.03))}"
        for at in range(12)
    ]
    for name, lines in (("taxis.csv", rows), ("aps.csv", stations)):
        header = PAGE.files[name].splitlines()[0]
        (folder / name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    (folder / "taxis.toml").write_text(PAGE.files["taxis.toml"], encoding="utf-8")


def shows(command: str, expected: list[str], done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    printed = " ".join(done.stdout.split())
    for line in expected:
        assert " ".join(line.split()) in printed, f"{command}\n{done.stdout}{done.stderr}"


def see_what_goes_into_the_paper(folder: Path) -> None:
    for name in ("accuracy", "accuracy-per-joule", "energy"):
        assert (folder / f"figures/{name}.pdf").read_bytes().startswith(b"%PDF")
        assert "alpha" in (folder / f"figures/{name}.svg").read_text("utf-8")
    table = (folder / "figures/settings.tex").read_text("utf-8")
    assert r"\toprule" in table
    assert r"$\pm$" in table
    rows = list(csv.DictReader((folder / "figures/settings.csv").read_text("utf-8").splitlines()))
    assert [(row["learning.alpha"], row["runs"]) for row in rows] == [("0.1", "3"), ("100.0", "3")]
    for row in rows:
        low, mean, high = (float(row[f"final_accuracy_{end}"]) for end in ("low", "mean", "high"))
        assert low < mean < high
    assert "paired" in (folder / "taxis.html").read_text("utf-8")


def see_event_files(folder: Path) -> None:
    found = {path.name.replace("_", " ") for path in (folder / "logs").iterdir()}
    assert found == SETTINGS
    for path in (folder / "logs").iterdir():
        events = EventAccumulator(str(path))
        events.Reload()
        scores = [event.value for event in events.Scalars("learning/accuracy")]
        assert scores
        assert all(map(math.isfinite, scores))


def test_the_way_is_short() -> None:
    assert len(PAGE.commands) <= 12
    assert PAGE.commands[0][0] == "make setup"


@pytest.mark.timeout(900)
def test_her_csv_becomes_a_figure_with_bands_and_a_table(tmp_path: Path) -> None:
    write_as_a_stranger(tmp_path)
    for command, expected in PAGE.commands[2:]:
        if " export mlflow " in command or " export wandb " in command:
            continue
        program, *words = shlex.split(command)
        assert program == ".venv/bin/roambench"
        shows(command, expected, roambench(*words, cwd=tmp_path, env=environment()))
    see_what_goes_into_the_paper(tmp_path)
    see_event_files(tmp_path)


READ_MLFLOW = """
from mlflow import MlflowClient
client = MlflowClient("sqlite:///tracking/mlflow.db")
(named,) = [one for one in client.search_experiments() if one.name == "taxis"]
runs = client.search_runs([named.experiment_id])
parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
assert len(parents) == 1, parents
for run in children:
    assert run.data.tags["mlflow.parentRunId"] == parents[0].info.run_id
    assert client.get_metric_history(run.info.run_id, "learning/accuracy")
print("\\n".join(sorted(run.info.run_name for run in children)))
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_clean_clone_leads_there_without_a_dead_end(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True, timeout=300)
    write_as_a_stranger(clone)
    for command, expected in PAGE.commands:
        done = subprocess.run(
            command, shell=True, cwd=clone, env=environment(), capture_output=True, text=True, check=False
        )
        shows(command, expected, done)
    see_what_goes_into_the_paper(clone)
    see_event_files(clone)
    read = subprocess.run(
        [clone / ".venv/bin/python", "-c", READ_MLFLOW],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    assert set(read.stdout.splitlines()) == SETTINGS
    offline = sorted((clone / "wandb-runs/wandb").glob("offline-run-*"))
    named = set()
    for path in offline:
        inspect = [clone / ".venv/bin/wandb", "leet", "inspect", "--json", path]
        shown = subprocess.run(
            inspect, cwd=clone, env=environment(), capture_output=True, text=True, check=True
        )
        records = [json.loads(line) for line in shown.stdout.splitlines() if line.startswith("{")]
        (run,) = (record["run"] for record in records if record["type"] == "run")
        named.add((run["run_group"], run["display_name"]))
    assert named == {("taxis", name) for name in SETTINGS}
