"""Systems without a server: the movement and meetings of devices, and the exchanges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.orders import Vector
from roambench.experiment.sections import Experiment
from roambench.mobility.contacts import everybody
from roambench.mobility.files import content_hash
from roambench.mobility.peer_movement import (
    PeerMovement,
    grid_movement,
    reflected_movement,
    trace_movement,
)
from roambench.mobility.walks.grid_walk import GridWalkParameters
from roambench.mobility.walks.reflected_walk import ReflectedWalkParameters
from roambench.rounds.energy_seen import NO_ENERGY, RulesEnergy
from roambench.rounds.peer_loop import run_peers
from roambench.rounds.peer_run import OnCollected, OnPeerStep, PeerSettings, PeerState
from roambench.rounds.ports import Journal
from roambench.rounds.run import Pace
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.model_files import saved_average_model
from roambench.runner.replayed_orders import replayed_energy
from roambench.runner.scoring import TestSetEvaluator
from roambench.runner.screen import say
from roambench.runner.system_runs.ready_fleet import ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds
from roambench.runner.world import LearningTask, Movement, learning_task_of, movement_of
from roambench.runs.folder import RunFolder
from roambench.runs.so_far import energy_so_far
from roambench.systems.peers import PEER_SYSTEMS, is_peer_system


@dataclass(frozen=True, slots=True)
class PeerWorld:
    """`World` of systems without a server."""

    experiment: Experiment  # with the batch size of its half steps
    learning_task: LearningTask
    moved: PeerMovement
    movement: Movement

    @classmethod
    def of(cls, experiment: Experiment) -> PeerWorld:
        """Load the data, share it out, move the devices."""
        replay = replayed(experiment)
        learning_task = learning_task_of(experiment, peer_devices(experiment, replay))
        moved = peer_movement(experiment, learning_task, replay)
        return cls(for_half_steps(experiment, learning_task), learning_task, moved, movement_named(moved))

    def announce(self, console: Console) -> None:
        """Print devices, iterations and how many devices are of high mobility."""
        trace = self.movement.trace
        say(
            console,
            f"movement {self.movement.content_hash[:12]}: {count(len(trace.device_names), 'device')}, "
            f"{count(trace.steps, 'iteration')}, {int(self.moved.high_mobility.sum())} of high mobility",
        )

    def system_run(self, system: str, folder: RunFolder, *, trains: bool) -> DecentralisedRun:
        """Compose the run of one decentralised system, with the run id of `folder`."""
        steps = self.movement.trace.steps
        settings = peer_settings(
            self.experiment, system, folder.info.name_in_orders, self.learning_task, steps
        )
        return DecentralisedRun(self, system, settings, trains)


@dataclass
class DecentralisedRun:
    """`SystemRun` of one system without a server."""

    world: PeerWorld
    system: str
    settings: PeerSettings
    trains: bool
    _state: PeerState | None = None

    @property
    def needs(self) -> FleetNeeds:
        """One place besides the devices, for the mean of all; of each device a model held, half way and
        mixed, and two velocities; nothing but models travels."""
        return FleetNeeds(
            self.settings.samples,
            aps=1,
            peak_models=5 * len(self.world.learning_task.parts),
            entries=self.world.learning_task.layout.size,
            exchanges=True,
        )

    def restore(self, fleet: ReadyFleet, checkpoints: Checkpoints) -> None:
        """Go on from the checkpoint that was found, if one was. RunError where a model of it is lost."""
        if fleet.keeper is not None:
            self._state = checkpoints.peers(fleet.keeper)

    async def perform(
        self,
        fleet: ReadyFleet,
        folder: RunFolder,
        journal: Journal,
        pace: Pace,
        checkpoints: Checkpoints | None,
    ) -> None:
        """Run every remaining iteration; the mean of all models lies in `folder`, however it ends."""
        if not self.trains:
            await self._run(fleet, folder, journal, pace, np.zeros(4, dtype=np.float32), None, None)
            return

        def step_closed(_step: object, now: PeerState) -> None:
            if checkpoints is not None and fleet.keeper is not None:
                checkpoints.after_peers(now, self.settings.steps, fleet.keeper)

        with saved_average_model(folder, self.system, self.world.learning_task, self.settings) as follow:
            first = self.world.learning_task.initial_model
            await self._run(fleet, folder, journal, pace, first, step_closed, follow)

    async def _run(
        self,
        fleet: ReadyFleet,
        folder: RunFolder,
        journal: Journal,
        pace: Pace,
        first_model: Vector,
        on_step: OnPeerStep | None,
        on_collected: OnCollected | None,
    ) -> None:
        world, energy = self.world, NO_ENERGY
        if self.settings.sees_energy:
            journal, so_far = energy_so_far(folder, journal)
            energy = RulesEnergy(so_far, replayed_energy(world.experiment.rounds.orders, folder.info))
        evaluator = TestSetEvaluator(world.experiment, world.learning_task) if self.trains else None
        await run_peers(
            replace(self.settings, orders_to_absent=fleet.orders_to_absent),
            world.moved,
            fleet.fleet,
            journal,
            first_model,
            class_counts=class_counts(world.learning_task),
            evaluator=evaluator,
            on_step=on_step,
            on_collected=on_collected,
            pace=pace,
            state=self._state,
            energy=energy,
        )

    def notes(self, folder: RunFolder, *, on_agents: bool) -> Sequence[str]:
        """No notes: links between devices are not paced by distance."""
        return ()


def is_decentralised(experiment: Experiment) -> bool:
    """Return whether the experiment's systems have no server; they are all of one sort."""
    return is_peer_system(experiment.systems[0])


def replayed(experiment: Experiment) -> Movement | None:
    """The trace that a decentralised experiment replays; None where its devices move by a model."""
    return movement_of(experiment) if experiment.mobility.model == "trace" else None


def peer_devices(experiment: Experiment, replay: Movement | None) -> int:
    """Return how many devices take part."""
    return experiment.fleet.agents if replay is None else len(replay.trace.device_names)


def peer_movement(
    experiment: Experiment, learning_task: LearningTask, replay: Movement | None
) -> PeerMovement:
    """Return how the experiment's devices move and whom they meet; keyed by its seed."""
    section, contacts, devices = experiment.mobility, experiment.contacts, len(learning_task.parts)
    steps = experiment.decentralised.iterations
    if replay is not None:
        moved = trace_movement(replay.trace, contacts.radius, contacts.reading)
    elif section.model == "reflected_walk":
        walk = ReflectedWalkParameters(
            devices=devices,
            fast_share=section.fast_share,
            width_m=section.width_m,
            height_m=section.height_m,
            speed_max_m=section.speed_max_m,
            beta=section.beta,
            steps=steps,
            step_s=section.step_s,
        )
        moved = reflected_movement(walk, contacts.radius, experiment.seed)
    else:
        grid = GridWalkParameters(
            devices=devices,
            mobile=min(section.mobile, devices),
            grid=section.grid,
            reach=section.reach,
            steps=steps,
            step_s=section.step_s,
        )
        moved = grid_movement(
            section.model, grid, contacts.radius, class_counts(learning_task), experiment.seed, section.ties
        )
    if contacts.everybody:
        moved = replace(moved, neighbours=lambda _step: everybody(devices))
    return moved


def class_counts(learning_task: LearningTask) -> npt.NDArray[np.int64] | None:
    """Training samples per class of each device, shape (devices, classes); None where labels are no classes,
    and the data has no groups."""
    labels, classes = learning_task.dataset.groups, learning_task.dataset.group_count
    if labels is None:
        return None
    return np.stack([np.bincount(labels[part], minlength=classes) for part in learning_task.parts]).astype(
        np.int64
    )


def for_half_steps(experiment: Experiment, learning_task: LearningTask) -> Experiment:
    """The experiment with the batch size that its half steps take: all images of the largest device where
    they are of the full batch."""
    if experiment.decentralised.half_step != "full_batch":
        return experiment
    whole = max(len(part) for part in learning_task.parts)
    return experiment.model_copy(
        update={"learning": experiment.learning.model_copy(update={"batch_size": whole})}
    )


def peer_settings(
    experiment: Experiment, system: str, run_id: str, learning_task: LearningTask, steps: int
) -> PeerSettings:
    """The loop's numbers for `system`."""
    section, learning = experiment.decentralised, experiment.learning
    training = learning.training()
    steps_each = {"full_batch": 1, "mini_batch": training.steps or 1, "epochs": 0}[section.half_step]
    return PeerSettings(
        run_id=run_id,
        seed=experiment.seed,
        steps=steps,
        samples=tuple(len(part) for part in learning_task.parts),
        mixing=PEER_SYSTEMS.load(system).mixing,
        sees_energy=PEER_SYSTEMS.load(system).sees_energy,
        alpha=section.alpha,
        training=replace(training, steps=steps_each),
        evaluate_every=section.evaluate_every,
        deadline_s=section.exchange_deadline_s,
        stop_at=experiment.rounds.stop_at,
    )


def movement_named(moved: PeerMovement) -> Movement:
    """Return the movement's name in run folders and maps."""
    return Movement(moved.trace, content_hash(moved.trace))


def peer_world(experiment: Experiment) -> PeerWorld:
    """Systems without a server: devices exchange models with those that they meet."""
    return PeerWorld.of(experiment)
