"""Workers of a whole `roambench run` that are killed cost time and no bit: their trainings are done again."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from safetensors import safe_open

from roambench.rounds.records import OrderAnswered, RoundRecord, StepClosed
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

pytestmark = pytest.mark.timeout(900)

EXPERIMENT = """
name = "killed"
seed = 5
systems = ["SYSTEM"]
rounds.cloud_every_steps = 2
trace = { generator = "city", steps = 6, parameters = { presence = "always", devices = 6 } }
fleet = { agents = 6, aps = 3 }
learning = { model = "mohawk_cnn", images_per_device = 60, test_images = 60, local_epochs = 2 }
simulated = { workers = 2 }
"""


def begun(folder: Path, system: str) -> subprocess.Popen[str]:
    (folder / "experiment.toml").write_text(EXPERIMENT.replace("SYSTEM", system))
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "roambench.controller.cli", "run", str(folder / "experiment.toml")),
            *("--fleet", "simulated", "--runs-dir", str(folder / "runs")),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )


def training_processes(run: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers: children of the process that forks them."""
    try:
        return [worker for child in psutil.Process(run.pid).children() for worker in child.children()]
    except psutil.NoSuchProcess:
        return []


def kill_busy_workers(run: subprocess.Popen[str], times: int) -> int:
    """Kill workers in the middle of a training, one after the other; how many."""
    killed = 0
    while run.poll() is None and killed < times:
        for worker in training_processes(run):
            try:
                before_s = sum(worker.cpu_times()[:2])
                time.sleep(0.1)
                if sum(worker.cpu_times()[:2]) > before_s and killed < times:  # it computes
                    worker.kill()
                    killed += 1
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.3)
    return killed


def story(folder: Path) -> tuple[str, list[RoundRecord]]:
    """The last model's digest, and all records but for what a clock said."""
    with safe_open(folder / "models" / "global.safetensors", "numpy") as file:
        digest = file.metadata()["digest"]
    kept: list[RoundRecord] = []
    with RunFolder.open(folder) as opened:
        assert opened.info.state is RunState.FINISHED
        for record in opened.read_log():
            match record:
                case StepClosed():
                    kept.append(dataclasses.replace(record, wall_s=0.0))
                case _:
                    kept.append(record)
    return digest, kept


@pytest.mark.parametrize("system", ["mohawk", "middle"])  # trainings deferred, and computed when ordered
def test_a_run_whose_workers_are_killed_ends_with_the_model_of_one_left_alone(
    tmp_path: Path, system: str
) -> None:
    told = []
    for name, times in (("alone", 0), ("killed", 4)):
        folder = tmp_path / name
        folder.mkdir()
        run = begun(folder, system)
        assert min(times, 1) <= kill_busy_workers(run, times) <= times
        _, errors = run.communicate(timeout=400)
        assert run.returncode == 0, errors
        (models,) = (folder / "runs").glob("*/latest/*/models")
        told.append(story(models.parent))
    (digest, records), (digest_of_killed, records_of_killed) = told
    assert digest_of_killed == digest
    assert records_of_killed == records
    answers = [record for record in records if isinstance(record, OrderAnswered)]
    assert {answer.status for answer in answers} == {"done"}
    assert sum(bool(answer.samples) for answer in answers) >= 20
