"""A plan is within a factor of 1.5 of what then happens, on virtual devices and on local agents.

Times are compared as CPU-seconds and device time: how long a machine takes that others use, too, no plan
can know.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from roambench.controller.cli import app
from roambench.controller.composition import run_experiment
from roambench.controller.config import load_experiment
from roambench.controller.plan import Plan, plan_experiment
from roambench.report.report import report

pytestmark = [pytest.mark.timeout(240), pytest.mark.alone]
FACTOR = 1.5
WORLD = """
seed = 3
systems = ["mohawk"]
rounds.cloud_every_steps = 3
trace.generator = "city"
"""
VIRTUAL = """
name = "virtual"
trace.steps = 6
fleet = { agents = 8, aps = 4 }
learning = { model = "mohawk_cnn", images_per_device = 60 }
links.link = "modelled"
"""
AGENTS = """
name = "agents"
trace.steps = 8
fleet = { agents = 3, aps = 4 }
learning = { model = "mlp", images_per_device = 60 }
local = { time_scale = 12.0, cpu_slowdown = 200.0 }
energy.idle_baseline_s = 10.0
"""


@dataclass(frozen=True)
class Happened:
    plan: Plan
    run: Path
    cpu_s: float
    wall_s: float

    @property
    def disk_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.run.rglob("*") if path.is_file())


def cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def plan_and_run(folder: Path, text: str, fleet: str) -> Happened:
    file = folder / "experiment.toml"
    file.write_text(text)
    experiment = load_experiment(file)
    (plan,) = plan_experiment(experiment, fleet)
    assert list(folder.iterdir()) == [file]  # nothing was left behind
    before_s, started_s = cpu_s(resource.RUSAGE_CHILDREN) + cpu_s(resource.RUSAGE_SELF), time.monotonic()
    (run,) = run_experiment(experiment, fleet=fleet, runs_dir=folder / "runs", console=Console(quiet=True))
    after_s = cpu_s(resource.RUSAGE_CHILDREN) + cpu_s(resource.RUSAGE_SELF)
    return Happened(plan, run, after_s - before_s, time.monotonic() - started_s)


def start_cpu_s() -> float:
    """CPU that a worker needs before it can do anything."""
    before_s = cpu_s(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import roambench.fleet.simulated.worker"], check=True)
    return cpu_s(resource.RUSAGE_CHILDREN) - before_s


def near(planned: float, real: float, factor: float = FACTOR) -> bool:
    return real / factor <= planned <= real * factor


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    return plan_and_run(tmp_path_factory.mktemp("virtual"), VIRTUAL + WORLD, "simulated")


def test_on_virtual_devices_the_joules_and_bytes_are_those_of_the_run(virtual: Happened) -> None:
    modelled = json.loads((virtual.run / "summary.json").read_text())["modelled"]
    assert virtual.plan.transferred_bytes == modelled["bytes"] > 0
    assert {item.phase for item in virtual.plan.joules} == {"download", "train", "upload"}
    for item in virtual.plan.joules:
        real = modelled["phases"][item.phase]
        assert item.gross_j == pytest.approx(real["gross_j"], rel=0.02)
        assert item.idle_j == pytest.approx(real["idle_j"], rel=0.02)
        assert item.net_j == pytest.approx(real["net_j"], rel=0.02)


def test_on_virtual_devices_trainings_and_disk_are_near(virtual: Happened) -> None:
    summary = json.loads((virtual.run / "summary.json").read_text())
    assert virtual.plan.trainings == summary["trainings"]
    assert near(virtual.plan.disk_bytes, virtual.disk_bytes)
    assert virtual.plan.peak_disk_bytes > virtual.plan.disk_bytes


def test_on_virtual_devices_the_computing_is_near(virtual: Happened) -> None:
    workers = 2
    used_s = virtual.cpu_s - workers * start_cpu_s()
    print(virtual.plan, virtual.wall_s, used_s)
    assert near(virtual.plan.cpu_s + virtual.plan.controller_s, used_s)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    return plan_and_run(tmp_path_factory.mktemp("agents"), AGENTS + WORLD, "local")


def test_on_local_agents_the_joules_are_near_what_the_meters_saw(agents: Happened) -> None:
    energy = report([agents.run]).summaries[0].measured
    assert energy is not None
    assert near(sum(item.gross_j for item in agents.plan.joules), energy.whole_run.joules)
    assert near(sum(item.net_j for item in agents.plan.joules), energy.whole_run_net.joules)
    assert near(agents.plan.device_s, energy.duration_s)


def test_on_local_agents_the_bytes_and_the_disk_are_near(agents: Happened) -> None:
    summary = report([agents.run]).summaries[0]
    assert summary.energy is not None
    moved = sum(
        part.transferred_bytes
        for part in (summary.energy.comparison.download, summary.energy.comparison.upload)
    )
    assert agents.plan.transferred_bytes == moved > 0
    assert near(agents.plan.disk_bytes, agents.disk_bytes)


def test_the_command_prints_the_plan_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(AGENTS + WORLD)
    told = CliRunner().invoke(
        app, ["run", str(file), "--plan", "--fleet", "rehearsal", "--runs-dir", str(tmp_path / "runs")]
    )
    assert told.exit_code == 0, told.output
    assert "mohawk" in told.output
    assert "Nothing was started" in told.output
    assert not (tmp_path / "runs").exists()
