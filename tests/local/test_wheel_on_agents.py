"""A wheel without its checkout: `roambench init`'s file runs on agents, and energy is metered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq

from roambench.provision.wheels.agent_build import build_wheel

ROOT = Path(__file__).parents[2]


def test_the_file_of_init_runs_on_agents_from_a_wheel(tmp_path: Path) -> None:
    wheel, _ = build_wheel(ROOT, tmp_path)
    installed, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as made:
        made.extractall(installed)

    def roambench(*words: str) -> str:
        """Before the source tree, which an editable installation puts at the end of the path."""
        command = [sys.executable, "-m", "roambench.cli.main", *words]
        own = os.environ | {"PYTHONPATH": str(installed)}
        done = subprocess.run(command, cwd=empty, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "commit" not in roambench("--version")
    roambench("init")
    quick = ("--set", 'systems=["mohawk"]', "--set", "trace.steps=2", "--agents", "2")
    told = roambench("run", "experiment.toml", "--fleet", "local", *quick)
    assert told.splitlines()[-1].startswith("report: runs/experiment/")
    run = empty / "runs/experiment/latest/mohawk"
    assert json.loads((run / "run.json").read_text())["state"] == "finished"
    ledger = pq.read_table(run / "ledger.parquet").to_pylist()
    assert {row["device"] for row in ledger if row["phase"] == "train" and row["gross_j"] > 0}
    assert (run.parent / "report.html").stat().st_size > 100_000
