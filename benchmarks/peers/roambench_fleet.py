"""roambench's simulated fleet: what a run does with it in every step, without the rest of a run."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from case import Case, case_of, finish, tell, turns

from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Answer, TrainOrder, UploadOrder, UploadReply, Vector
from roambench.fleet.simulated.job import WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice, Workload
from roambench.fleet.simulated.workers import TrainingWorkers
from roambench.learning.layout import layout_of
from roambench.learning.task_parts import build_model
from roambench.vectors import RunningMean


def setting_of(case: Case, folder: Path, capacity: int) -> WorkerSetting:
    images, labels = case.array("images"), case.array("labels")
    arrays = {
        "images": images.reshape(-1, *images.shape[2:]),
        "labels": labels.reshape(-1),
        "parts": np.arange(labels.size),
        "offsets": np.arange(case.clients + 1) * case.images,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    task = "wide_task:Wide" if case.network == "wide" else ""
    side = images.shape[-1]
    spec = LearningSpec(
        "mohawk_cnn",
        1,
        10,
        case.learning_rate,
        case.momentum,
        case.weight_decay,
        case.batch_size,
        "",
        channels_last=case.channels_last,
        task=task,
        height=side,
        width=side,
    )
    paths = [str(folder / f"{name}.npy") for name in arrays]
    return WorkerSetting(spec, *paths, str(folder / "models.bin"), case.array("start").size, capacity)


async def one_round(fleet: SimulatedFleet, case: Case, number: int, model: Vector) -> Vector:
    """Everybody trains and uploads; models are folded into the mean as they arrive, by ascending client."""
    digest = fleet.publish(model)
    fleet.retain([digest])
    await fleet.perform(
        [
            TrainOrder(f"{number}/{client}", client, number, 0, digest, LocalTraining(1, int(seed)))
            for client, seed in enumerate(case.array("seeds")[number])
        ]
    )
    mean, early = RunningMean(), dict[int, Vector]()
    folded = 0

    def fold(answer: Answer) -> Answer:
        nonlocal folded
        if not isinstance(answer.reply, UploadReply):
            raise RuntimeError(answer.reason)
        early[answer.device] = answer.reply.model
        while folded in early:
            mean.add(early.pop(folded), 1.0)
            folded += 1
        return replace(answer, reply=None)

    await fleet.perform(
        [
            UploadOrder(f"{number}/{client}/up", client, number, 0, f"{number}/{client}")
            for client in range(case.clients)
        ],
        fold,
    )
    return mean.mean()


async def compete(case: Case, folder: Path) -> None:
    capacity = 5 * case.clients + 20
    setting = setting_of(case, folder, capacity)
    layout = layout_of(build_model(setting.learning.task, setting.learning.model, 1, 10))
    rows = ModelRows(folder / "models.bin", layout.size, capacity, create=True)
    pool = TrainingWorkers(setting, folder, case.workers)
    await pool.start()
    try:
        work = Workload(case.images, -(-case.images // case.batch_size))
        fleet = SimulatedFleet(
            rows, pool, layout.fingerprint, VirtualDevice(0.0, 0.0, 0.0), lambda order: work, defers=True
        )
        model = np.array(case.array("start"))
        for number in turns(case):
            before_s = fleet.computing_s
            model = await one_round(fleet, case, number, model)
            tell(sgd_s=fleet.computing_s - before_s)
        finish(case, model)
    finally:
        await pool.stop()


def main() -> None:
    case = case_of(sys.argv)
    with tempfile.TemporaryDirectory(dir=case.folder) as folder:
        asyncio.run(compete(case, Path(folder)))


if __name__ == "__main__":
    main()
