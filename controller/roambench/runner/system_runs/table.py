"""The table of what plays a run: one row per sort of system, each a `World` of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from roambench.contract.table import Table
from roambench.experiment.sections import Experiment
from roambench.runner.system_runs.system_run import World
from roambench.systems.peers import is_peer_system

#: Rows make the world that an experiment's systems share, and raise the errors of loading traces and data.
SYSTEM_RUNS: Final[Table[Callable[[Experiment], World]]] = Table(
    what="sort of system",
    group="roambench.system_runs",
    own={
        "decentralised": "roambench.runner.system_runs.decentralised:peer_world",
        "hierarchical": "roambench.runner.system_runs.hierarchical:hierarchical_world",
    },
)


def sort_of(experiment: Experiment) -> str:
    """The row that plays the experiment's systems, which are all of one sort."""
    if experiment.is_program_alone:
        return experiment.program.name
    return "decentralised" if is_peer_system(experiment.systems[0]) else "hierarchical"


def world_of(experiment: Experiment) -> World:
    """The world that the experiment's systems share."""
    return SYSTEM_RUNS.load(sort_of(experiment))(experiment)
