"""A whole run whose trainings Ray spreads ends with the model of a run with worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

from forked_commands import roambench

pytestmark = pytest.mark.timeout(600)

EXPERIMENT = """
name = "spread"
seed = 5
systems = ["middle"]
rounds.cloud_every_steps = 2
trace = { generator = "city", steps = 4 }
fleet = { agents = 6, aps = 3 }
learning = { model = "mlp", images_per_device = 40 }
simulated = { workers = 2 }
"""
ROAMBENCH = (sys.executable, "-m", "roambench.cli.main")


def digest_of_run(folder: Path, *settings: str) -> tuple[str, str]:
    """The last model's digest, and everything that the command printed on standard error."""
    (folder / "experiment.toml").write_text(EXPERIMENT)
    options = ["--fleet", "simulated"]
    options += [part for setting in settings for part in ("--set", setting)]
    words = ["run", str(folder / "experiment.toml"), "--runs-dir", str(folder / "runs"), *options]
    if not settings:
        done = roambench(*words, cwd=folder)
    else:
        environment = {**os.environ, "PYTHONWARNINGS": "default"}
        done = subprocess.run([*ROAMBENCH, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    (model,) = (folder / "runs").glob("*/latest/*/models/global.safetensors")
    with safe_open(model, "numpy") as file:
        return file.metadata()["digest"], done.stderr


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    return digest_of_run(tmp_path_factory.mktemp("workers"))[0]


def test_a_run_on_a_ray_of_its_own_ends_with_the_same_model_and_says_nothing(
    digest: str, tmp_path: Path
) -> None:
    same, errors = digest_of_run(tmp_path, 'simulated.backend="ray"')
    assert same == digest
    assert errors == ""
