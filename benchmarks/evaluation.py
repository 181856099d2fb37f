"""CPU seconds of scoring a model on a test set, beside what it took with the module's weights contiguous.

    python benchmarks/evaluation.py [--model mohawk_cnn] [--channels 1] [--images 10000] [--repeats 3]

"before": images channels last in batches of 256, weights as PyTorch makes them. "now":
`roambench.learning.evaluation.evaluate`; then the same in bfloat16 (`learning.score_precision`). They are
taken in turn (A B C A B C) by the process's CPU time, on one thread as the controller has it; the ratio is
that of the sums. The answers of the first two must be the same classes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from setting.figures import keep
from torch import nn

from roambench.learning.evaluation import Evaluation, evaluate
from roambench.learning.layout import flatten, load
from roambench.learning.models.build import build
from roambench.learning.training import single_threaded


def before(module: nn.Module, vector: np.ndarray, images: np.ndarray, labels: np.ndarray) -> Evaluation:
    load(module, vector)
    module.eval()
    right, loss = 0, 0.0
    for start in range(0, len(labels), 256):
        pixels = torch.from_numpy(images[start : start + 256]).contiguous(memory_format=torch.channels_last)
        targets = torch.from_numpy(labels[start : start + 256])
        with torch.inference_mode():
            logits = module(pixels)
            loss += float(nn.functional.cross_entropy(logits, targets, reduction="none").double().sum())
        right += int((logits.argmax(dim=1) == targets).sum())
    return Evaluation(right / len(labels), loss / len(labels))


def timed(body: Callable[[], Evaluation]) -> tuple[float, Evaluation]:
    start = time.process_time()
    score = body()
    return time.process_time() - start, score


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="mohawk_cnn")
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    single_threaded()
    draws = np.random.default_rng(0)
    images = draws.standard_normal((options.images, options.channels, 32, 32)).astype(np.float32)
    labels = draws.integers(0, 10, options.images)
    modules = [build(options.model, options.channels, 10, seed=1) for _ in range(2)]
    vector = flatten(modules[0])
    sums, ratios, coarse_ratios = [0.0, 0.0], [], []
    for number in range(options.repeats):
        taken = [
            timed(lambda: before(modules[0], vector, images, labels)),
            timed(lambda: evaluate(modules[1], vector, images, labels)),
            timed(lambda: evaluate(modules[1], vector, images, labels, bfloat16=True)),
        ]
        (old, old_score), (new, new_score), (coarse, coarse_score) = taken
        if old_score.accuracy != new_score.accuracy:
            raise SystemExit(f"accuracies differ: {old_score.accuracy} and {new_score.accuracy}")
        sums = [sums[0] + old, sums[1] + new]
        ratios.append(new / old)
        coarse_ratios.append(coarse / old)
        apart = abs(new_score.loss / old_score.loss - 1.0)
        print(f"{number + 1}: before {old:.2f} s, now {new:.2f} s; losses {apart:.1e} apart")
        apart = abs(coarse_score.loss / old_score.loss - 1.0)
        print(f"   bfloat16 {coarse:.2f} s; losses {apart:.1e} apart")
    print(f"{options.model}, {options.images} images: now / before = {sums[1] / sums[0]:.2f}")
    keep("evaluation × before", *ratios, limit=f"{sums[0] / options.repeats:.1f} s")
    keep("evaluation bfloat16 × before", *coarse_ratios)


if __name__ == "__main__":
    main()
