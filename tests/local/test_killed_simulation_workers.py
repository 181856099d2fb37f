"""Workers of a whole `roambench run` that are killed cost time and no bit: their trainings are done again."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import psutil
import pytest
from safetensors import safe_open

from forked_commands import Command, roambench
from roambench.rounds.records import OrderAnswered, RoundRecord, StepClosed
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from samples import sampled

pytestmark = pytest.mark.timeout(900)

EXPERIMENT = """
name = "killed"
seed = 5
rounds.cloud_every_steps = 2
trace = { generator = "city", steps = 6, parameters = { presence = "always", devices = 6 } }
fleet = { agents = 6, aps = 3 }
learning = { model = "mohawk_cnn", images_per_device = 30, test_images = 60, local_epochs = 2 }
simulated = { workers = 2 }
"""


#: Trainings deferred, and computed when ordered.
SYSTEMS = ("mohawk", "middle")
KILLS = 2
#: A worker that is ready has computed for longer than its start takes: killed three times while it starts, it
#: ends the run.
READY_CPU_S = 1.0
WORDS = ("run", "experiment.toml", "--fleet", "simulated", "--runs-dir")


def training_processes(run: Command) -> list[psutil.Process]:
    """The workers: what was forked by the process that forked the command."""
    try:
        server = psutil.Process(run.pid).parent()
        return [child for child in server.children() if child.pid != run.pid] if server else []
    except psutil.NoSuchProcess:
        return []


def kill_busy_workers(run: Command, runs: Path, system: str) -> int:
    """Kill workers in the middle of a training, one after the other, while this system runs; how many."""
    killed = 0
    while run.poll() is None and killed < KILLS:
        for worker in training_processes(run) if begun(runs, system) else ():
            try:
                before_s = sum(worker.cpu_times()[:2])
                time.sleep(0.1)
                if sum(worker.cpu_times()[:2]) > before_s > READY_CPU_S and killed < KILLS:  # it computes
                    worker.kill()
                    killed += 1
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.3 if killed else 0.05)
    return killed


def begun(runs: Path, system: str) -> bool:
    return any(runs.glob(f"*/latest/{system}/events.sqlite"))


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


def runs_of(base: Path, system: str) -> None:
    """Make the runs of one command that was left alone, and of one whose workers were killed."""
    (base / "experiment.toml").write_text(f'systems = ["{system}"]\n{EXPERIMENT}')
    roambench(*WORDS, "alone", cwd=base).check_returncode()
    log = base / "log"
    with log.open("ab") as out:
        run = Command([*WORDS, "killed"], base, out.fileno(), log, {**os.environ, "NO_COLOR": "1"})
    killed = kill_busy_workers(run, base / "killed", system)
    assert run.wait(600) == 0, log.read_text()
    assert killed >= 1


@pytest.mark.parametrize("system", sampled(["mohawk"], SYSTEMS))
def test_a_run_whose_workers_are_killed_ends_with_the_model_of_one_left_alone(
    tmp_path: Path, system: str
) -> None:
    runs_of(tmp_path, system)
    (digest, records), (digest_of_killed, records_of_killed) = (
        story(tmp_path / name / "killed" / "latest" / system) for name in ("alone", "killed")
    )
    assert digest_of_killed == digest
    assert records_of_killed == records
    answers = [record for record in records if isinstance(record, OrderAnswered)]
    assert {answer.status for answer in answers} == {"done"}
    assert sum(bool(answer.samples) for answer in answers) >= 20
