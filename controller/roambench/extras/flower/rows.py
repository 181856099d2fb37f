"""Flower's rows of our tables. Boards load this, too, and have nothing of the controller's packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roambench.agent.orders.programs import ProgramRow

if TYPE_CHECKING:
    from roambench.experiment.sections import Experiment
    from roambench.provision.wheels.program_kit import ProgramKit
    from roambench.runner.system_runs.system_run import World
    from roambench.runner.world import LearningTask

CLIENT_APP = ProgramRow("roambench.extras.flower.client_process", "a Flower ClientApp")


def flower_world(experiment: Experiment) -> World:
    """A Flower app with its own ServerApp."""
    from roambench.extras.flower.world import FlowerWorld

    return FlowerWorld.of(experiment)


def flower_kit(experiment: Experiment) -> ProgramKit:
    """The kit of a Flower app for boards."""
    from roambench.extras.flower.kit import kit_of_app

    return kit_of_app(Path(experiment.program.folder or "."))


def client_app_task(experiment: Experiment, devices: int) -> LearningTask:
    """A ClientApp that trains for systems of ours."""
    from roambench.extras.flower.training import task_of_client_app

    return task_of_client_app(experiment, devices)
