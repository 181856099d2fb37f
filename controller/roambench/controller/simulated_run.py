"""One system on virtual devices of this machine: real training, modelled transfers and times."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from roambench.contract.model_blob import encode
from roambench.controller.composition import rounds_of
from roambench.controller.config.link_model_file import load_link_model
from roambench.controller.config.sections import Experiment
from roambench.controller.narrator import Narrator
from roambench.controller.progress import RunProgress
from roambench.controller.scoring import TestSetEvaluator
from roambench.controller.world import Lesson, Movement, learning_spec, lesson_of
from roambench.fleet.simulated.job import WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice
from roambench.fleet.simulated.workers import TrainingWorkers
from roambench.rounds.loop import run_rounds
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.modelled_accounts import save_link_model_json
from roambench.runs.models import save_model


async def run_simulated(
    experiment: Experiment, system: str, movement: Movement, folder: RunFolder, console: Console
) -> None:
    """Run `system` on virtual devices into `folder`: the rounds, models and digests of local agents."""
    lesson = lesson_of(experiment, len(folder.info.device_names))
    layout = lesson.layout
    samples = [len(part) for part in lesson.parts]
    rounds = rounds_of(experiment, system, movement, folder, samples, layout.shapes)
    model_bytes = len(encode(lesson.initial_model, layout.fingerprint))
    folder.update(model_parameters=layout.size, model_bytes=model_bytes)
    save_link_model_json(folder.path, load_link_model(experiment.links.model))
    evaluator = TestSetEvaluator(experiment, lesson)
    async with simulated_fleet(experiment, lesson, rounds.settings.aps, folder.path / "simulation") as fleet:
        with RunProgress(console, movement.trace, system=system) as progress:
            result = await run_rounds(
                # Nobody listens: a month of 10,000 devices would write millions of orders to the absent.
                dataclasses.replace(rounds.settings, tell_absent=False),
                rounds.system,
                rounds.association,
                fleet,
                Narrator(folder.journal, progress),
                lesson.initial_model,
                throughput=rounds.throughput,
                evaluator=evaluator,
            )
    about = {"system": system, "digest": result.digest, "layout": layout.fingerprint}
    model_path = folder.path / "models" / "global.safetensors"
    save_model(model_path, result.model, names=layout.names, shapes=layout.shapes, about=about)
    export_run(folder)
    folder.update(state=RunState.FINISHED)


@asynccontextmanager
async def simulated_fleet(
    experiment: Experiment, lesson: Lesson, aps: int, folder: Path
) -> AsyncIterator[SimulatedFleet]:
    """Warm workers and a fleet over them; `folder` holds what they share and is removed at the end."""
    folder.mkdir(parents=True)
    section = experiment.simulated
    # Per device a model trained, one of its own and one in training; per AP a model and its successor.
    capacity = 3 * len(lesson.parts) + 2 * aps + 16
    rows = ModelRows(folder / "models.bin", lesson.layout.size, capacity, create=True)
    setting = save_lesson(experiment, lesson, folder, capacity)
    workers = TrainingWorkers(setting, folder, section.workers or os.cpu_count() or 1)
    try:
        await workers.start()
        device = VirtualDevice(
            section.sgd_step_s,
            section.download_mbit_s,
            section.upload_mbit_s,
            section.speed_spread,
            experiment.seed,
        )
        yield SimulatedFleet(rows, workers, lesson.layout.fingerprint, device)
    finally:
        await asyncio.shield(workers.stop())
        shutil.rmtree(folder, ignore_errors=True)


def save_lesson(experiment: Experiment, lesson: Lesson, folder: Path, capacity: int) -> WorkerSetting:
    """What the workers map instead of copying: the training set and every device's part of it."""
    offsets = np.cumsum([0, *(len(part) for part in lesson.parts)], dtype=np.int64)
    arrays: dict[str, npt.NDArray[Any]] = {
        "images": lesson.dataset.train_images,
        "labels": lesson.dataset.train_labels,
        "parts": np.concatenate([np.asarray(part, dtype=np.int64) for part in lesson.parts]),
        "offsets": offsets,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return WorkerSetting(
        learning=learning_spec(experiment, lesson, Path()),
        images_path=str(folder / "images.npy"),
        labels_path=str(folder / "labels.npy"),
        parts_path=str(folder / "parts.npy"),
        offsets_path=str(folder / "offsets.npy"),
        models_path=str(folder / "models.bin"),
        model_size=lesson.layout.size,
        model_capacity=capacity,
    )
