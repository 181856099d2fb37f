"""A sweep on local agents: its joules are measured, and those of each run's own report."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

import forked_commands
from roambench.mobility.files import write_trace
from roambench.study.sweep.metrics import METRICS
from small_traces import two_walks

EXPERIMENT = """
systems = ["mohawk"]
trace = { file = "walks.parquet" }
fleet = { agents = 2, aps = 0 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 100 }
rounds = { rest_s = 1.0 }
local = { time_scale = 8.0 }
energy = { idle_baseline_s = 2.0 }
"""
SWEEP = """
experiment = "walks.toml"
fleet = "local"
metrics = ["measured_j", "consumed_j", "wasted_j", "wasted_net_j", "download_j", "train_j", "upload_j", \
"exchange_j", "wait_j", "idle_j", "modelled_j", "final_accuracy"]
[grid]
seeds = 2
"""


def roambench(folder: Path, *words: str) -> str:
    done = forked_commands.roambench(*words, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_of(point: Path) -> Path:
    (run,) = (path.parent for path in point.glob("runs/**/run.json") if not path.parent.is_symlink())
    return run


def reported(point: Path) -> dict[str, dict[str, float]]:
    """What the report of the point's run says of the sweep's joules, with their uncertainties."""
    document = json.loads(roambench(point, "report", str(run_of(point)), "--json"))["runs"][0]["energy"]
    tables, phases = document["table10"], document["phases"]
    assert phases.keys() >= {"download", "train", "upload", "wait", "idle"}
    return {
        "measured_j": tables["gross"]["cumulative_consumed"],
        "consumed_j": tables["gross"]["cumulative_consumed"],
        "wasted_j": tables["gross"]["cumulative_wasted"],
        "wasted_net_j": tables["net"]["cumulative_wasted"],
        **{f"{phase}_j": found["gross"] for phase, found in phases.items()},
    }


@pytest.mark.timeout(600)
def test_a_sweep_of_agents_has_the_measured_joules_of_each_runs_report(tmp_path: Path) -> None:
    """Ann's training is wasted: she goes away for good with her model."""
    write_trace(two_walks(), tmp_path / "walks.parquet")
    (tmp_path / "walks.toml").write_text(EXPERIMENT)
    (tmp_path / "s.toml").write_text(SWEEP)
    printed = roambench(tmp_path, "sweep", "s.toml", "-o", "out")
    table: dict[str, Any] = json.loads((tmp_path / "out" / "table.json").read_text())
    points = {Path(one["folder"]).name: one for one in table["points"]}
    told = {name: reported(tmp_path / "out" / "points" / name) for name in points}
    assert len(points) == 2
    for name, point in points.items():
        for metric in table["metrics"]:
            if metric in told[name]:
                assert point["figures"][metric] == told[name][metric]["joules"], metric
        assert point["figures"]["wasted_j"] > 0.0
    (row,) = table["rows"]
    for metric in ("consumed_j", "wasted_j", "train_j", "idle_j"):
        found, runs = row["metrics"][metric], [of[metric] for of in told.values()]
        assert found["mean"] == pytest.approx(math.fsum(run["joules"] for run in runs) / 2)
        # At best the two are independent, at worst their meters are wrong alike.
        u = [run["u_joules"] for run in runs]
        assert math.hypot(*u) / 2 - 1e-9 <= found["u"] <= math.fsum(u) / 2 + 1e-9
    assert table["basis"]["wasted_j"] == table["basis"]["idle_j"] == "measured"
    assert (table["basis"]["modelled_j"], table["basis"]["final_accuracy"]) == ("modelled", None)
    assert row["metrics"]["exchange_j"] == {"mean": None, "sd": None, "n": 0, "u": None}
    (line,) = csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines())
    assert line["wasted_j_basis"] == "measured"
    assert float(line["wasted_j_u"]) == row["metrics"]["wasted_j"]["u"]
    assert "wasted (measured), J" in printed
    assert "[± " in printed
    older_results_are_summed_up_again(tmp_path, points, printed)


def older_results_are_summed_up_again(folder: Path, points: dict[str, Any], printed: str) -> None:
    """Make the result of an older version, which knew fewer metrics, again from its run."""
    for name in points:
        result = folder / "out" / "points" / name / "result.json"
        old = json.loads(result.read_text())
        del old["terms"], old["basis"]
        old["figures"] = {metric: old["figures"][metric] for metric in METRICS if "wait" not in metric}
        result.write_text(json.dumps(old))
    runs = {name: run_of(folder / "out" / "points" / name) for name in points}
    again = roambench(folder, "sweep", "s.toml", "-o", "out")
    assert again.splitlines()[-8:] == printed.splitlines()[-8:]
    assert {name: run_of(folder / "out" / "points" / name) for name in points} == runs
