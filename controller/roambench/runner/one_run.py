"""One system, at one place, into one run folder: from the first process to the exported tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from roambench.contract.model_blob import encode
from roambench.live.saved_page import write_page
from roambench.report.run_figures import write_figures
from roambench.rounds.ports import Journal
from roambench.rounds.records import RoundRecord, StepOpened
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.agents.watch import Watch
from roambench.runner.input_files import input_files
from roambench.runner.places.place import Place
from roambench.runner.progress import OnStepDone, RunProgress
from roambench.runner.replayed_orders import replayed_digest
from roambench.runner.scoring import scored_samples
from roambench.runner.screen import say
from roambench.runner.system_runs.system_run import World
from roambench.runs.event_log import EventLog
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

#: Called with the folder of a finished run, and its log where that was read already.
Conclude = Callable[[Path, EventLog | None], object]


async def run_system(
    world: World,
    system: str,
    place: Place,
    folder: RunFolder,
    console: Console,
    outage_s: float = 0.0,
    on_step: OnStepDone | None = None,
    conclude: Conclude = write_figures,
) -> None:
    """Run `system` from its first step, or from the last checkpoint in the folder, `outage_s` after the
    controller that wrote it died. `on_step` gets every finished step; `conclude`
    writes the figures of the finished run."""
    trains = place.kind.trains
    run = world.system_run(system, folder, trains=trains)
    checkpoints = None
    if not folder.info.data:  # a run that goes on was asked for the same before
        data = data_of(world, system) if trains else {}
        opened = world.learning_task.opened if trains else ()
        folder.update(inputs=input_files(world.experiment, system, opened), data=data)
    if trains:
        task = world.learning_task
        checkpoints = Checkpoints(world.experiment, folder)
    if trains and task.layout.size:
        travels = np.zeros(run.needs.entries, task.initial_model.dtype)
        folder.update(
            model_parameters=task.layout.size,
            model_bytes=len(encode(travels, task.layout.fingerprint)),
        )
    if trains and not task.programs:
        folder.update(
            test_samples=scored_samples(world.experiment, task),
            chance_accuracy=task.chance_accuracy,
        )
    checkpoint = checkpoints.found if checkpoints is not None else None
    async with place.ready_fleet(world, run.needs, folder, console, checkpoints) as fleet:
        if checkpoints is not None:
            run.restore(fleet, checkpoints)
        await fleet.begin(checkpoints, outage_s)
        with RunProgress(console, world.movement.trace, system=system, on_step=on_step) as progress:
            journal = ProgressJournal(folder.journal, progress, fleet.watch)
            pace = fleet.pace(progress.say, checkpoint.next_step if checkpoint is not None else 0)
            await run.perform(fleet, folder, journal, pace, checkpoints)
        await fleet.end(folder.info.name_in_orders, world.movement.trace.steps)
    log = None
    if trains:
        export_run(folder, log := folder.read_log())
    for note in run.notes(folder, on_agents=place.kind.has_agents):
        say(console, note)
    place.finished(folder, console)
    folder.update(state=RunState.FINISHED)
    conclude(folder.path, log)
    if trains:  # of a rehearsal it would take as long as all else: `watch` reads the log
        write_page(folder.path)
    if checkpoints is not None:
        checkpoints.forget()


def data_of(world: World, system: str) -> dict[str, str]:
    """Digests of the data that the system's run was made of, as loaded, by name."""
    replayed = replayed_digest(world.experiment.rounds.orders, system)
    return {**world.learning_task.contents, **({"replayed orders": replayed} if replayed else {})}


class ProgressJournal:
    """A `rounds.ports.Journal` that shows a run as it happens: every record goes to the journal, to the
    progress display, and to the watch that ends the run of a lost fleet."""

    def __init__(self, journal: Journal, progress: RunProgress, watch: Watch | None = None) -> None:
        self._journal = journal
        self._progress = progress
        self._watch = watch

    def append(self, record: RoundRecord) -> None:
        """Write a record to the event log and show it."""
        self._journal.append(record)
        self._show(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        """Write records to the event log and show them."""
        self._journal.extend(records)
        if self._watch is None:
            self._progress.on_records(records)
        else:
            for record in records:
                self._show(record)

    def _show(self, record: RoundRecord) -> None:
        if self._watch is not None:
            self._progress.set_joules(self._watch.joules.total_j)
            if isinstance(record, StepOpened):
                self._watch.step = record.step
            self._watch.follow(record)
        self._progress.on_record(record)
