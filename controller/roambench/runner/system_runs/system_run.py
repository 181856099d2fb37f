"""The run of one system, with access points or without a server, and the world that it is handed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console

from roambench.experiment.sections import Experiment
from roambench.rounds.ports import Journal
from roambench.rounds.run import Pace
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.system_runs.ready_fleet import ReadyFleet
from roambench.runner.world import LearningTask, Movement
from roambench.runs.folder import RunFolder
from roambench.systems.system import System


@dataclass(frozen=True, slots=True)
class FleetNeeds:
    """Demands of one system on the fleet that it runs on."""

    samples: tuple[int, ...]  # for training, of every device
    aps: int  # that hold a model besides the devices: access points, or the one mean of all
    peak_models: int  # the most that devices and access points hold at a time
    entries: int  # numbers in what travels: a model, and vectors of the local algorithm behind it
    exchanges: bool = False  # devices send models to each other
    system: System | None = None  # the rules, where they say if a training may wait until its model is used


class SystemRun(Protocol):
    """One system of an experiment, from its first step to its last."""

    @property
    def needs(self) -> FleetNeeds:
        """Demands on the fleet."""
        ...

    def restore(self, fleet: ReadyFleet, checkpoints: Checkpoints) -> None:
        """Go on from the checkpoint that was found, if one was. RunError where a model of it is lost."""
        ...

    async def perform(
        self,
        fleet: ReadyFleet,
        folder: RunFolder,
        journal: Journal,
        pace: Pace,
        checkpoints: Checkpoints | None,
    ) -> None:
        """Run every remaining step; the resulting model lies in `folder`, however the run ends."""
        ...

    def notes(self, folder: RunFolder, *, on_agents: bool) -> Sequence[str]:
        """Lines for the user about a finished run."""
        ...


class World(Protocol):
    """The world that the systems of an experiment share: their movement and their data."""

    @property
    def experiment(self) -> Experiment:
        """The experiment with the settings that its systems run with."""
        ...

    @property
    def movement(self) -> Movement:
        """The trace, the same for all systems of the experiment."""
        ...

    @property
    def learning_task(self) -> LearningTask:
        """Data, its shares and the first model; loaded at first use."""
        ...

    def announce(self, console: Console) -> None:
        """Print its size."""
        ...

    def system_run(self, system: str, folder: RunFolder, *, trains: bool) -> SystemRun:
        """Compose the run of one system. Without `trains` no model is trained: a rehearsal finds out which
        devices would train."""
        ...
