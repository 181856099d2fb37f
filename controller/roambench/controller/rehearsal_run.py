"""A rehearsal: the same rounds without agents, training or energy; whole months take seconds."""

from __future__ import annotations

import dataclasses

import numpy as np
from rich.console import Console

from roambench.controller.composition import rounds_of
from roambench.controller.config.sections import Experiment
from roambench.controller.narrator import Narrator
from roambench.controller.pacing import PauseGate
from roambench.controller.peer_run import PeerWorld
from roambench.controller.peer_world import class_counts, peer_settings
from roambench.controller.progress import RunProgress
from roambench.controller.world import Movement
from roambench.rounds.loop import run_rounds
from roambench.rounds.peer_loop import run_peers
from roambench.rounds.peer_rehearsal import PeerRehearsalFleet
from roambench.rounds.rehearsal import RehearsalFleet
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState


async def run_rehearsal(
    experiment: Experiment, system: str, movement: Movement, folder: RunFolder, console: Console
) -> None:
    """Who would train where, upload where, and whose training would be wasted."""
    samples = (experiment.learning.images_per_device,) * len(folder.info.device_names)
    fleet = RehearsalFleet(experiment.seed, samples)
    rounds = rounds_of(experiment, system, movement, folder, samples)
    with RunProgress(console, movement.trace, system=system) as progress:
        await run_rounds(
            # Nobody listens: a month of 1,000 devices would write 1.6 million orders to the absent.
            dataclasses.replace(rounds.settings, tell_absent=False),
            rounds.system,
            rounds.association,
            fleet,
            Narrator(folder.journal, progress),
            np.zeros(4, dtype=np.float32),
            throughput=rounds.throughput,
            pace=PauseGate(folder.path, folder.journal, None, progress.say).hold,
        )
    folder.update(state=RunState.FINISHED)


async def rehearse_peers(world: PeerWorld, system: str, folder: RunFolder, console: Console) -> None:
    """Of a system without a server: who would exchange with whom, and how well that mixes."""
    experiment, trace = world.experiment, world.movement.trace
    settings = peer_settings(experiment, system, folder.info.run_id, world.lesson, trace.steps)
    with RunProgress(console, trace, system=system) as progress:
        await run_peers(
            dataclasses.replace(settings, tell_absent=False),
            world.moved,
            PeerRehearsalFleet(settings.samples),
            Narrator(folder.journal, progress),
            np.zeros(4, dtype=np.float32),
            class_counts=class_counts(world.lesson),
            pace=PauseGate(folder.path, folder.journal, None, progress.say).hold,
        )
    folder.update(state=RunState.FINISHED)
