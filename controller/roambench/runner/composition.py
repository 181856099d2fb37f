"""Puts an experiment together and runs it: one run folder per system, then they can be compared."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from roambench.contract.errors import PluginError
from roambench.experiment.sections import Experiment
from roambench.mobility.files import write_trace
from roambench.report.run_figures import write_figures
from roambench.runner.bench_options import USUAL, BenchOptions
from roambench.runner.foreign_code import foreign_code
from roambench.runner.model_files import announced_files
from roambench.runner.one_run import Conclude, run_system
from roambench.runner.places.place import Place, new_run_folder, rest_s_at
from roambench.runner.places.table import place_of
from roambench.runner.progress import OnStepDone
from roambench.runner.resuming import Unfinished, resume_run, unfinished
from roambench.runner.run_log import logged
from roambench.runner.screen import RUN_PHASES, phase, say
from roambench.runner.stopping import STOPPING, run_async
from roambench.runner.system_runs.system_run import World
from roambench.runner.system_runs.table import world_of
from roambench.runner.world import require_data
from roambench.runs.groups import Group, latest_group, new_group

#: Seconds that the unfinished systems of an experiment need a fleet; with some hosts and tags of a bench.
ExpectedS = Callable[[Experiment, str, Sequence[str], Container[str]], float]


class SystemsFailed(PluginError):
    """Some systems failed by code of other packages; `finished` are the folders of those that did not."""

    def __init__(self, problems: Sequence[str], finished: Sequence[Path]) -> None:
        self.finished = tuple(finished)
        super().__init__("\n".join(problems))


def run_experiment(
    experiment: Experiment,
    *,
    fleet: str,
    runs_dir: Path,
    console: Console,
    bench: BenchOptions = USUAL,
    fresh: bool = False,
    on_step: OnStepDone | None = None,
    expected_s: ExpectedS | None = None,
) -> list[Path]:
    """Run every system of the experiment, one after the other, on the same movement; return their folders,
    in a new group in `runs_dir`. Runs of the last start that died or were stopped are resumed where that is
    possible, unless `fresh`.

    `fleet` as on the command line, a bench with the options `bench`. `on_step` gets every step that is done.
    `expected_s` is asked where another person has booked the bench.
    Raises subclasses of RoambenchError; at the end SystemsFailed, where code of other packages failed some of
    the systems. After a KeyboardInterrupt the run folder can be read.
    """
    place = place_of(experiment, fleet, bench)
    if place.kind.trains:
        require_data(experiment)
    last = None if fresh else latest_group(runs_dir, experiment.name)
    report = functools.partial(say, console)
    left = unfinished(place, last, report) if last is not None else Unfinished({}, {})

    @functools.cache
    def group() -> Group:
        """Made when the first run begins, so that a start which is refused leaves nothing behind."""
        return last if last is not None and left.to_resume else new_group(runs_dir, experiment.name)

    return run_group(
        place,
        left,
        group,
        fleet=fleet,
        console=console,
        bench=bench,
        on_step=on_step,
        expected_s=expected_s,
    )


def run_group(
    place: Place,
    left: Unfinished,
    group: Callable[[], Group],
    *,
    fleet: str,
    console: Console,
    bench: BenchOptions = USUAL,
    on_step: OnStepDone | None = None,
    expected_s: ExpectedS | None = None,
    conclude: Conclude = write_figures,
) -> list[Path]:
    """The same where it is known what is `left` of the place's experiment; what begins goes into `group`, and
    `conclude` writes its figures."""
    experiment = place.experiment

    def planned_s() -> float | None:
        return expected_s(experiment, fleet, bench.only, left.finished) if expected_s is not None else None

    with ExitStack() as held:

        @functools.cache
        def ours() -> tuple[Place, World]:
            """The boards of a run that goes on are in it still: only what begins passes the gate."""
            phase(console, 2, RUN_PHASES, "prepare: movement and data")
            mine = held.enter_context(place.held(console, expects=planned_s))
            world = world_of(mine.experiment)
            world.announce(console)
            if mine.kind.trains and world.learning_task.channels_last != experiment.learning.channels_last:
                say(
                    console,
                    "learning.channels_last: false on all devices, as this model cannot be trained with true",
                )
            return mine, world

        if not left.to_resume:
            ours()
        return _each(
            experiment.systems,
            left,
            lambda path: resume_run(path, console, bench.wait_s, on_step),
            lambda system: _begin(*ours(), system, group(), console, on_step, conclude),
            console,
        )


def _each(
    systems: Sequence[str],
    left: Unfinished,
    resume: Callable[[Path], None],
    begin: Callable[[str], Path],
    console: Console,
) -> list[Path]:
    """Every system: begun, or gone on with where it was `left`; one whose own code fails stops no other."""
    finished, failed = list[Path](), list[str]()
    for number, system in enumerate(systems, start=1):
        which = f"{system}: system {number} of {len(systems)}"
        done = ", finished already" if system in left.finished else ""
        phase(console, 3, RUN_PHASES, f"run {which}{done}")
        try:
            if system in left.finished:
                path = left.finished[system]
            elif system in left.to_resume:
                path = left.to_resume[system]
                resume(path)
            else:
                path = begin(system)
        except PluginError as error:
            failed.append(str(error))
        else:
            finished.append(path)
    if failed:
        raise SystemsFailed(failed, finished)
    return finished


def _begin(
    place: Place,
    world: World,
    system: str,
    group: Group,
    console: Console,
    on_step: OnStepDone | None,
    conclude: Conclude,
) -> Path:
    """Run the system into its own folder."""
    trace = world.movement.trace
    path, name = group.folder(system), f"{place.experiment.name}-{system}"
    with (
        announced_files(path, system, trace.steps, console),
        new_run_folder(
            place,
            path,
            name=name,
            system=system,
            trace_hash=world.movement.content_hash,
            devices=len(trace.device_names),
            lookahead=place.experiment.rounds.lookahead,
            rest_s=rest_s_at(place),
        ) as folder,
        logged(path, f"run {name}"),
    ):
        code = foreign_code(place.experiment, place.kind, system)
        folder.update(code=tuple(package.as_json() for package in code))
        write_trace(trace, path / "trace.parquet")
        folder.update(doubts=(*world.movement.doubts, *place.doubts))
        run_async(run_system(world, system, place, folder, console, 0.0, on_step, conclude), STOPPING)
    return path
