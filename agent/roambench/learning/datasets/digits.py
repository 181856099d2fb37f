"""The embedded data set: 1,797 real handwritten digits of 8x8 pixels (UCI, as scikit-learn ships them)."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch.nn import functional

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.contract.extra_packages import install_command
from roambench.learning.datasets.dataset import IMAGE_SIDE, Dataset
from roambench.learning.shards import Images, Labels

TEST_SAMPLES: Final = 360
_SPLIT_SEED: Final = 1797  # the split is part of the data set: it does not follow an experiment's seed
_DARKEST: Final = 16.0


def load_digits() -> Dataset:
    """1,437 training and 360 test digits, enlarged to 1x32x32, mean 0 and deviation 1 over the training part.

    ConfigError if scikit-learn is not installed (it belongs to the controller, not to a board).
    """
    images, labels = _normalised()
    images, labels = images.copy(), labels.copy()
    return Dataset(
        train_images=images[TEST_SAMPLES:],
        train_labels=labels[TEST_SAMPLES:],
        test_images=images[:TEST_SAMPLES],
        test_labels=labels[:TEST_SAMPLES],
        classes=10,
    )


@cache
def _normalised() -> tuple[Images, Labels]:
    """The test samples and behind them those for training: once for a process and those forked from it."""
    raw = np.loadtxt(_file(), delimiter=",", dtype=np.float32)
    raw = raw[generator(_SPLIT_SEED, "digits").permutation(len(raw))]
    images = enlarge(raw[:, :-1].reshape(-1, 8, 8) / _DARKEST)
    labels = raw[:, -1].astype(np.int64)
    train = images[TEST_SAMPLES:]
    mean = np.mean(train, dtype=np.float64)
    deviation = np.std(train, dtype=np.float64)
    return ((images - mean) / deviation).astype(np.float32), labels


def _file() -> Path:
    """One digit a line: 64 pixels of 0 to 16, its class. Importing sklearn for it takes 1.3 CPU-seconds."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise ConfigError(
            [f"data set 'digits' needs scikit-learn: {install_command('controller', 'scikit-learn')}"]
        )
    return Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")


def enlarge(images: Images) -> Images:
    """(n, 8, 8) to (n, 1, 32, 32), bilinear between pixel centres."""
    small = torch.from_numpy(images)[:, None]
    large = functional.interpolate(small, size=(IMAGE_SIDE, IMAGE_SIDE), mode="bilinear", align_corners=False)
    return large.numpy()
