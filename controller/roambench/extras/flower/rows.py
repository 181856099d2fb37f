"""Flower's rows of our tables."""

from __future__ import annotations

from roambench.agent.orders.programs import ProgramRow
from roambench.experiment.sections import Experiment
from roambench.runner.system_runs.system_run import World

CLIENT_APP = ProgramRow("roambench.extras.flower.client_process", "a Flower ClientApp")


def flower_world(experiment: Experiment) -> World:
    """A Flower app with its own ServerApp."""
    from roambench.extras.flower.world import FlowerWorld

    return FlowerWorld.of(experiment)
