"""Files that a run leaves behind however it ends: its model, and a word on what is kept."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from roambench.contract.orders import Vector
from roambench.rounds.peer_run import OnCollected, PeerSettings, PeerState
from roambench.rounds.records import StepClosed
from roambench.rounds.run import OnStep, StepSummary
from roambench.rounds.state import RoundState
from roambench.runner.screen import in_any_case, say
from roambench.runner.world import LearningTask
from roambench.runs.checkpoint_file import read_checkpoint
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import save_model

#: In the run folder.
GLOBAL_MODEL = "models/global.safetensors"


@contextmanager
def saved_global_model(
    folder: RunFolder, system: str, learning_task: LearningTask, state: RoundState | None = None
) -> Iterator[OnStep]:
    """Follow a run's steps in the body; behind it the global model of the last one is in `folder`, or that of
    the `state` that the run went on from."""
    last: tuple[Vector, str, int] | None = None  # not the state: it has every AP's model, too
    if state is not None:
        last = state.global_model, state.global_digest, state.next_step

    def follow(_summary: StepSummary, state: RoundState) -> None:
        nonlocal last
        last = state.global_model, state.global_digest, state.next_step

    try:
        yield follow
    finally:
        if last is not None:
            (travelled, digest, steps), layout = last, learning_task.layout
            model = travelled[: layout.size]  # the local algorithm's vectors are behind it
            about = {"system": system, "digest": digest, "layout": layout.fingerprint, "steps": str(steps)}
            path = folder.path / GLOBAL_MODEL
            _save(path, model, learning_task, about)


@contextmanager
def saved_average_model(
    folder: RunFolder, system: str, learning_task: LearningTask, settings: PeerSettings
) -> Iterator[OnCollected]:
    """The same without a server: the mean of the models that were collected last."""
    last: PeerState | None = None

    def follow(state: PeerState) -> None:
        nonlocal last
        last = state

    try:
        yield follow
    finally:
        if last is not None and last.models:
            layout = learning_task.layout
            about = {"system": system, "layout": layout.fingerprint, "mean_of": str(len(settings.samples))}
            about["steps"] = str(last.next_step)
            path = folder.path / GLOBAL_MODEL
            _save(path, last.average, learning_task, about)


def _save(path: Path, model: Vector, learning_task: LearningTask, about: Mapping[str, str]) -> None:
    layout, companions = learning_task.layout, learning_task.companions
    save_model(path, model, names=layout.names, shapes=layout.shapes, companions=companions, about=about)


@contextmanager
def announced_files(path: Path, system: str, steps: int, console: Console) -> Iterator[None]:
    """Return where the body is interrupted: how far the run in `path` came, what is kept, how to look at
    it."""
    try:
        yield
    except KeyboardInterrupt:
        if (path / "run.json").is_file():
            with in_any_case(console):
                for line in _kept(path, system, steps):
                    say(console, line)
        raise


def _kept(path: Path, system: str, steps: int) -> Iterator[str]:
    folder = RunFolder.open(path)
    closed = folder.read_log().count(StepClosed)
    ended, reason = folder.info.state, folder.info.reason
    folder.close()
    if ended is RunState.FINISHED:
        yield f"{system} is finished, in {path}; what comes after it was not started."
    else:
        where = (
            f"at step {closed + 1} of {steps}" if closed < steps else f"after the last of its {steps} steps"
        )
        model = " and its last model" if (path / GLOBAL_MODEL).is_file() else ""
        yield f"{system} interrupted {where} ({reason}): its records{model} are kept in {path}."
    yield f"  look at it   roambench report {shlex.quote(str(path))}"
    if read_checkpoint(path) is not None:
        yield f"  go on        roambench resume {shlex.quote(str(path))}"
