"""Images per second of the stacked backend against one sequential worker, in the same run.

    python benchmarks/stacked.py [--model mohawk_cnn] [--devices 16] [--images 40] [--stacks 1,4,16]
                                 [--device auto|cpu|cuda] [--precision float32|float64|tf32|bfloat16]
                                 [--threads 1] [--repeats 3]

Every device trains one epoch on its own images, batch 8, momentum 0.9. The sequential worker is what
backend `workers` runs on each core: one thread, channels last. The stacked learner uses the device named,
with --threads threads for what runs on the CPU. Variants are taken in turn and the best wall time of the
repeats counts, so that other load moves the figures more than the ratios. The final models are compared: the
largest difference relative to the norm is printed with every row.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import torch

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


def shards_of(devices: int, images: int, channels: int) -> list[Shard]:
    draws = np.random.default_rng(0)
    return [
        Shard(
            draws.standard_normal((images, channels, 32, 32)).astype(np.float32),
            draws.integers(0, 10, images),
        )
        for _ in range(devices)
    ]


def sequential(spec: LearningSpec, shards: list[Shard], start: np.ndarray) -> Callable[[], Models]:
    learner = Learner(spec)

    def once() -> Models:
        torch.set_num_threads(1)
        return [
            learner.train(shard, LocalTraining(seed=number), start).vector
            for number, shard in enumerate(shards)
        ]

    return once


def stacked(
    spec: LearningSpec,
    shards: list[Shard],
    start: np.ndarray,
    stack: int,
    device: str,
    threads: int,
    autocast: bool,
) -> Callable[[], Models]:
    learner = StackedLearner(spec, stack=stack, device=device, autocast=autocast)
    steps = math.ceil(len(shards[0].labels) / spec.batch_size)
    tasks = [StackedTask(shard, start, None, "ce", steps, number) for number, shard in enumerate(shards)]

    def once() -> Models:
        torch.set_num_threads(threads)
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
    parser.add_argument("--precision", choices=["float32", "float64", "tf32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    keep_freed_memory()
    device = computing_device(options.device, options.precision)
    precision = "float64" if options.precision == "float64" else "float32"
    spec = LearningSpec(options.model, options.channels, 10, 0.01, 0.9, 0.0, 8, "", precision=precision)
    shards = shards_of(options.devices, options.images, options.channels)
    start = flatten(module_of(spec))
    autocast = options.precision == "bfloat16"
    variants = {"sequential worker": sequential(spec, shards, start)}
    for stack in (int(text) for text in options.stacks.split(",")):
        variants[f"stack of {stack} on {device}"] = stacked(
            spec, shards, start, stack, device, options.threads, autocast
        )
    models = {name: once() for name, once in variants.items()}  # warm, too
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(options.repeats):
        for name, once in variants.items():
            began_s = time.perf_counter()
            once()  # copies its models to NumPy, so a GPU is done when it returns
            best[name] = min(best[name], time.perf_counter() - began_s)
    images = options.devices * options.images
    told = f"{options.model}, {options.devices} devices x {options.images} images, {options.precision}"
    print(f"{told:48}{'images/s':>10}{'ratio':>8}{'apart':>10}")
    for name, seconds in best.items():
        apart = max(
            float(np.abs(ours - theirs).max() / np.linalg.norm(theirs))
            for ours, theirs in zip(models[name], models["sequential worker"], strict=True)
        )
        ratio = best["sequential worker"] / seconds
        print(f"{name:48}{images / seconds:10.0f}{ratio:8.2f}{apart:10.1e}")


if __name__ == "__main__":
    main()
