"""Images per second of the stacked backend against workers on the CPU, in the same run.

    python benchmarks/stacked.py [--model mohawk_cnn] [--devices 16] [--images 40] [--stacks 1,4,16]
                                 [--device auto|cpu|cuda] [--precisions float32,float64,tf32,bfloat16]
                                 [--workers 2] [--threads 1] [--repeats 3] [--csv FILE]

On a GPU, the whole table with the goal of 20 times two cores for 50 models:

    python benchmarks/stacked.py --devices 256 --images 40 --stacks 8,32,50,64,128,256 \\
                                 --precisions float32,tf32,bfloat16 --csv stacked.csv

Every device trains one epoch on its own images, batch 8, momentum 0.9. The rivals are backend `workers`: a
process a core, one thread each, channels last. The stacked learner uses the device named, with --threads
threads for what runs on the CPU. Variants are taken in turn and the best wall time of the repeats counts, so
that other load moves the figures more than the ratios. The final models are compared: the largest difference
relative to the norm is printed with every row. What a device lacks the memory or the precision for is told in
its row.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from setting.figures import keep

from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
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
    spec: LearningSpec, shards: list[Shard], start: np.ndarray, stack: int, device: str, precision: str
) -> Callable[[], Models]:
    learner = StackedLearner(spec, stack=stack, device=device, autocast=precision == "bfloat16")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mohawk_cnn")
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--devices", type=int, default=16)
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--stacks", default="1,4,16")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--precisions", default="float32")
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
    print(f"{'':48}{'images/s':>10}{'ratio':>8}{'apart':>10}")
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("forkserver")) as pool:
        for precision in options.precisions.split(","):
            wide = "float64" if precision == "float64" else "float32"
            spec = LearningSpec(options.model, options.channels, 10, 0.01, 0.9, 0.0, 8, "", precision=wide)
            start = flatten(module_of(spec))
            rival = f"{options.workers} workers, {wide}"
            variants = {rival: workers(pool, options.workers, spec, start, options.devices, options.images)}
            refused: dict[str, str] = {}
            for stack in (int(text) for text in options.stacks.split(",")):
                row = f"stack of {stack} on {name}, {precision}"
                try:
                    variants[row] = stacked(spec, shards, start, stack, device, precision)
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
                apart = max(
                    float(np.abs(ours - theirs).max() / np.linalg.norm(theirs))
                    for ours, theirs in zip(models[row], models[rival], strict=True)
                )
                ratio = best[rival] / seconds
                print(f"{row:48}{images / seconds:10.0f}{ratio:8.2f}{apart:10.1e}")
                if device == "cuda" and row.startswith("stack of 50 ") and precision == "float32":
                    limit = f"{images / best[rival]:.0f}/s two workers"
                    keep("stacked 50 on a GPU × 2 cores", ratio, limit=limit)
                rows.append(
                    {"variant": row, "images_per_s": images / seconds, "ratio": ratio, "apart": apart}
                )
            for row, reason in refused.items():
                print(f"{row:48}  {reason}")
                rows.append({"variant": row, "refused": reason})
    if options.csv:
        with options.csv.open("w", newline="") as file:
            table = csv.DictWriter(file, ["variant", "images_per_s", "ratio", "apart", "refused"])
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
