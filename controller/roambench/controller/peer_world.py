"""The world of a decentralised experiment, the same for every fleet: who moves how, the loop's numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from roambench.controller.config.sections import Experiment
from roambench.controller.world import Lesson, Movement, movement_of
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
from roambench.rounds.peer_run import PeerSettings
from roambench.systems.peers import is_peer_system, peer_system


def is_decentralised(experiment: Experiment) -> bool:
    """Whether the experiment's systems have no server; they are all of one sort."""
    return is_peer_system(experiment.systems[0])


def replayed(experiment: Experiment) -> Movement | None:
    """The trace that a decentralised experiment replays; None where its devices move by a model."""
    return movement_of(experiment) if experiment.mobility.model == "trace" else None


def peer_devices(experiment: Experiment, replay: Movement | None) -> int:
    """How many devices take part."""
    return experiment.fleet.agents if replay is None else len(replay.trace.device_names)


def peer_movement(experiment: Experiment, lesson: Lesson, replay: Movement | None) -> PeerMovement:
    """How the experiment's devices move and whom they meet; keyed by its seed."""
    section, contacts, devices = experiment.mobility, experiment.contacts, len(lesson.parts)
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
            section.model, grid, contacts.radius, class_counts(lesson), experiment.seed, section.ties
        )
    if contacts.everybody:
        moved = replace(moved, neighbours=lambda _step: everybody(devices))
    return moved


def class_counts(lesson: Lesson) -> npt.NDArray[np.int64]:
    """Training samples per class of each device, shape (devices, classes)."""
    labels, classes = lesson.dataset.train_labels, lesson.dataset.classes
    return np.stack([np.bincount(labels[part], minlength=classes) for part in lesson.parts]).astype(np.int64)


def for_half_steps(experiment: Experiment, lesson: Lesson) -> Experiment:
    """The experiment with the batch size that its half steps take: all images of the largest device where
    they are of the full batch."""
    if experiment.decentralised.half_step != "full_batch":
        return experiment
    whole = max(len(part) for part in lesson.parts)
    return experiment.model_copy(
        update={"learning": experiment.learning.model_copy(update={"batch_size": whole})}
    )


def peer_settings(
    experiment: Experiment, system: str, run_id: str, lesson: Lesson, steps: int
) -> PeerSettings:
    """The loop's numbers for `system`."""
    section, learning = experiment.decentralised, experiment.learning
    steps_each = {"full_batch": 1, "mini_batch": learning.local_steps or 1, "epochs": 0}[section.half_step]
    return PeerSettings(
        run_id=run_id,
        seed=experiment.seed,
        steps=steps,
        samples=tuple(len(part) for part in lesson.parts),
        mixing=peer_system(system).mixing,
        alpha=section.alpha,
        local_epochs=learning.local_epochs,
        local_steps=steps_each,
        evaluate_every=section.evaluate_every,
        deadline_s=section.exchange_deadline_s,
        stop_at_accuracy=experiment.rounds.accuracy_threshold
        if experiment.rounds.stop_at_threshold
        else None,
    )


def movement_named(moved: PeerMovement) -> Movement:
    """As run folders and maps know it."""
    return Movement(moved.trace, content_hash(moved.trace))
