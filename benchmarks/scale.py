"""What the controller adds to a month of 10,000 virtual devices and 1,000 access points.

    python benchmarks/scale.py [--devices 10000] [--aps 1000] [--steps 744] [--systems mohawk hierfavg middle]

The product's own loop, fleet, journal on disk and progress display on the synthetic city; only the training
is replaced by a copy of the start model (10 parameters), and its time is taken off. Every training is
computed when ordered, which costs the controller most. Overhead is fitted to the wall time of the steps,
a + b x trained devices (least squares); goals: a <= 20 ms, b <= 2 ms. Then the Parquet export and the HTML
and JSON report; goals for each: 60 s of CPU time, 1,000 MB. Each run, export and report has a process of its
own so that peak memory is its own. A goal missed exits with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from setting.figures import keep

from roambench.experiment.sections import Experiment
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice, Workload
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry
from roambench.mobility.files import write_trace
from roambench.report.report import report
from roambench.rounds.loop import run_rounds
from roambench.rounds.run import StepSummary
from roambench.rounds.state import RoundState
from roambench.runner.one_run import ProgressJournal
from roambench.runner.progress import RunProgress
from roambench.runner.system_runs.hierarchical import composed
from roambench.runner.world import Movement, movement_of
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

PARAMETERS = 10
GOAL_STEP_MS = 20.0
GOAL_DEVICE_MS = 2.0
GOAL_CPU_S = 60.0
GOAL_MB = 1000.0


@dataclass(slots=True)
class CopyTrainer:
    """A backend whose training is a copy of the AP's model; `spent_s` and `trained` are of the open step."""

    rows: ModelRows
    spent_s: float = 0.0
    trained: int = 0

    async def start(self) -> None:
        pass

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        started_s = time.perf_counter()
        for job in jobs:
            self.rows.row(job.out_row)[:] = self.rows.row(job.ap_row)
        outcomes = [TrainingOutcome("", 500, 160, 0.5, 0.3)] * len(jobs)
        for index, outcome in enumerate(outcomes):
            on_outcome(index, outcome)
        self.trained += len(jobs)
        self.spent_s += time.perf_counter() - started_s
        return outcomes

    async def stop(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Figures:
    """One system's run."""

    present: float  # mean over the steps
    trained: int
    run_s: float
    step_ms: float
    device_ms: float
    worst_ms: float  # the slowest step's overhead
    cpu_step_ms: float  # the same fit to CPU time: tells a busy machine from a slow controller
    cpu_device_ms: float
    peak_mb: float

    @property
    def met(self) -> bool:
        return self.step_ms <= GOAL_STEP_MS and self.device_ms <= GOAL_DEVICE_MS


@dataclass(frozen=True, slots=True)
class Reading:
    """What the export or the report of one run took."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    written_mb: float  # export: the whole folder; report: the page

    @property
    def met(self) -> bool:
        return self.cpu_s <= GOAL_CPU_S and self.peak_mb <= GOAL_MB

    def told(self, name: str, written: str) -> str:
        return (
            f"  {name} {self.wall_s:.1f} s, CPU {self.cpu_s:.1f} s (goal {GOAL_CPU_S:g}), "
            f"{self.peak_mb:,.0f} MB (goal {GOAL_MB:,.0f}), {written} {self.written_mb:,.1f} MB: "
            f"{'PASS' if self.met else 'FAIL'}"
        )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def experiment_of(arguments: argparse.Namespace) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "scale",
            "seed": 42,
            "systems": arguments.systems,
            "trace": {
                "generator": "city",
                "window": "first",
                "steps": arguments.steps,
                "parameters": {
                    "devices": arguments.devices,
                    "aps": arguments.aps,
                    "steps": arguments.steps,
                },
            },
            "fleet": {"agents": arguments.devices},
            "learning": {"model": "mlp", "local_epochs": 1},
        }
    )


async def run_into(path: Path, experiment: Experiment, movement: Movement, system: str) -> Figures:
    devices = len(movement.trace.device_names)
    with RunFolder.create(
        path,
        experiment,
        run_id=path.name,
        system=system,
        trace_hash=movement.content_hash,
        fleet="simulated",
        device_names=[f"pi-{number:05d}" for number in range(1, devices + 1)],
    ) as folder:
        write_trace(movement.trace, path / "trace.parquet")
        rounds, statistics = composed(
            experiment, system, movement, path.name, [500] * devices, ((PARAMETERS,),)
        )
        folder.update(
            distance_mean_m=statistics.mean_m,
            distance_sd_m=statistics.sd_m,
            model_parameters=PARAMETERS,
            model_bytes=4 * PARAMETERS,
        )
        capacity = 3 * devices + 2 * rounds.settings.aps + 16
        rows = ModelRows(path / "models.bin", PARAMETERS, capacity, create=True)
        trainer = CopyTrainer(rows)
        work = Workload(500, 160)
        fleet = SimulatedFleet(rows, trainer, "0" * 64, VirtualDevice(0.4, 20.0, 20.0), lambda order: work)
        settings = replace(rounds.settings, orders_to_absent=False)
        present: list[int] = []
        walls_s: list[float] = []
        cpu_s = [time.process_time()]
        trained: list[int] = []
        last_s = time.perf_counter()

        def closed(summary: StepSummary, state: RoundState) -> None:
            nonlocal last_s
            now_s = time.perf_counter()
            walls_s.append(now_s - last_s - trainer.spent_s)
            cpu_s.append(time.process_time())
            trained.append(trainer.trained)
            present.append(summary.present)
            trainer.spent_s, trainer.trained, last_s = 0.0, 0, now_s

        started_s = time.perf_counter()
        with RunProgress(Console(file=io.StringIO()), movement.trace, system=system) as progress:
            await run_rounds(
                settings,
                rounds.system,
                rounds.association,
                fleet,
                ProgressJournal(folder.journal, progress),
                np.linspace(-1.0, 1.0, PARAMETERS, dtype=np.float32),
                throughput=rounds.throughput,
                on_step=closed,
            )
        run_s = time.perf_counter() - started_s
        run_peak_mb = peak_mb()
        (path / "models.bin").unlink()
        folder.update(state=RunState.FINISHED)
    counts = np.array(trained, dtype=np.float64)
    columns = np.column_stack((np.ones_like(counts), counts))
    step_s, device_s = np.linalg.lstsq(columns, np.array(walls_s), rcond=None)[0]
    cpu_step_s, cpu_device_s = np.linalg.lstsq(columns, np.diff(cpu_s), rcond=None)[0]
    return Figures(
        present=float(np.mean(present)),
        trained=sum(trained),
        run_s=run_s,
        step_ms=1e3 * float(step_s),
        device_ms=1e3 * float(device_s),
        worst_ms=1e3 * max(walls_s),
        cpu_step_ms=1e3 * float(cpu_step_s),
        cpu_device_ms=1e3 * float(cpu_device_s),
        peak_mb=run_peak_mb,
    )


def child(arguments: argparse.Namespace) -> None:
    """One system's run, export or report; its figures as a line of JSON."""
    path = Path(arguments.child)
    if arguments.stage != "run":
        started_s, cpu_s = time.perf_counter(), time.process_time()
        if arguments.stage == "export":
            with RunFolder.open(path, write=True) as folder:
                export_run(folder)
            written = [file for file in path.rglob("*") if file.is_file()]
        else:
            written = [path / "report.html"]
            report([path], html=written[0], json=path / "report.json")
        wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
        size_mb = sum(file.stat().st_size for file in written) / 1e6
        print(json.dumps(asdict(Reading(wall_s, cpu_s, peak_mb(), size_mb))))
        return
    (system,) = arguments.systems
    experiment = experiment_of(arguments)
    movement = movement_of(experiment)
    print(json.dumps(asdict(asyncio.run(run_into(path, experiment, movement, system)))))


def asked(arguments: argparse.Namespace, path: Path, system: str, *more: str) -> str:
    command = [sys.executable, __file__, "--child", str(path), "--systems", system, *more]
    for key in ("devices", "aps", "steps"):
        command += [f"--{key}", str(getattr(arguments, key))]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--aps", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=744)
    parser.add_argument("--systems", nargs="+", default=["mohawk", "hierfavg", "middle"])
    parser.add_argument("--folder", type=Path, help="keep the run folders here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--stage", choices=("run", "export", "report"), default="run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    met, reached = True, []
    with tempfile.TemporaryDirectory() as temporary:
        for system in arguments.systems:
            path = (arguments.folder or Path(temporary)) / system
            figures = Figures(**json.loads(asked(arguments, path, system)))
            exported, reported = (
                Reading(**json.loads(asked(arguments, path, system, "--stage", stage)))
                for stage in ("export", "report")
            )
            reached.append(figures)
            met = met and figures.met and exported.met and reported.met
            print(
                f"{system}: {figures.trained:,} trainings in {arguments.steps} steps "
                f"({figures.present:.0f} present), {figures.run_s:.1f} s\n"
                f"  overhead {figures.step_ms:.2f} ms a step (goal {GOAL_STEP_MS:g}) + "
                f"{figures.device_ms:.3f} ms a trained device (goal {GOAL_DEVICE_MS:g}), slowest step "
                f"{figures.worst_ms:.0f} ms, CPU {figures.cpu_step_ms:.2f} + {figures.cpu_device_ms:.3f} ms: "
                f"{'PASS' if figures.met else 'FAIL'}\n"
                f"  peak {figures.peak_mb:,.0f} MB while running\n"
                f"{exported.told('export', 'folder')}\n{reported.told('report', 'page')}",
                flush=True,
            )
    keep("scale a step", max(figures.step_ms for figures in reached))
    keep("scale a device", max(figures.device_ms for figures in reached))
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
