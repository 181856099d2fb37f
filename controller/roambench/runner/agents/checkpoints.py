"""The times at which a run writes down its state, and what such a run must find again."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from roambench.contract.errors import RunError
from roambench.contract.orders import Vector
from roambench.experiment.sections import Experiment
from roambench.rounds.checkpoint import peers_from_json, peers_to_json, state_from_json, state_to_json
from roambench.rounds.peer_run import PeerState
from roambench.rounds.records import RunResumed
from roambench.rounds.state import RoundState
from roambench.runner.foreign_code import foreign_code
from roambench.runner.input_files import changes
from roambench.runner.world import versions
from roambench.runs.checkpoint_file import Checkpoint, forget_checkpoint, read_checkpoint, write_checkpoint
from roambench.runs.database import naming
from roambench.runs.folder import RunFolder

#: At most this share of a run's time goes into its checkpoints: where steps are quicker than that, not every
#: one is followed by a checkpoint, and a run that goes on plays some steps again.
SHARE: Final = 0.05
#: The advice where a run cannot go on because something of it changed.
PUT_BACK: Final = "put back what was there, or start a new run"
#: In the run folder: the models that the checkpoint of a fleet of agents names, by digest.
MODELS: Final = "checkpoint-models"
#: In the run folder: the models that virtual devices hold.
SIMULATION: Final = "simulation"


class CheckpointKeeper(Protocol):
    """Keeps a fleet's part of a checkpoint."""

    @property
    def keeps_much(self) -> bool:
        """True if much is kept that only the last checkpoint still wants: time for the next."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """The fleet's state as JSON values; models that they name survive a power cut when it returns."""
        ...

    def keep(self, step: int) -> None:
        """The snapshot was written down: a run that is resumed goes on with `step`."""
        ...

    def restore(self, fleet_state: Mapping[str, Any]) -> dict[str, Vector]:
        """Go on from a snapshot; its published models by digest. RunError where one is lost."""
        ...


class Checkpoints:
    """Checkpoints of one run. `found`: what an earlier part of it left, None for a new run."""

    def __init__(
        self, experiment: Experiment, folder: RunFolder, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._due_s = seconds()
        self._made_with = made_with(experiment, folder)
        self._data = dict(folder.info.data)
        self.found = read_checkpoint(folder.path)

    @property
    def kept(self) -> bool:
        """True if there is one."""
        return read_checkpoint(self._folder.path) is not None

    @property
    def part(self) -> int:
        """The number of the run's controllers that died or were stopped before this one."""
        return 0 if self.found is None else 1 + self._folder.read_log().count(RunResumed)

    def rounds(self, fleet: CheckpointKeeper) -> RoundState | None:
        """The state that was found, with a fleet that holds what it held; None for a new run."""
        if self.found is None:
            return None
        return state_from_json(self.found.rounds, fleet.restore(self.found.fleet))

    def peers(self, fleet: CheckpointKeeper) -> PeerState | None:
        """The same of a system without a server."""
        if self.found is None:
            return None
        return peers_from_json(self.found.rounds, fleet.restore(self.found.fleet))

    def after_peers(self, state: PeerState, steps: int, fleet: CheckpointKeeper) -> None:
        """Do as `after`, but for the last step: with it the model that the run leaves behind is collected."""
        if state.next_step < steps and not state.ended:
            self.after(state, fleet)

    def after(self, state: RoundState | PeerState, fleet: CheckpointKeeper) -> None:
        """A step is closed; RunError where the disk refuses."""
        began_s = self._seconds()
        due = began_s >= self._due_s or fleet.keeps_much
        if not due:
            return
        text = state_to_json(state) if isinstance(state, RoundState) else peers_to_json(state, {})
        marks = self._folder.marks()  # before it is synced: a power cut takes none of these
        self._folder.journal.sync()
        with naming(self._folder.path):
            fleet_state = fleet.snapshot()
            written = Checkpoint(state.next_step, text, self._made_with, fleet_state, self._data, marks)
            write_checkpoint(self._folder.path, written)
            fleet.keep(state.next_step)
        ended_s = self._seconds()
        self._due_s = ended_s + (1.0 / SHARE - 1.0) * (ended_s - began_s)

    def forget(self) -> None:
        """The run is finished."""
        forget(self._folder.path)


def forget(path: Path) -> None:
    """Remove what only a run that goes on would need."""
    forget_checkpoint(path)
    for gone in (path / SIMULATION, path / MODELS, *path.glob("agents/*/resume-point")):
        shutil.rmtree(gone, ignore_errors=True)


def made_with(experiment: Experiment, folder: RunFolder) -> dict[str, str]:
    """Digests of the settings and of all code that takes part in the run, and versions, by name."""
    path = folder.path / "experiment.json"
    with naming(path):
        settings = hashlib.sha256(path.read_bytes()).hexdigest()
    info = folder.info
    others = {code.package: code.sha256 for code in foreign_code(experiment, info.kind, info.system)}
    # A commit says no more than the sources do, and changes with every page of the documentation.
    fleet_state = {name: str(value) for name, value in versions().items() if name != "roambench commit"}
    return {**fleet_state, **others, "experiment.json": settings}


def require_same_data(folder: RunFolder, checkpoint: Checkpoint, now: Mapping[str, str]) -> None:
    """RunError where the data, as they are loaded `now`, are not those that the run began with."""
    other = [name for name, before in checkpoint.data.items() if now.get(name) != before]
    if other:
        files = changes(folder.info.inputs)
        because = f" ({'; '.join(files)})" if files else ""
        raise RunError(
            f"{folder.path}: cannot be resumed: other {', '.join(other)} than it was begun with{because}; "
            + PUT_BACK
        )


def require_same(experiment: Experiment, folder: RunFolder, checkpoint: Checkpoint) -> None:
    """RunError where the run would not end as it would have: other code, other settings."""
    now = made_with(experiment, folder)
    before = checkpoint.made_with
    other = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    if other:
        raise RunError(
            f"{folder.path}: cannot be resumed: {', '.join(other)} changed since it was begun, so it would "
            f"not end as it would have; {PUT_BACK}"
        )
