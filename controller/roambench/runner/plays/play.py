"""The protocol of a system that is played, with access points or without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console

from roambench.experiment.sections import Experiment
from roambench.rounds.ports import Journal
from roambench.rounds.run import Pace
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.plays.stage import Stage
from roambench.runner.world import LearningTask, Movement
from roambench.runs.folder import RunFolder
from roambench.systems.system import System


class Play(Protocol):
    """One system of an experiment, from its first step to its last."""

    @property
    def experiment(self) -> Experiment:
        """As it is played."""
        ...

    @property
    def movement(self) -> Movement:
        """The trace: who is where at which step."""
        ...

    @property
    def learning_task(self) -> LearningTask:
        """Data, its shares and the first model; loaded when first asked for."""
        ...

    @property
    def aps(self) -> int:
        """How many places hold a model besides the devices: access points, or the one mean of all."""
        ...

    @property
    def peak_models(self) -> int:
        """The most models that devices and access points hold at a time."""
        ...

    @property
    def entries(self) -> int:
        """Numbers in what travels: a model, and vectors of the local algorithm behind it."""
        ...

    @property
    def exchanges(self) -> bool:
        """Whether devices send models to each other."""
        ...

    @property
    def only_system(self) -> System | None:
        """The rules, where they tell whether a training may wait until its model is used."""
        ...

    @property
    def samples(self) -> tuple[int, ...]:
        """Training samples of every device."""
        ...

    @property
    def run_id(self) -> str:
        """Id that every order of the run carries."""
        ...

    @property
    def steps(self) -> int:
        """Time steps, or iterations, of the whole run."""
        ...

    def restore(self, stage: Stage, checkpoints: Checkpoints) -> None:
        """Go on from the checkpoint that was found, if one was. RunError where a model of it is lost."""
        ...

    async def perform(
        self, stage: Stage, folder: RunFolder, journal: Journal, pace: Pace, checkpoints: Checkpoints | None
    ) -> None:
        """Play every step that is left; the model that comes out lies in `folder`, however it ends."""
        ...

    def notes(self, folder: RunFolder) -> Sequence[str]:
        """Lines about a finished run on agents, for whoever started it."""
        ...


class World(Protocol):
    """The world that the systems of an experiment share: who moves where, and the data."""

    @property
    def experiment(self) -> Experiment:
        """As it is played."""
        ...

    @property
    def movement(self) -> Movement:
        """The trace, the same for all systems of the experiment."""
        ...

    @property
    def learning_task(self) -> LearningTask:
        """Data, its shares and the first model; loaded when first asked for."""
        ...

    def announce(self, console: Console) -> None:
        """Print its size."""
        ...

    def play(self, system: str, folder: RunFolder, *, trains: bool) -> Play:
        """`trains`: models are trained, and not only who would do so is found out."""
        ...
