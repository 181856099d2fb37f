"""Puts an experiment together and runs it: one run folder per system, then they can be compared."""

from __future__ import annotations

import dataclasses
import functools
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from roambench.contract.errors import ConfigError, FleetError, PluginError
from roambench.controller.bench_options import BenchOptions
from roambench.controller.config.load import resolved
from roambench.controller.config.sections import Experiment
from roambench.controller.foreign_code import blaming, foreign_code
from roambench.controller.kept import kept_told
from roambench.controller.peer_world import is_decentralised
from roambench.controller.replayed_orders import with_orders
from roambench.controller.stopping import STOPPING, run_async
from roambench.controller.world import Movement, movement_of, refuse_unfit_systems, system_of, versions
from roambench.energy.link_model import DistanceStatistics, link_throughput_mbit_s
from roambench.mobility.assignment_hash import assignment_hash
from roambench.mobility.association import Association, all_pair_statistics, distance_statistics
from roambench.mobility.files import write_trace
from roambench.rounds.run import RunSettings, Throughput
from roambench.runs.folder import RunFolder
from roambench.systems.system import System

if TYPE_CHECKING:  # it imports this module
    from roambench.controller.bench_run import BenchPlace
    from roambench.controller.resuming import Unfinished

FLEETS = ("local", "simulated", "rehearsal")
#: The fleet of a run on a bench; on the command line `bench:FILE`.
BENCH = "bench"


class SystemsFailed(PluginError):
    """Some systems failed by code of other packages; `finished` are the folders of those that did not."""

    def __init__(self, problems: Sequence[str], finished: Sequence[Path]) -> None:
        self.finished = tuple(finished)
        super().__init__("\n".join(problems))


def run_experiment(
    experiment: Experiment,
    *,
    fleet: str,
    runs_dir: Path,
    console: Console,
    bench: BenchOptions | None = None,
    fresh: bool = False,
) -> list[Path]:
    """Run every system of the experiment, one after the other, on the same movement; returns their folders.
    An earlier go that died or was stopped is gone on with, where its runs can be, unless `fresh`.

    `fleet`: one of FLEETS, or `bench:FILE` with the options `bench`. Raises RoambenchError leaves: at the end
    SystemsFailed, where code of other packages failed some of the systems.
    KeyboardInterrupt leaves a readable run folder behind.
    """
    kind, file = fleet_of(fleet)
    if kind == BENCH:
        return _run_on_bench(experiment, file, runs_dir, console, bench or BenchOptions(), fresh=fresh)
    from roambench.controller.resuming import Unfinished, unfinished

    refuse_unfit(experiment, kind)
    left = Unfinished({}, {}) if fresh else unfinished(experiment, kind, runs_dir, console.print)
    return _each(experiment, runs_dir, console, left, _runner(experiment, kind, console))


def _run_on_bench(
    experiment: Experiment,
    file: str,
    runs_dir: Path,
    console: Console,
    options: BenchOptions,
    *,
    fresh: bool,
) -> list[Path]:
    """The boards of a run that goes on are in it still: only systems that begin pass the gate."""
    from roambench.controller.bench_run import bench_place, calibrated, taking_part
    from roambench.controller.resuming import Unfinished, unfinished
    from roambench.provision.inventory import load_bench

    bench = load_bench(Path(file))
    hosts, smaller, _ = taking_part(experiment, bench, options.only)
    left = Unfinished({}, {})
    if not fresh:
        left = unfinished(calibrated(smaller, hosts), BENCH, runs_dir, console.print, bench, hosts)
    with ExitStack() as held:

        @functools.cache
        def runner() -> Callable[[str, Path], None]:
            place = held.enter_context(bench_place(experiment, file, options, console))
            return _runner(place.experiment, BENCH, console, place)

        run = runner() if not left.to_resume else lambda system, path: runner()(system, path)
        return _each(experiment, runs_dir, console, left, run, options.wait_s)


def fleet_of(written: str, fleets: Sequence[str] = FLEETS) -> tuple[str, str]:
    """Kind of fleet (one of `fleets` or BENCH), and the bench's file; ConfigError for any other."""
    kind, _, file = written.partition(":")
    if written in fleets or (kind == BENCH and file):
        return kind, file
    known = ", ".join((*fleets, f"{BENCH}:FILE"))
    raise ConfigError([f"--fleet: expected one of {known}, got {written!r}"])


def refuse_unfit(experiment: Experiment, kind: str) -> None:
    """ConfigError for what no fleet of this kind (one of FLEETS or BENCH) can do: in the file, or in a system
    of another package, all of them at once."""
    refuse_unfit_systems(experiment)
    if experiment.rounds.lookahead and kind != "rehearsal":
        raise ConfigError(
            ["rounds.lookahead: an oracle that no bench has; expected false except on fleet rehearsal"]
        )
    if experiment.simulated.precision == "float64" and kind not in ("simulated", "rehearsal"):
        told = "simulated.precision: float64 is a test mode of virtual devices; expected float32 on"
        raise ConfigError([f"{told} {kind} ones"])


def _runner(
    experiment: Experiment, fleet: str, console: Console, place: BenchPlace | None = None
) -> Callable[[str, Path], None]:
    """What runs a system of the experiment into a folder, all on the same movement."""
    refuse_unfit(experiment, fleet)
    if is_decentralised(experiment):
        from roambench.controller.peer_run import decentralised_runner

        return decentralised_runner(experiment, fleet=fleet, console=console, place=place)
    movement = movement_of(experiment)
    _say_world(console, experiment, movement)
    return lambda system, path: _run_one(experiment, system, movement, fleet, path, console, place)


def _each(
    experiment: Experiment,
    runs_dir: Path,
    console: Console,
    left: Unfinished,
    run: Callable[[str, Path], None],
    wait_s: float = 0.0,
) -> list[Path]:
    """Every system in a folder of its own: `run`, or gone on with where it was `left`; a system whose own
    code fails stops no other."""
    from roambench.controller.resuming import resume_run

    finished, failed = list[Path](), list[str]()
    for system in experiment.systems:
        path = left.finished.get(system) or left.to_resume.get(system)
        try:
            if system in left.to_resume:
                resume_run(left.to_resume[system], console, wait_s)
            elif path is None:
                path = free_folder(runs_dir, f"{experiment.name}-{system}")
                run(system, path)
        except PluginError as error:
            failed.append(str(error))
        else:
            assert path is not None
            finished.append(path)
    if failed:
        raise SystemsFailed(failed, finished)
    return finished


def _run_one(
    experiment: Experiment,
    system_name: str,
    movement: Movement,
    fleet: str,
    path: Path,
    console: Console,
    place: BenchPlace | None = None,
) -> None:
    devices = experiment.fleet.agents_of(len(movement.trace.device_names))
    boards = [f"pi-{number:02d}" for number in range(1, devices + 1)] if place is None else place.names
    steps = movement.trace.steps
    with (
        kept_told(path, system_name, steps, console),
        RunFolder.create(
            path,
            config=resolved(experiment),
            # Agents of a bench outlive a run: another of the same name must not be taken for it.
            run_id=path.name if place is None else f"{path.name}.{secrets.token_hex(4)}",
            system=system_name,
            seed=experiment.seed,
            trace_hash=movement.content_hash,
            fleet=fleet,
            device_names=boards[:devices],
            time_scale=experiment.local.time_scale if fleet == "local" else 1.0,
            lookahead=experiment.rounds.lookahead,
            versions=versions(),
        ) as folder,
        blaming(path, f"run {path.name}"),
    ):
        folder.update(code=tuple(code.as_json() for code in foreign_code(experiment, fleet, system_name)))
        write_trace(movement.trace, path / "trace.parquet")
        folder.update(doubts=(*movement.doubts, *(place.doubts if place else ())))
        if place is not None:
            from roambench.controller.bench_run import run_bench

            run_async(run_bench(place, system_name, movement, folder, console), STOPPING)
        elif fleet == "local":
            from roambench.controller.local_run import run_local

            run_async(run_local(experiment, system_name, movement, folder, console), STOPPING)
        elif fleet == "simulated":
            from roambench.controller.simulated_run import run_simulated

            run_async(run_simulated(experiment, system_name, movement, folder, console), STOPPING)
        else:
            from roambench.controller.rehearsal_run import run_rehearsal

            run_async(run_rehearsal(experiment, system_name, movement, folder, console), STOPPING)


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
    """Compose a system with the movement; into the run folder go the distances' statistics, for Eq. 2, and
    the hash of the assignment that will be replayed."""
    rounds, statistics = composed(experiment, system_name, movement, folder.info.run_id, samples, shapes)
    folder.update(
        distance_mean_m=statistics.mean_m,
        distance_sd_m=statistics.sd_m,
        association=type(rounds.association).__name__,
        assignment_hash=assignment_hash(rounds.association),
    )
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
    samples = tuple(samples)
    system = with_orders(
        system_of(experiment, system_name, shapes),
        experiment.rounds.orders,
        name=system_name,
        seed=experiment.seed,
        trace_hash=movement.content_hash,
        devices=len(samples),
    )
    association = system.association(movement.trace, experiment.seed)
    everywhere = experiment.links.distance_statistics == "all_pairs"
    statistics = DistanceStatistics(
        *(all_pair_statistics(movement.trace) if everywhere else distance_statistics(association))
    )
    section = experiment.rounds
    settings = RunSettings(
        run_id=run_id,
        seed=experiment.seed,
        steps=movement.trace.steps,
        aps=len(movement.trace.ap_names),
        samples=samples,
        pace_links=experiment.links.link == "modelled",
        port_mbit_s=experiment.links.port_mbit_s,
        stop_at_accuracy=experiment.rounds.accuracy_threshold
        if experiment.rounds.stop_at_threshold
        else None,
        evaluate_every=section.evaluate_every,
    )
    rounds = Rounds(
        system,
        association,
        settings,
        lambda distance_m, direction: link_throughput_mbit_s(distance_m, statistics, direction),
    )
    return rounds, statistics


def numbered_folder(runs_dir: Path, name: str, number: int) -> Path:
    return runs_dir / (name if number == 1 else f"{name}-{number}")


def free_folder(runs_dir: Path, name: str) -> Path:
    """`runs/<name>`, or with -2, -3, ... behind it when that exists: no run overwrites another."""
    for number in range(1, 10_000):
        path = numbered_folder(runs_dir, name, number)
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
    for doubt in movement.doubts:
        console.print(f"[yellow]{doubt}[/]")
    if not experiment.fleet.agents:
        console.print(
            f"fleet.agents = 0: all {len(trace.device_names):,} devices of the trace", highlight=False
        )
