"""Puts an experiment together and runs it: one run folder per system, then they can be compared."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from roambench.contract.errors import ConfigError, FleetError
from roambench.controller.config.load import resolved
from roambench.controller.config.sections import Experiment
from roambench.controller.world import Movement, movement_of, system_of, versions
from roambench.energy.link_model import DistanceStatistics, throughput_mbit_s
from roambench.mobility.association import Association, distance_statistics
from roambench.mobility.files import write_trace
from roambench.rounds.run import RunSettings, Throughput
from roambench.runs.folder import RunFolder
from roambench.systems.system import System

FLEETS = ("local", "simulated", "rehearsal")


def run_experiment(experiment: Experiment, *, fleet: str, runs_dir: Path, console: Console) -> list[Path]:
    """Run every system of the experiment, one after the other, on the same movement; returns their folders.

    Raises RoambenchError leaves. KeyboardInterrupt leaves a readable run folder behind.
    """
    if fleet not in FLEETS:
        raise ConfigError([f"--fleet: expected one of {', '.join(FLEETS)}, got {fleet!r}"])
    if experiment.rounds.lookahead and fleet != "rehearsal":
        raise ConfigError(
            ["rounds.lookahead: an oracle that no bench has; expected false where energy is measured"]
        )
    movement = movement_of(experiment)
    _say_world(console, experiment, movement)
    paths = []
    for system_name in experiment.systems:
        path = free_folder(runs_dir, f"{experiment.name}-{system_name}")
        paths.append(_run_one(experiment, system_name, movement, fleet, path, console))
    return paths


def _run_one(
    experiment: Experiment, system_name: str, movement: Movement, fleet: str, path: Path, console: Console
) -> Path:
    devices = min(experiment.fleet.agents, len(movement.trace.device_names))
    with RunFolder.create(
        path,
        config=resolved(experiment),
        run_id=path.name,
        system=system_name,
        seed=experiment.seed,
        trace_hash=movement.content_hash,
        fleet=fleet,
        device_names=[f"pi-{number:02d}" for number in range(1, devices + 1)],
        time_scale=experiment.local.time_scale if fleet == "local" else 1.0,
        lookahead=experiment.rounds.lookahead,
        versions=versions(),
    ) as folder:
        write_trace(movement.trace, path / "trace.parquet")
        if fleet == "local":
            from roambench.controller.local_run import run_local

            asyncio.run(run_local(experiment, system_name, movement, folder, console))
        elif fleet == "simulated":
            from roambench.controller.simulated_run import run_simulated

            asyncio.run(run_simulated(experiment, system_name, movement, folder, console))
        else:
            from roambench.controller.rehearsal_run import run_rehearsal

            asyncio.run(run_rehearsal(experiment, system_name, movement, folder, console))
    return path


@dataclasses.dataclass(frozen=True)
class Rounds:
    """What the round loop needs besides a fleet, the same for every fleet."""

    system: System
    association: Association
    settings: RunSettings
    throughput: Throughput


def rounds_of(
    experiment: Experiment,
    system_name: str,
    movement: Movement,
    folder: RunFolder,
    samples: Iterable[int],
    shapes: tuple[tuple[int, ...], ...] = (),
) -> Rounds:
    """Compose a system with the movement; the distances' statistics go into the run folder for Eq. 2."""
    rounds, statistics = composed(experiment, system_name, movement, folder.info.run_id, samples, shapes)
    folder.update(distance_mean_m=statistics.mean_m, distance_sd_m=statistics.sd_m)
    return rounds


def composed(
    experiment: Experiment,
    system_name: str,
    movement: Movement,
    run_id: str,
    samples: Iterable[int],
    shapes: tuple[tuple[int, ...], ...] = (),
) -> tuple[Rounds, DistanceStatistics]:
    """The same without a run folder, and the statistics that Eq. 2 maps from."""
    system = system_of(experiment, system_name, shapes)
    association = system.association(movement.trace, experiment.seed)
    statistics = DistanceStatistics(*distance_statistics(association))
    settings = RunSettings(
        run_id=run_id,
        seed=experiment.seed,
        steps=movement.trace.steps,
        aps=len(movement.trace.ap_names),
        samples=tuple(samples),
        pace_links=experiment.links.link == "modelled",
        port_mbit_s=experiment.links.port_mbit_s,
    )
    rounds = Rounds(
        system,
        association,
        settings,
        lambda distance_m, direction: float(throughput_mbit_s(distance_m, statistics, direction)),
    )
    return rounds, statistics


def free_folder(runs_dir: Path, name: str) -> Path:
    """`runs/<name>`, or with -2, -3, ... behind it when that exists: no run overwrites another."""
    for number in range(1, 10_000):
        path = runs_dir / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            return path
    raise FleetError(f"{runs_dir / name}: 9,999 runs of this name; tidy up")


def _say_world(console: Console, experiment: Experiment, movement: Movement) -> None:
    trace = movement.trace
    present = [len(trace.present(step)) for step in range(trace.steps)]
    console.print(
        f"trace {movement.content_hash[:12]}: {len(trace.device_names)} devices, {len(trace.ap_names)} APs, "
        f"{trace.steps} steps of {trace.step_s:.0f} s, {min(present)} to {max(present)} present "
        f"(mean {sum(present) / len(present):.1f}); {os.cpu_count()} cores",
        highlight=False,
    )
    if len(trace.device_names) < experiment.fleet.agents:
        console.print(f"[yellow]the trace has only {len(trace.device_names)} devices[/]")
