"""Images per second of one device's local training: plain PyTorch against ours, in the same run.

    python benchmarks/training.py [--images 64] [--repeats 6] [--channels 1]

Both train MOHAWK's CNN with batch 8, momentum 0.9 and weight decay 5e-4 on one thread. "plain" is what one
would write first: ReLU before pooling, channels first, torch.optim.SGD. CPU time of the thread, best of the
repeats, variants taken in turn, so that other load on the machine moves the figures but hardly the ratios.
The whole comparison runs twice in turn, with the C library's own malloc settings and with ours.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from setting.figures import keep
from torch import nn
from torch.nn import functional

from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.learning.layout import flatten
from roambench.learning.malloc import keep_freed_memory
from roambench.learning.models.build import build
from roambench.learning.shards import Shard
from roambench.learning.training import single_threaded, train

BATCH = 8
RATE, MOMENTUM, DECAY = 0.01, 0.9, 5e-4


def relu_before_pool(module: nn.Module) -> nn.Sequential:
    """The same network in textbook order, with ReLUs that copy."""
    layers = [nn.ReLU() if isinstance(layer, nn.ReLU) else layer for layer in module.children()]
    pools = [index for index, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    for index in pools:
        layers[index], layers[index + 1] = layers[index + 1], layers[index]
    return nn.Sequential(*layers)


def plain(images: np.ndarray, labels: np.ndarray, channels: int) -> Callable[[], None]:
    module = relu_before_pool(build("mohawk_cnn", channels, 10))
    inputs, targets = torch.from_numpy(images), torch.from_numpy(labels)

    def once() -> None:
        optimiser = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
        for chosen in torch.from_numpy(np.random.default_rng(0).permutation(len(labels))).split(BATCH):
            optimiser.zero_grad()
            functional.cross_entropy(module(inputs[chosen]), targets[chosen]).backward()
            optimiser.step()

    return once


def ours(images: np.ndarray, labels: np.ndarray, channels: int, channels_last: bool) -> Callable[[], None]:
    module = build("mohawk_cnn", channels, 10)
    start = flatten(module)
    spec = LearningSpec(
        "mohawk_cnn", channels, 10, RATE, MOMENTUM, DECAY, BATCH, "", channels_last=channels_last
    )
    shard, training = Shard(images, labels), LocalTraining(seed=1)

    def once() -> None:
        train(module, shard, start, training, spec)

    return once


def measure(samples: int, repeats: int, channels: int, keep: bool) -> dict[str, float]:
    """Best images/s of each variant, and the page faults of the whole measurement per image."""
    single_threaded()
    if keep:
        keep_freed_memory()
    draws = np.random.default_rng(0)
    images = draws.standard_normal((samples, channels, 32, 32)).astype(np.float32)
    labels = draws.integers(0, 10, samples)
    variants = {
        "plain": plain(images, labels, channels),
        "ours, channels first": ours(images, labels, channels, False),
        "ours, channels last": ours(images, labels, channels, True),
    }
    for once in variants.values():
        once()
    best = dict.fromkeys(variants, float("inf"))
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(repeats):
        for name, once in variants.items():
            began_s = time.thread_time()
            once()
            best[name] = min(best[name], time.thread_time() - began_s)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    rates = {name: samples / seconds for name, seconds in best.items()}
    return rates | {"page faults per image": faults / (samples * repeats * len(variants))}


def first_step() -> dict[str, float]:
    """CPU seconds and resident MiB of a fresh process: the first step alone, torch already imported."""
    single_threaded()
    images, labels = np.zeros((BATCH, 1, 32, 32), dtype=np.float32), np.zeros(BATCH, dtype=np.int64)
    once = plain(images, labels, 1) if "--plain" in sys.argv else ours(images, labels, 1, True)
    began_s = time.process_time()
    once()
    taken_s = time.process_time() - began_s
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"cpu_s": taken_s, "rss_mib": pages * resource.getpagesize() / 2**20}


def child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    measured: dict[str, float] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    )
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--child", choices=["keep", "leave", "first"], help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "first":
        print(json.dumps(first_step()))
        return
    if options.child:
        print(json.dumps(measure(options.images, options.repeats, options.channels, options.child == "keep")))
        return
    settings = [
        f"--images={options.images}",
        f"--repeats={options.repeats}",
        f"--channels={options.channels}",
    ]
    results: dict[str, dict[str, float]] = {}
    for _ in range(2):
        for malloc in ("leave", "keep"):
            found = child("--child", malloc, *settings)
            kept = results.setdefault(malloc, found)
            results[malloc] = {name: max(kept[name], found[name]) for name in found}
    base = results["leave"]["plain"]
    print(f"{'images/s of one thread':30}{'malloc as is':>18}{'memory kept':>18}")
    for name in ("plain", "ours, channels first", "ours, channels last"):
        cells = [f"{results[m][name]:9.0f} ({results[m][name] / base:.2f}x)" for m in ("leave", "keep")]
        print(f"{name:30}{cells[0]:>18}{cells[1]:>18}")
    keep("training × plain PyTorch", results["keep"]["ours, channels last"] / base, limit=f"{base:.0f}/s")
    name = "page faults per image"
    print(f"{name:30}{results['leave'][name]:18.1f}{results['keep'][name]:18.1f}")
    print(f"\n{'first step of a fresh process':30}{'CPU s':>18}{'RSS MiB':>18}")
    for name, extra in (("torch.optim.SGD", ["--plain"]), ("ours", [])):
        step = child("--child", "first", *extra)
        print(f"{name:30}{step['cpu_s']:18.2f}{step['rss_mib']:18.0f}")


if __name__ == "__main__":
    main()
