"""A plan and the run that was planned, side by side."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
from rich.console import Console

from roambench.experiment.load import load_experiment
from roambench.plan import costs as plan_costs
from roambench.plan.plan import RunPlan, plan_experiment
from roambench.runner.bench_options import BenchOptions
from roambench.runner.composition import run_experiment

#: How far a plan may be from what happens.
FACTOR = 1.5


@dataclass(frozen=True)
class Happened:
    plan: RunPlan
    run: Path
    cpu_s: float
    wall_s: float
    idle_s: float  # of all cores together

    @property
    def free(self) -> float:
        """Share of the machine that others left to the run; 1 where it was alone."""
        others_s = psutil.cpu_count() * self.wall_s - self.idle_s - self.cpu_s
        return min(1.0, max(0.0, 1.0 - others_s / (psutil.cpu_count() * self.wall_s)))

    @property
    def is_near(self) -> bool:
        """In time and, where all that computes is this process and its children, in computing."""
        return self.time_is_near and (self.plan.fleet.has_agents or self.computing_is_near)

    @property
    def computing_is_near(self) -> bool:
        """CPU of a run on virtual devices: its workers and everything else, however busy the machine."""
        used_s = self.cpu_s - start_cpu_s()  # once: workers are forked from one process
        print(self.plan, self.wall_s, used_s)
        return near(self.plan.cpu_s + self.plan.controller_s, used_s)

    @property
    def time_is_near(self) -> bool:
        """Longer by what others took of the machine while it ran; by nothing on a free one."""
        print(self.plan.wall_s, self.wall_s, self.free)
        return self.wall_s * self.free / FACTOR <= self.plan.wall_s <= self.wall_s * FACTOR

    @property
    def disk_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.run.rglob("*") if path.is_file())


def cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def plan_and_run(folder: Path, text: str, fleet: str) -> Happened:
    """A plan and its run. A plan takes the machine's speed in two seconds: where the run was far from it, and
    the machine is another one by now, both are made again."""
    for attempt in ("first", "second"):
        (folder / attempt).mkdir()
        happened = _plan_and_run(folder / attempt, text, fleet)
        if happened.is_near:
            break
        plan_costs._import_s.cache_clear()
        (plan,) = plan_experiment(load_experiment(folder / attempt / "experiment.toml"), fleet)
        if near(happened.plan.cpu_s + happened.plan.controller_s, plan.cpu_s + plan.controller_s, 1.2):
            break
    return happened


def _plan_and_run(folder: Path, text: str, fleet: str) -> Happened:
    file = folder / "experiment.toml"
    file.write_text(text)
    experiment = load_experiment(file)
    there = set(folder.iterdir())
    (plan,) = plan_experiment(experiment, fleet)
    assert set(folder.iterdir()) == there  # no file is left
    before = psutil.cpu_times()
    before_s, started_s = cpu_s(resource.RUSAGE_CHILDREN) + cpu_s(resource.RUSAGE_SELF), time.monotonic()
    (run,) = run_experiment(
        experiment,
        fleet=fleet,
        runs_dir=folder / "runs",
        console=Console(quiet=True),
        bench=BenchOptions(preflight=False, unproven=True),
    )
    after_s = cpu_s(resource.RUSAGE_CHILDREN) + cpu_s(resource.RUSAGE_SELF)
    wall_s, after = time.monotonic() - started_s, psutil.cpu_times()
    idle_s = (after.idle + after.iowait) - (before.idle + before.iowait)
    return Happened(plan, run, after_s - before_s, wall_s, idle_s)


@cache
def start_cpu_s() -> float:
    """CPU that the process of the workers needs before it can do anything."""
    before_s = cpu_s(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import roambench.fleet.simulated.worker"], check=True)
    return cpu_s(resource.RUSAGE_CHILDREN) - before_s


def near(planned: float, real: float, factor: float = FACTOR) -> bool:
    return real / factor <= planned <= real * factor
