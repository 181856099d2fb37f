from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import roambench as rb
import small_runs

DEMO = Path(__file__).parents[3] / "experiments" / "demo_full.toml"
SMALL = {
    "trace.steps": 4,
    "fleet.agents": 3,
    "learning.local_epochs": 1,
    "learning.model": "mlp",
    "learning.images_per_device": 20,
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a measured run, and the two simulated ones of the demo's experiment."""
    folder = tmp_path_factory.mktemp("runs")
    small_runs.measured(folder / "measured")
    for run in rb.run(DEMO, fleet="simulated", set=SMALL, runs_dir=folder / "starts"):
        run.path.rename(folder / f"demo-{run.system}")
    shutil.rmtree(folder / "starts")
    return folder
