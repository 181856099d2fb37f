"""A run whose controller died, or was stopped, goes on to the end that it would have had."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from roambench.contract.errors import RoambenchError, RunError
from roambench.controller.agents_kept import clock_again
from roambench.controller.checkpoints import RESUMABLE, forget, require_same
from roambench.controller.composition import BENCH, numbered_folder
from roambench.controller.config.load import from_resolved, resolved
from roambench.controller.config.sections import Experiment
from roambench.controller.foreign_code import blaming
from roambench.controller.kept import kept_told
from roambench.controller.peer_world import is_decentralised
from roambench.controller.stopping import STOPPING, run_async
from roambench.controller.world import Movement, movement_of
from roambench.rounds.records import RunResumed
from roambench.runs.checkpoint_file import Checkpoint, read_checkpoint
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.lock import is_held

if TYPE_CHECKING:  # SSH and all that; runs elsewhere need none of it
    from roambench.controller.bench_run import BenchPlace
    from roambench.provision.bench import Bench, Host

#: A doubt of a run on a bench that went on.
NOT_AGAIN: Final = (
    "its controller died or was stopped; when it went on, neither preflight nor idle baseline was repeated"
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What an earlier go at an experiment left, by system."""

    to_resume: dict[str, Path]
    finished: dict[str, Path]


def resume_run(path: Path, console: Console, wait_s: float = 0.0) -> None:
    """Carry on with the run in the folder, to its end; on a bench that is in use after `wait_s` at most.

    RunError, of one sentence, where there is nothing to resume, where another process does it, and where the
    run would not end as it would have; FleetError says who holds its bench.
    """
    last_sign_s = _last_sign_s(path)
    with ExitStack() as lease:
        folder = RunFolder.open(path, write=True)
        try:
            experiment = from_resolved(folder.config, str(path / "experiment.json"))
            checkpoint = resumable(experiment, folder)
            place = None
            if folder.info.fleet == BENCH:
                from roambench.controller.bench_run import bench_again

                place = lease.enter_context(bench_again(experiment, folder, wait_s, console))
            outage_s = max(0.0, time.time() - last_sign_s)
            with blaming(path, f"run {path.name}"):
                steps, carry_on = _prepared(experiment, folder, console, outage_s, place)
        except BaseException:
            folder.close()
            raise
        _carry_on(folder, checkpoint, steps, carry_on, outage_s, console)


def _carry_on(
    folder: RunFolder,
    checkpoint: Checkpoint,
    steps: int,
    carry_on: Coroutine[Any, Any, None],
    outage_s: float,
    console: Console,
) -> None:
    path = folder.path
    with kept_told(path, folder.info.system, steps, console), folder, blaming(path, f"run {path.name}"):
        folder.update(state=RunState.RUNNING, reason="", end_device_ns=None)
        if folder.info.fleet == BENCH and NOT_AGAIN not in folder.info.doubts:
            folder.update(doubts=(*folder.info.doubts, NOT_AGAIN))
        if folder.info.fleet == "simulated":  # agents have to be there first
            folder.journal.append(RunResumed(checkpoint.next_step, 0, outage_s))
        over = checkpoint.next_step == steps
        where = "the end of its last step" if over else f"step {checkpoint.next_step + 1} of {steps}"
        console.print(
            f"{folder.info.system} goes on at {where}, after {outage_s:,.0f} s without a controller: {path}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        run_async(carry_on, STOPPING)


def unfinished(
    experiment: Experiment,
    fleet: str,
    runs_dir: Path,
    tell: Callable[[str], None],
    bench: Bench | None = None,
    hosts: Sequence[Host] = (),
) -> Unfinished:
    """The runs of this very experiment on this kind of fleet that can go on, and those that are finished
    already where others of the same go are not: by system. `tell` hears why one cannot go on. On a `bench`
    its devices are to be these `hosts`."""
    found = Unfinished({}, {})
    if fleet not in RESUMABLE:
        return found
    for system in experiment.systems:
        path = _newest(runs_dir, f"{experiment.name}-{system}")
        if path is None or is_held(path / "lock"):
            continue
        try:
            folder = RunFolder.open(path)
            same = _settings(folder.config) == _settings(resolved(experiment))
            if not same or (folder.info.fleet, folder.info.system) != (fleet, system):
                continue
            if bench is not None and not _is_on(folder, bench, hosts):
                continue
            if folder.info.state is RunState.FINISHED:
                found.finished[system] = path
            elif read_checkpoint(path) is not None:
                resumable(experiment, folder)
                found.to_resume[system] = path
        except RoambenchError as error:
            tell(str(error))
    return found if found.to_resume else Unfinished({}, {})


def _is_on(folder: RunFolder, bench: Bench, hosts: Sequence[Host]) -> bool:
    """Whether these hosts of that bench play the run's devices."""
    from roambench.controller.bench_run import bench_file_of

    try:
        file = bench_file_of(folder.path)
    except RunError:  # of a version whose runs could not go on
        return False
    same = list(folder.info.device_names) == [host.name for host in hosts]
    return same and file == bench.file.resolve()


def _newest(runs_dir: Path, name: str) -> Path | None:
    """The last of `name`, `name`-2, `name`-3, ... that is there."""
    last, number = None, 1
    while (path := numbered_folder(runs_dir, name, number)).exists():
        last, number = path, number + 1
    return last


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """All that may change a result: how many train at a time may not."""
    return {**config, "simulated": {**config.get("simulated", {}), "workers": 0}}


def resumable(experiment: Experiment, folder: RunFolder) -> Checkpoint:
    """From what the run can go on; RunError says why it cannot."""
    path, info = folder.path, folder.info
    if info.state is RunState.FINISHED:
        forget(path)  # where it died behind its last word
        raise RunError(f"{path}: nothing to resume: the run is finished; look at it: roambench report {path}")
    if info.fleet not in RESUMABLE:
        raise RunError(
            f"{path}: cannot be resumed: its fleet is {info.fleet}, and only runs on {', '.join(RESUMABLE)} "
            f"ones can go on; what was recorded is kept: roambench report {path}"
        )
    checkpoint = read_checkpoint(path)
    if checkpoint is None:
        raise RunError(f"{path}: nothing to resume: it died before a step was closed; start it anew")
    require_same(experiment, folder, checkpoint)
    if info.fleet in ("local", BENCH):
        try:
            clock_again(checkpoint.fleet, info.time_scale)
        except RunError as error:
            raise RunError(f"{path}: cannot be resumed: {error}") from None
    return checkpoint


def _prepared(
    experiment: Experiment,
    folder: RunFolder,
    console: Console,
    outage_s: float,
    place: BenchPlace | None,
) -> tuple[int, Coroutine[Any, Any, None]]:
    """The run's steps in all, and what carries on with it."""
    system, local = folder.info.system, folder.info.fleet == "local"
    if is_decentralised(experiment):
        from roambench.controller.peer_run import peer_world, run_peers_simulated

        world = peer_world(experiment)
        _require_trace(folder, world.movement)
        if place is not None:
            from roambench.controller.bench_run import run_peers_bench

            carry_on = run_peers_bench(place, world, system, folder, console, outage_s)
            return world.movement.trace.steps, carry_on
        if local:
            from roambench.controller.local_run import run_peers_local

            return world.movement.trace.steps, run_peers_local(world, system, folder, console, outage_s)
        return world.movement.trace.steps, run_peers_simulated(world, system, folder, console)
    from roambench.controller.simulated_run import run_simulated

    movement = movement_of(experiment)
    _require_trace(folder, movement)
    if place is not None:
        from roambench.controller.bench_run import run_bench

        carry_on = run_bench(place, system, movement, folder, console, outage_s)
        return movement.trace.steps, carry_on
    if local:
        from roambench.controller.local_run import run_local

        carry_on = run_local(experiment, system, movement, folder, console, outage_s)
        return movement.trace.steps, carry_on
    return movement.trace.steps, run_simulated(experiment, system, movement, folder, console)


def _require_trace(folder: RunFolder, movement: Movement) -> None:
    if movement.content_hash != folder.info.trace_hash:
        raise RunError(
            f"{folder.path}: cannot be resumed: the trace that its settings name is not the one that it "
            "replayed; put that back, or start it anew"
        )


def _last_sign_s(path: Path) -> float:
    """Of life, in UTC seconds: whatever the run wrote last."""
    signs = [path / name for name in ("run.json", "checkpoint.json", "events.sqlite", "events.sqlite-wal")]
    return max((sign.stat().st_mtime for sign in signs if sign.exists()), default=0.0)
