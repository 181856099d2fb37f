"""Virtual devices of this machine: real training, modelled transfers and times."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from rich.console import Console

from roambench.contract.orders import ExchangeOrder, TrainOrder
from roambench.contract.table import Table
from roambench.experiment.link_model_file import load_link_model
from roambench.experiment.sections import Experiment
from roambench.experiment.simulated_section import SimulatedSection
from roambench.fleet.simulated.job import StackedSetting, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows, free_of_others
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice, Workload
from roambench.fleet.simulated.stacked import StackedTrainer
from roambench.fleet.simulated.trainer import TrainingBackend
from roambench.fleet.simulated.workers import TrainingWorkers
from roambench.learning.local_algorithms import local_algorithm
from roambench.runner.agents.checkpoints import SIMULATION, Checkpoints
from roambench.runner.places.place import ThisMachine
from roambench.runner.stopping import to_its_end
from roambench.runner.system_runs.ready_fleet import InProcessFleet, ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds, World
from roambench.runner.world import LearningTask, learning_spec, link_codecs
from roambench.runs.fleet_kinds import FLEET_KINDS, FleetKind
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import save_link_model_json
from roambench.systems.system import StartModel, System

#: Workers of a controller that was killed end after their current training: this long none may stand still.
_PATIENCE_S: Final = 120.0


class SimulatedPlace(ThisMachine):
    """Virtual devices: the rounds, models and digests of local agents."""

    kind: ClassVar[FleetKind] = FLEET_KINDS["simulated"]

    @asynccontextmanager
    async def ready_fleet(
        self,
        world: World,
        needs: FleetNeeds,
        folder: RunFolder,
        console: Console,
        checkpoints: Checkpoints | None,
    ) -> AsyncIterator[ReadyFleet]:
        """A fleet of virtual devices whose trainings this machine's workers compute; notes the link model
        when the run begins."""
        if checkpoints is None or checkpoints.found is None:
            save_link_model_json(folder.path, load_link_model(world.experiment.links.model))
        if world.learning_task.programs:
            async with _of_programs(world, needs, folder) as fleet:
                yield fleet
            return
        async with simulated_fleet(
            world.experiment,
            world.learning_task,
            needs.aps,
            folder.path / SIMULATION,
            needs.system,
            peers=needs.exchanges,
            peak=needs.peak_models,
            checkpoints=checkpoints,
            entries=needs.entries,
        ) as fleet:
            yield InProcessFleet(fleet, folder, fleet)


@asynccontextmanager
async def _of_programs(world: World, needs: FleetNeeds, folder: RunFolder) -> AsyncIterator[ReadyFleet]:
    """Devices whose programs answer messages or, in a system of ours, train its models."""
    from roambench.fleet.simulated.program_fleet import (  # with the agent's end comes grpc
        ProgramFleet,
        ProgramTrainer,
        loaded_programs,
    )

    experiment, task = world.experiment, world.learning_task
    folders = [folder.path / "agents" / name for name in folder.info.device_names]
    at_once, limit_s = experiment.simulated.workers or os.cpu_count() or 1, experiment.fleet.deadline_s
    async with loaded_programs(task.programs, folders, at_once=at_once) as programs:
        if needs.system is None:
            device = virtual_device(experiment, len(folders), step_s=0.0)  # no steps are counted there
            virtual = ProgramFleet(programs, device, at_once=at_once, limit_s=limit_s)
            yield InProcessFleet(virtual, folder)
            return
        async with simulated_fleet(
            experiment,
            task,
            needs.aps,
            folder.path / SIMULATION,
            peak=needs.peak_models,
            backend=lambda rows: ProgramTrainer(programs, rows, at_once=at_once, limit_s=limit_s),
        ) as fleet:
            yield InProcessFleet(fleet, folder, fleet)


@asynccontextmanager
async def simulated_fleet(
    experiment: Experiment,
    learning_task: LearningTask,
    aps: int,
    folder: Path,
    system: System | None = None,
    *,
    peak: int = 0,
    peers: bool = False,
    checkpoints: Checkpoints | None = None,
    entries: int = 0,
    backend: Callable[[ModelRows], TrainingBackend] | None = None,
) -> AsyncIterator[SimulatedFleet]:
    """Warm workers and a fleet over them; `folder` holds what they share and is removed at the end, unless
    there are checkpoints.

    `system`: the one that will run, if it is one only: trainings may then be deferred. `peak`: for how many
    models there must be room on the disk (RunError). `peers`: devices exchange with each other.
    `checkpoints`: those of its run, which may have found one to go on from; what there is stays on the disk.
    `entries` of what travels: the model's and of vectors behind it (0: the model alone).
    `backend`: what trains, in place of the experiment's.
    """
    from roambench.runner.step_time import board_step_s  # imports torch

    folder = folder.absolute()  # workers may be forked of a process in another folder
    keeps = system is not None and keeps_on_devices(system)
    entries = entries or learning_task.layout.size
    resumed = checkpoints is not None and checkpoints.found is not None
    if resumed:
        await free_of_others(folder / "models.bin", _PATIENCE_S)
    else:
        folder.mkdir(parents=True)
    section = experiment.simulated
    # Per device a model trained, its own, one in training, one being read; per AP a model and its
    # successor; a fifth of all may be lent.
    # Peers: a model held, one half way, one mixed, two velocities, and those that are lent.
    capacity = (10 if peers else 4) * len(learning_task.parts) + 3 * aps + 32
    capacity += 2 * len(learning_task.parts) if keeps else 0  # kept from training to training: now, and next
    codecs = link_codecs(experiment)
    if codecs.codes_up:  # what codecs have yet to send, now and next; what trainings began from
        capacity += 3 * len(learning_task.parts)
    if codecs.codes_down:
        capacity *= 2  # versions themselves, and as devices get them
    capacity *= 2  # and what the last checkpoint named
    rows = ModelRows(
        folder / "models.bin",
        entries,
        capacity,
        create=not resumed,
        precision=section.model_precision,
        peak=peak,
    )
    if backend is None:
        setting = save_learning_task(experiment, learning_task, folder, capacity, entries)
        trainer = make_trainer(section, setting, rows, folder)
    else:
        trainer = backend(rows)
    try:
        await trainer.start()
        step_s = board_step_s(experiment, learning_task) if backend is None else 0.0
        device = virtual_device(experiment, len(learning_task.parts), step_s)
        yield SimulatedFleet(
            rows,
            trainer,
            learning_task.layout.fingerprint,
            device,
            foresight(experiment, learning_task),
            defers=system is not None and may_defer(section, system),
            has_momentum=peers and experiment.learning.momentum > 0.0,
            keeps=keeps,
            codecs=codecs,
            shapes=learning_task.layout.shapes,
        )
    finally:
        await to_its_end(trainer.stop)
        rows.leave()
        if checkpoints is None or not checkpoints.kept:
            shutil.rmtree(folder, ignore_errors=True)


def virtual_device(experiment: Experiment, devices: int, step_s: float) -> VirtualDevice:
    """The speeds of the experiment's virtual devices: `step_s` for an SGD step, before devices differ."""
    section = experiment.simulated
    return VirtualDevice(
        step_s,
        section.download_mbit_s,
        section.upload_mbit_s,
        section.speed_spread,
        experiment.seed,
        experiment.local.cpu_slowdown,
        section.coding_s,
        section.slowness(experiment.seed, devices, step_s),
    )


def may_defer(section: SimulatedSection, system: System) -> bool:
    """Return whether nothing but an upload ever reads a trained model or its loss."""
    return (
        section.train == "when_used"
        and not system.keeps_models
        and system.selection.rate is None
        # Another start rule may read what the device trained last.
        and system.start_model == StartModel(stayed="ap", moved="ap")
        and not keeps_on_devices(system)
    )


def keeps_on_devices(system: System) -> bool:
    """Return whether its local algorithm keeps something from one training to the next."""
    return bool(local_algorithm(system.training.objective).keeps)


def foresight(
    experiment: Experiment, learning_task: LearningTask
) -> Callable[[TrainOrder | ExchangeOrder], Workload]:
    """Foretell the workload of a training before it is computed."""

    def workload(order: TrainOrder | ExchangeOrder) -> Workload:
        samples = len(learning_task.parts[order.device])
        return Workload(samples, order.training.sgd_steps(samples, experiment.learning.batch_size))

    return workload


def save_learning_task(
    experiment: Experiment, learning_task: LearningTask, folder: Path, capacity: int, entries: int
) -> WorkerSetting:
    """Save what the workers map instead of copying: the training set and every device's part of it.
    `entries`: length of a model's row."""
    offsets = np.cumsum([0, *(len(part) for part in learning_task.parts)], dtype=np.int64)
    arrays: dict[str, npt.NDArray[Any]] = {
        "images": learning_task.dataset.train_images,
        "labels": learning_task.dataset.train_labels,
        "parts": np.concatenate([np.asarray(part, dtype=np.int64) for part in learning_task.parts]),
        "offsets": offsets,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return WorkerSetting(
        learning=learning_spec(experiment, learning_task, Path()),
        images_path=str(folder / "images.npy"),
        labels_path=str(folder / "labels.npy"),
        parts_path=str(folder / "parts.npy"),
        offsets_path=str(folder / "offsets.npy"),
        models_path=str(folder / "models.bin"),
        model_size=entries,
        model_capacity=capacity,
    )


#: Backends of extras and other packages: functions of the section, the workers' setting and the open rows.
BACKENDS: Final[Table[Callable[[SimulatedSection, WorkerSetting, ModelRows], TrainingBackend]]] = Table(
    what="training backend",
    group="roambench.training_backends",
    own={},
)


def make_trainer(
    section: SimulatedSection, setting: WorkerSetting, rows: ModelRows, folder: Path
) -> TrainingBackend:
    """The backend that `[simulated] backend` names. `rows` is the open store of `setting.models_path`;
    `folder` is for the backend's own files."""
    if section.backend == "ray":
        return BACKENDS.load("ray")(section, setting, rows)
    count = section.workers or os.cpu_count() or 1
    if section.backend == "stacked":
        stacked = StackedSetting(setting, section.stack, section.device, count, section.precision)
        return StackedTrainer(stacked, folder)
    return TrainingWorkers(setting, folder, count)
