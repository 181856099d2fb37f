"""Images per second of the stacked backend against workers on the CPU, in the same run.

    python benchmarks/stacked.py [--model mohawk_cnn] [--devices 16] [--images 40] [--stacks 1,4,16]
                                 [--device auto|cpu|cuda] [--precisions float32,float64,tf32,bfloat16]
                                 [--runs 1,4 --upload 7]
                                 [--workers 2] [--threads 1] [--repeats 3] [--csv FILE]

On a GPU, the whole table with the goal of 20 times two cores for 50 models:

    python benchmarks/stacked.py --devices 256 --images 40 --stacks 8,32,50,64,128,256 --runs 1,2,4,8,16 \\
                                 --precisions float32,tf32,bfloat16 --csv stacked.csv

Every device trains one epoch on its own images, batch 8, momentum 0.9. The rivals are backend `workers`: a
process a core, one thread each, channels last. The stacked learner uses the device named, with --threads
threads for what runs on the CPU; on a GPU each stack has a row with CUDA graphs and one without. Runs share a
process as in a sweep: each orders one batch of --upload models after the other, and what waits is one stack
(the last column is its mean size). Stacks are taken in turn and the best wall time of the repeats counts, so
that other load moves the figures more than the ratios. The final models are compared: the largest difference
relative to the norm is printed with every row. What a device lacks the memory or the precision for is told in
its row.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import itertools
import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from setting.figures import keep

from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.fleet.simulated.job import StackedSetting, TrainingJob, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.stacked import StackedTrainer, shared_in
from roambench.fleet.simulated.stacked_learner import StackedLearner, StackedTask
from roambench.fleet.simulated.stacked_worker import computing_device
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner, module_of
from roambench.learning.malloc import keep_freed_memory
from roambench.learning.shards import Shard
from roambench.learning.training import TrainingResult

Models = list[np.ndarray]


def shard_of(device: int, images: int, channels: int) -> Shard:
    draws = np.random.default_rng(device)
    return Shard(
        draws.standard_normal((images, channels, 32, 32)).astype(np.float32), draws.integers(0, 10, images)
    )


_LEARNERS: dict[str, Learner] = {}


def trained_by_worker(spec: LearningSpec, start: np.ndarray, devices: range, images: int) -> Models:
    """The models of some devices, one after the other on one thread: what a worker process does."""
    learner = _LEARNERS.get(spec.precision)
    if learner is None:
        torch.set_num_threads(1)
        keep_freed_memory()
        learner = _LEARNERS[spec.precision] = Learner(spec)
    return [
        learner.train(shard_of(device, images, spec.in_channels), LocalTraining(seed=device), start).vector
        for device in devices
    ]


def workers(
    pool: ProcessPoolExecutor, count: int, spec: LearningSpec, start: np.ndarray, devices: int, images: int
) -> Callable[[], Models]:
    def once() -> Models:
        parts = [range(first, devices, count) for first in range(count)]
        of = [pool.submit(trained_by_worker, spec, start, part, images) for part in parts]
        models: dict[int, np.ndarray] = {}
        for part, future in zip(parts, of, strict=True):
            models.update(zip(part, future.result(), strict=True))
        return [models[device] for device in range(devices)]

    return once


def stacked(
    spec: LearningSpec,
    shards: list[Shard],
    start: np.ndarray,
    stack: int,
    device: str,
    precision: str,
    graphs: bool,
) -> Callable[[], Models]:
    autocast = precision == "bfloat16"
    learner = StackedLearner(spec, stack=stack, device=device, autocast=autocast, graphs=graphs)
    steps = math.ceil(len(shards[0].labels) / spec.batch_size)
    tasks = [StackedTask(shard, start, None, "ce", steps, number) for number, shard in enumerate(shards)]

    def once() -> Models:
        computing_device(device, precision)  # TF32 or not: for all of torch
        models = []
        for result in learner.train(tasks):
            if not isinstance(result, TrainingResult):
                raise SystemExit(result)
            models.append(result.vector)
        return models

    return once


def models_a_stack(log: Path) -> float:
    """What the process of the runs says at its end, which is waited for."""
    while not (words := log.read_text().split()):
        time.sleep(0.05)
    return int(words[0]) / int(words[3])


async def runs_sharing(
    runs: int,
    upload: int,
    spec: LearningSpec,
    shards: list[Shard],
    start: np.ndarray,
    device: str,
    precision: str,
    threads: int,
) -> tuple[float, Models, float]:
    """Seconds in which each run trains all devices, `upload` at a time; one run's models; models a stack."""
    with tempfile.TemporaryDirectory() as name, shared_in(Path(name)):
        folder = Path(name)
        arrays = {
            "images": np.concatenate([shard.images for shard in shards]),
            "labels": np.concatenate([shard.labels for shard in shards]),
            "parts": np.arange(sum(len(shard.labels) for shard in shards)),
            "offsets": np.cumsum([0, *(len(shard.labels) for shard in shards)]),
        }
        for kind, array in arrays.items():
            np.save(folder / f"{kind}.npy", array)
        files = [str(folder / f"{kind}.npy") for kind in arrays]
        capacity, every = len(shards) + 1, list[tuple[StackedTrainer, ModelRows, list[TrainingJob]]]()
        for number in range(runs):
            path = folder / f"models-{number}.bin"
            rows = ModelRows(path, start.size, capacity, create=True, precision=spec.precision)
            ap_row = rows.store(start)
            jobs = [
                TrainingJob(one, ap_row, -1, -1, rows.take(), LocalTraining(seed=one))
                for one in range(len(shards))
            ]
            worker = WorkerSetting(spec, *files, str(path), start.size, capacity)
            setting = StackedSetting(worker, runs * upload, device, threads, precision)
            every.append((StackedTrainer(setting, folder), rows, jobs))

        async def run(trainer: StackedTrainer, jobs: list[TrainingJob]) -> None:
            for first in range(0, len(jobs), upload):
                for outcome in await trainer.train(jobs[first : first + upload]):
                    if outcome.refused:
                        raise SystemExit(outcome.refused)

        try:
            await asyncio.gather(*(trainer.start() for trainer, _, _ in every))
            await asyncio.gather(*(run(trainer, jobs[:upload]) for trainer, _, jobs in every))  # warm
            began_s = time.perf_counter()
            await asyncio.gather(*(run(trainer, jobs) for trainer, _, jobs in every))
            wall_s = time.perf_counter() - began_s
        finally:
            await asyncio.gather(*(trainer.stop() for trainer, _, _ in every))
        _, rows, jobs = every[-1]
        a_stack = await asyncio.to_thread(models_a_stack, folder / "stacked.log")
        return wall_s, [rows.row(job.out_row).copy() for job in jobs], a_stack


class Table:
    """The rows, printed as they come."""

    def __init__(self) -> None:
        self._rows: list[dict[str, object]] = []
        print(f"{'':56}{'images/s':>10}{'ratio':>8}{'apart':>10}{'a stack':>9}")

    def note(
        self, row: str, images_per_s: float, ratio: float, distance: float, a_stack: float | None = None
    ) -> None:
        number = "" if a_stack is None else f"{a_stack:9.1f}"
        print(f"{row:56}{images_per_s:10.0f}{ratio:8.2f}{distance:10.1e}{number}")
        figures = {"images_per_s": images_per_s, "ratio": ratio, "apart": distance}
        self._rows.append({"variant": row, **figures, "models_a_stack": a_stack})

    def refuse(self, row: str, reason: str) -> None:
        print(f"{row:56}  {reason}")
        self._rows.append({"variant": row, "refused": reason})

    def write(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            columns = ["variant", "images_per_s", "ratio", "apart", "models_a_stack", "refused"]
            table = csv.DictWriter(file, columns)
            table.writeheader()
            table.writerows(self._rows)


def apart(models: Models, rivals: Models) -> float:
    """The largest difference of two models, relative to the norm."""
    return max(
        float(np.abs(ours - theirs).max() / np.linalg.norm(theirs))
        for ours, theirs in zip(models, rivals, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mohawk_cnn")
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--devices", type=int, default=16)
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--stacks", default="1,4,16")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--precisions", default="float32")
    parser.add_argument("--runs", default="")
    parser.add_argument("--upload", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    device = computing_device(options.device, "float32")
    shards = [shard_of(number, options.images, options.channels) for number in range(options.devices)]
    images = options.devices * options.images
    name = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    print(f"{options.model}, {options.devices} devices x {options.images} images; torch {torch.__version__}")
    table = Table()
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("forkserver")) as pool:
        for precision in options.precisions.split(","):
            wide = "float64" if precision == "float64" else "float32"
            spec = LearningSpec(options.model, options.channels, 10, 0.01, 0.9, 0.0, 8, "", precision=wide)
            start = flatten(module_of(spec))
            rival = f"{options.workers} workers, {wide}"
            variants = {rival: workers(pool, options.workers, spec, start, options.devices, options.images)}
            refused: dict[str, str] = {}
            kinds = [("", True), (", no graphs", False)][: 2 if device == "cuda" else 1]
            for stack, (kind, graphs) in itertools.product(map(int, options.stacks.split(",")), kinds):
                row = f"stack of {stack} on {name}, {precision}{kind}"
                try:
                    variants[row] = stacked(spec, shards, start, stack, device, precision, graphs)
                    variants[row]()  # warm
                except Exception as error:  # the row says why; the table goes on
                    variants.pop(row, None)
                    refused[row] = str(error).splitlines()[0][:60]
            models = {row: once() for row, once in variants.items()}
            best = dict.fromkeys(variants, float("inf"))
            for _ in range(options.repeats):
                for row, once in variants.items():
                    began_s = time.perf_counter()
                    once()  # copies its models to NumPy, so a GPU is done when it returns
                    best[row] = min(best[row], time.perf_counter() - began_s)

            for row, seconds in best.items():
                ratio = best[rival] / seconds
                table.note(row, images / seconds, ratio, apart(models[row], models[rival]))
                if device == "cuda" and row == f"stack of 50 on {name}, float32":
                    limit = f"{images / best[rival]:.0f}/s two workers"
                    keep("stacked 50 on a GPU × 2 cores", ratio, limit=limit)
            for runs in map(int, filter(None, options.runs.split(","))):
                row = f"{runs} runs of {options.upload} a step on {name}, {precision}"
                given = (runs, options.upload, spec, shards, start, device, precision, options.threads)
                try:
                    seconds, found, a_stack = asyncio.run(runs_sharing(*given))
                except Exception as error:  # the row says why; the table goes on
                    refused[row] = str(error).splitlines()[0][:60]
                else:
                    ratio = runs * best[rival] / seconds
                    table.note(row, runs * images / seconds, ratio, apart(found, models[rival]), a_stack)
            for row, reason in refused.items():
                table.refuse(row, reason)
    if options.csv:
        table.write(options.csv)


if __name__ == "__main__":
    main()
