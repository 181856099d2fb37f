"""A run whose controller died, or was stopped, goes on to the end that it would have had."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from roambench.contract.errors import RoambenchError, RunError
from roambench.experiment.sections import Experiment
from roambench.rounds.records import StepClosed
from roambench.runner.agents.checkpoints import PUT_BACK, forget, require_same, require_same_data
from roambench.runner.bench_options import BenchOptions
from roambench.runner.input_files import changes
from roambench.runner.model_files import announced_files
from roambench.runner.one_run import data_of, run_system
from roambench.runner.places.place import Place
from roambench.runner.places.table import place_again
from roambench.runner.progress import OnStepDone
from roambench.runner.run_log import logged
from roambench.runner.screen import say
from roambench.runner.stopping import BY_THE_USER, STOPPING, run_async
from roambench.runner.system_runs.system_run import World
from roambench.runner.system_runs.table import world_of
from roambench.runner.world import Movement
from roambench.runs.checkpoint_file import Checkpoint, read_checkpoint
from roambench.runs.fleet_kinds import FLEET_KINDS
from roambench.runs.folder import RunFolder
from roambench.runs.groups import Group, run_folders, run_name
from roambench.runs.info import RunState
from roambench.runs.lock import is_held
from roambench.runs.marks import losses

_NO_DIGESTS: Final = (
    "does not tell which data it was begun with (an older version did not note that): that they are the same "
    "is not checked"
)
#: Parts of a folder that a run which goes on writes again; that they were lost, its report says.
_MADE_AGAIN: Final = ("truth/", "models/")
#: A doubt of a run on a bench that went on.
NOT_AGAIN: Final = (
    "its controller died or was stopped; when it went on, neither preflight nor idle baseline was repeated"
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The rest of an earlier go at an experiment, by system."""

    to_resume: dict[str, Path]
    finished: dict[str, Path]


def resume_run(path: Path, console: Console, wait_s: float = 0.0, on_step: OnStepDone | None = None) -> None:
    """Carry on with the run in the folder, to its end; on a bench that is in use after `wait_s` at most.
    `on_step` gets every step that is done.

    RunError, of one sentence, where there is nothing to resume, where another process does it, and where the
    run would not end as it would have; FleetError says who holds its bench.
    """
    last_sign_s = _last_sign_s(path)
    with ExitStack() as lease:
        folder = RunFolder.open(path, write=True)
        try:
            experiment = folder.experiment
            checkpoint = resumable(experiment, folder)
            place = place_again(experiment, folder, BenchOptions(wait_s=wait_s))
            place = lease.enter_context(place.held(console))
            outage_s = max(0.0, time.time() - last_sign_s)
            with logged(path, f"run {run_name(path)}"):
                world = world_of(experiment)
                _require_trace(folder, world.movement)
                if checkpoint.data:
                    require_same_data(folder, checkpoint, data_of(world, folder.info.system))
                else:
                    say(console, f"{path}: {_NO_DIGESTS}")
        except BaseException:
            folder.close()
            raise
        _carry_on(folder, checkpoint, world, place, outage_s, console, on_step)


def ended_by_others(runs_dir: Path) -> list[Path]:
    """The runs in this folder whose controller died, or was ended by a signal that no Ctrl-C sent, as at a
    reboot: those that have something to go on from. RunError where it is no folder."""
    if not runs_dir.is_dir():
        raise RunError(f"{runs_dir}: no such folder; expected a run, or a folder of runs")
    found = []
    for path in run_folders(runs_dir):
        folder = RunFolder.open(path)
        if folder.info.state is not RunState.INTERRUPTED or folder.info.reason == BY_THE_USER:
            continue
        if has_recorded(folder):
            found.append(path)
    return found


def _carry_on(
    folder: RunFolder,
    checkpoint: Checkpoint,
    world: World,
    place: Place,
    outage_s: float,
    console: Console,
    on_step: OnStepDone | None,
) -> None:
    path, system, steps = folder.path, folder.info.system, world.movement.trace.steps
    with announced_files(path, system, steps, console), folder, logged(path, f"run {run_name(path)}"):
        folder.update(state=RunState.RUNNING, reason="", end_device_ns=None)
        if place.kind.own_clocks:
            for doubt in (NOT_AGAIN, *place.doubts):
                folder.doubt(doubt)
        over = checkpoint.next_step == steps
        where = "the end of its last step" if over else f"step {checkpoint.next_step + 1} of {steps}"
        say(console, f"{system} goes on at {where}, after {outage_s:,.0f} s without a controller: {path}")
        run_async(run_system(world, system, place, folder, console, outage_s, on_step), STOPPING)


def unfinished(place: Place, group: Group, report: Callable[[str], None]) -> Unfinished:
    """Return the same as `left_in`, and nothing where nothing can go on: the same experiment again is then
    another run."""
    found = left_in(place, group, report)
    return found if found.to_resume else Unfinished({}, {})


def left_in(place: Place, group: Group, report: Callable[[str], None]) -> Unfinished:
    """The runs of this very experiment at this place that can go on in the group, and those that are
    finished: by system. `report` gets the reason why one cannot go on."""
    experiment, found = place.experiment, Unfinished({}, {})
    if not place.kind.trains:
        return found
    for system in experiment.systems:
        path = group.folder(system)
        if not path.exists() or is_held(path / "lock"):
            continue
        try:
            folder = RunFolder.open(path)
            same = _settings(folder.experiment) == _settings(experiment)
            if not same or (folder.info.fleet, folder.info.system) != (place.kind.name, system):
                continue
            if not place.is_of(folder):
                continue
            if changed := changes(folder.info.inputs):
                report(f"{path}: is not taken: since it was begun, {'; '.join(changed)}")
            elif folder.info.state is RunState.FINISHED:
                found.finished[system] = path
            elif has_recorded(folder):
                resumable(experiment, folder)
                found.to_resume[system] = path
        except RoambenchError as error:
            report(str(error))
    return found


def _settings(experiment: Experiment) -> dict[str, Any]:
    """All that may change a result: how many train at a time may not."""
    return experiment.model_dump(mode="json", exclude={"simulated": {"workers"}})


def resumable(experiment: Experiment, folder: RunFolder) -> Checkpoint:
    """From what the run can go on; RunError says why it cannot."""
    path, info = folder.path, folder.info
    look = f"roambench report {shlex.quote(str(path))}"
    if info.state is RunState.FINISHED:
        forget(path)  # where it died behind its last word
        raise RunError(f"{path}: nothing to resume: the run is finished; look at it: {look}")
    if not info.kind.trains:
        raise RunError(
            f"{path}: cannot be resumed: its fleet is {info.fleet}, and only runs on {_resumable_kinds()} "
            f"ones can go on; what was recorded is kept: {look}"
        )
    if experiment.program.name:
        raise RunError(
            f"{path}: cannot be resumed: the state of its {experiment.program.name} app was in a process "
            f"that ended with the run; what was recorded is kept: {look}"
        )
    checkpoint = read_checkpoint(path)
    if checkpoint is None:
        raise RunError(f"{path}: nothing to resume: {_without_checkpoint(folder)}; start a new run")
    lost = dict.fromkeys((*losses(path, checkpoint.marks), *folder.losses()))
    if lost := {loss: None for loss in lost if not loss.startswith(_MADE_AGAIN)}:
        raise RunError(
            f"{path}: cannot be resumed: {'; '.join(lost)}, so what came before would be missing; {PUT_BACK}"
        )
    require_same(experiment, folder, checkpoint)
    return checkpoint


def _without_checkpoint(folder: RunFolder) -> str:
    if not _closed_steps(folder):
        return "it died before a step was closed"
    return "its checkpoint.json is not there, though steps were closed"


def has_recorded(folder: RunFolder) -> bool:
    """Return whether a run of trainings got so far that there is something to go on from, or was."""
    return read_checkpoint(folder.path) is not None or _closed_steps(folder)


def _closed_steps(folder: RunFolder) -> bool:
    """Return whether a checkpoint must have been written: one is, at the latest, before the second step
    closes."""
    if not folder.info.kind.trains:
        return False
    try:
        return folder.read_log().count(StepClosed) > 1
    except RunError:  # the log cannot tell any more
        return True


def _resumable_kinds() -> str:
    return ", ".join(kind.name for kind in FLEET_KINDS.values() if kind.trains)


def _require_trace(folder: RunFolder, movement: Movement) -> None:
    if movement.content_hash != folder.info.trace_hash:
        raise RunError(
            f"{folder.path}: cannot be resumed: the trace that its settings name is not the one that it "
            "replayed; put that back, or start a new run"
        )


def _last_sign_s(path: Path) -> float:
    """The last write of the run, in UTC seconds."""
    signs = [path / name for name in ("run.json", "checkpoint.json", "events.sqlite", "events.sqlite-wal")]
    return max((sign.stat().st_mtime for sign in signs if sign.exists()), default=0.0)
