"""One system, at one place, into one run folder: from the first process to the exported tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from roambench.contract.model_blob import encode
from roambench.experiment.sections import Experiment
from roambench.rounds.ports import Journal
from roambench.rounds.records import RoundRecord, StepOpened
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.agents.watch import Watch
from roambench.runner.input_files import input_files
from roambench.runner.places.place import Place
from roambench.runner.plays.decentralised import PeerWorld, is_decentralised
from roambench.runner.plays.hierarchical import HierarchicalWorld
from roambench.runner.plays.play import Play, World
from roambench.runner.progress import OnStepDone, RunProgress
from roambench.runner.replayed_orders import replayed_digest
from roambench.runner.screen import say
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState


def world_of(experiment: Experiment) -> World:
    """The world that the experiment's systems share; they are all of one sort. Raises what loading traces and
    data raises."""
    return PeerWorld.of(experiment) if is_decentralised(experiment) else HierarchicalWorld.of(experiment)


async def play(
    world: World,
    system: str,
    place: Place,
    folder: RunFolder,
    console: Console,
    outage_s: float = 0.0,
    on_step: OnStepDone | None = None,
) -> None:
    """Play `system` from its first step, or from the last checkpoint in the folder, `outage_s` after the
    controller that wrote it died. `on_step` gets every step that is done."""
    trains = place.kind.trains
    piece = world.play(system, folder, trains=trains)
    checkpoints = None
    if not folder.info.data:  # a run that goes on was asked for the same before
        data = data_of(piece, system) if trains else {}
        opened = piece.learning_task.opened if trains else ()
        folder.update(inputs=input_files(piece.experiment, system, opened), data=data)
    if trains:
        layout = piece.learning_task.layout
        travels = np.zeros(piece.entries, piece.learning_task.initial_model.dtype)
        model_bytes = len(encode(travels, layout.fingerprint))
        task = piece.learning_task
        folder.update(
            model_parameters=layout.size,
            model_bytes=model_bytes,
            test_samples=piece.experiment.learning.test_images or len(task.dataset.test_labels),
            chance_accuracy=task.chance_accuracy,
        )
        checkpoints = Checkpoints(piece.experiment, folder)
    found = checkpoints.found if checkpoints is not None else None
    async with place.stage(piece, folder, console, checkpoints) as stage:
        if checkpoints is not None:
            piece.restore(stage, checkpoints)
        await stage.begin(checkpoints, outage_s)
        with RunProgress(console, piece.movement.trace, system=system, on_step=on_step) as progress:
            journal = Narrator(folder.journal, progress, stage.watch)
            pace = stage.pace(progress.say, found.next_step if found is not None else 0)
            await piece.perform(stage, folder, journal, pace, checkpoints)
        await stage.end(piece.run_id, piece.steps)
    if trains:
        export_run(folder)
    if place.kind.has_agents:
        for note in piece.notes(folder):
            say(console, note)
    place.finished(folder)
    folder.update(state=RunState.FINISHED)
    if checkpoints is not None:
        checkpoints.forget()


def data_of(played: Play | World, system: str) -> dict[str, str]:
    """Digests of what the system's run is made of, as it was loaded: by what it is."""
    replayed = replayed_digest(played.experiment.rounds.orders, system)
    return {**played.learning_task.contents, **({"replayed orders": replayed} if replayed else {})}


class Narrator:
    """A `rounds.ports.Journal` that tells a run as it happens: every record goes to the journal, to the
    progress display, and to who ends the run of a fleet that is gone."""

    def __init__(self, journal: Journal, progress: RunProgress, watch: Watch | None = None) -> None:
        self._journal = journal
        self._progress = progress
        self._watch = watch

    def append(self, record: RoundRecord) -> None:
        """Write a record to the event log and narrate it."""
        self._journal.append(record)
        self._show(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        """Write records to the event log and narrate them."""
        self._journal.extend(records)
        for record in records:
            self._show(record)

    def _show(self, record: RoundRecord) -> None:
        if self._watch is not None:
            self._progress.set_joules(self._watch.joules.total_j)
            if isinstance(record, StepOpened):
                self._watch.step = record.step
            self._watch.answering.follow(record)
        self._progress.on_record(record)
