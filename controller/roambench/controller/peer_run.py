"""Decentralised systems of an experiment, one run folder each, on the fleet that was asked for."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from roambench.contract.model_blob import encode
from roambench.controller.checkpoints import SIMULATION, Checkpoints
from roambench.controller.config.link_model_file import load_link_model
from roambench.controller.config.load import resolved
from roambench.controller.config.sections import Experiment
from roambench.controller.foreign_code import blaming, foreign_code
from roambench.controller.kept import average_kept, kept_told
from roambench.controller.narrator import Narrator
from roambench.controller.pacing import PauseGate
from roambench.controller.peer_world import (
    class_counts,
    for_half_steps,
    movement_named,
    peer_devices,
    peer_movement,
    peer_settings,
    replayed,
)
from roambench.controller.progress import RunProgress
from roambench.controller.scoring import TestSetEvaluator
from roambench.controller.simulated_run import simulated_fleet
from roambench.controller.stopping import STOPPING, run_async
from roambench.controller.world import Lesson, Movement, lesson_of, versions
from roambench.mobility.files import write_trace
from roambench.mobility.peer_movement import PeerMovement
from roambench.rounds.peer_loop import run_peers
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.modelled_accounts import save_link_model_json

if TYPE_CHECKING:
    from roambench.controller.bench_run import BenchPlace


@dataclass(frozen=True, slots=True)
class PeerWorld:
    """What all systems of an experiment share."""

    experiment: Experiment  # with the batch size of its half steps
    lesson: Lesson
    moved: PeerMovement
    movement: Movement


def peer_world(experiment: Experiment) -> PeerWorld:
    """Load the data, share it out, move the devices."""
    replay = replayed(experiment)
    lesson = lesson_of(experiment, peer_devices(experiment, replay))
    moved = peer_movement(experiment, lesson, replay)
    return PeerWorld(for_half_steps(experiment, lesson), lesson, moved, movement_named(moved))


def decentralised_runner(
    experiment: Experiment, *, fleet: str, console: Console, place: BenchPlace | None = None
) -> Callable[[str, Path], None]:
    """What runs a system of the experiment into a folder, each on the same movement and data.

    `place` is the bench of fleet "bench".
    """
    world = peer_world(experiment)
    trace = world.movement.trace
    console.print(
        f"movement {world.movement.content_hash[:12]}: {len(trace.device_names)} devices, {trace.steps} "
        f"iterations, {int(world.moved.high_mobility.sum())} of high mobility",
        highlight=False,
    )
    return lambda system, path: _run_one(experiment, world, system, fleet, path, console, place)


def _run_one(
    experiment: Experiment,
    world: PeerWorld,
    system: str,
    fleet: str,
    path: Path,
    console: Console,
    place: BenchPlace | None,
) -> None:
    devices = len(world.lesson.parts)
    boards = [f"pi-{number:02d}" for number in range(1, devices + 1)] if place is None else place.names
    steps = world.movement.trace.steps
    with (
        kept_told(path, system, steps, console),
        RunFolder.create(
            path,
            config=resolved(experiment),
            # Agents of a bench outlive a run: another of the same name must not be taken for it.
            run_id=path.name if place is None else f"{path.name}.{secrets.token_hex(4)}",
            system=system,
            seed=experiment.seed,
            trace_hash=world.movement.content_hash,
            fleet=fleet,
            device_names=boards[:devices],
            time_scale=experiment.local.time_scale if fleet == "local" else 1.0,
            lookahead=False,
            versions=versions(),
        ) as folder,
        blaming(path, f"run {path.name}"),
    ):
        folder.update(code=tuple(code.as_json() for code in foreign_code(experiment, fleet, system)))
        write_trace(world.movement.trace, path / "trace.parquet")
        folder.update(doubts=(*world.movement.doubts, *(place.doubts if place else ())))
        if place is not None:
            from roambench.controller.bench_run import run_peers_bench

            run_async(run_peers_bench(place, world, system, folder, console), STOPPING)
        elif fleet == "local":
            from roambench.controller.local_run import run_peers_local

            run_async(run_peers_local(world, system, folder, console), STOPPING)
        elif fleet == "rehearsal":
            from roambench.controller.rehearsal_run import rehearse_peers

            run_async(rehearse_peers(world, system, folder, console), STOPPING)
        else:
            run_async(run_peers_simulated(world, system, folder, console), STOPPING)


async def run_peers_simulated(world: PeerWorld, system: str, folder: RunFolder, console: Console) -> None:
    """Run `system` on virtual devices into `folder`."""
    experiment, lesson = world.experiment, world.lesson
    layout = lesson.layout
    steps = world.movement.trace.steps
    settings = replace(
        peer_settings(experiment, system, folder.info.run_id, lesson, steps), tell_absent=False
    )
    folder.update(
        model_parameters=layout.size, model_bytes=len(encode(lesson.initial_model, layout.fingerprint))
    )
    save_link_model_json(folder.path, load_link_model(experiment.links.model))
    checkpoints = Checkpoints(experiment, folder)
    async with simulated_fleet(
        experiment,
        lesson,
        1,
        folder.path / SIMULATION,
        peers=True,
        peak=5 * len(lesson.parts),
        checkpoints=checkpoints,
    ) as fleet:
        state = checkpoints.peers(fleet)
        with (
            RunProgress(console, world.movement.trace, system=system) as progress,
            average_kept(folder, system, lesson, settings) as follow,
        ):
            await run_peers(
                settings,
                world.moved,
                fleet,
                Narrator(folder.journal, progress),
                lesson.initial_model,
                class_counts=class_counts(lesson),
                evaluator=TestSetEvaluator(experiment, lesson),
                on_step=lambda _, now: checkpoints.after_peers(now, steps, fleet),
                on_collected=follow,
                pace=PauseGate(folder.path, folder.journal, None, progress.say).hold,
                state=state,
            )
    export_run(folder)
    folder.update(state=RunState.FINISHED)
    checkpoints.forget()
