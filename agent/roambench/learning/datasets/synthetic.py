"""A seeded synthetic image set: no file, no download, any size; separable, but not at a glance."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.learning.datasets.dataset import IMAGE_SIDE, Dataset
from roambench.learning.shards import Images, Labels

TRAIN_IMAGES: Final = 6_000
TEST_IMAGES: Final = 1_000
CLASSES: Final = 10
#: Part of the data set: it does not follow an experiment's seed, as no data set does.
SEED: Final = 1

_COARSE: Final = 6  # a class's pattern is drawn on 6x6 points and enlarged
_SHIFT: Final = 6  # pixels a pattern may lie off, each way
_FOREIGN: Final = 0.9  # most of another class's pattern that is mixed in
NOISE: Final = 1.5  # deviation of each pixel; the pattern's is 1


def load_synthetic(
    train_images: int = TRAIN_IMAGES,
    test_images: int = TEST_IMAGES,
    *,
    classes: int = CLASSES,
    channels: int = 1,
    seed: int = SEED,
    noise: float = NOISE,
) -> Dataset:
    """Images float32 (n, channels, 32, 32), mean 0 and deviation 1 over the training part; classes even.

    Every class has a smooth random pattern. An image is its class's pattern, moved by up to 6 pixels each
    way, with up to nine tenths of another class's pattern mixed in, under white noise (`noise`: its
    deviation). The training part does not depend on the size of the test part. ConfigError for sizes that
    make no data set.
    """
    problems = [
        f"{name} = {value}: expected {least} or more"
        for name, value, least in (
            ("train_images", train_images, 1),
            ("test_images", test_images, 1),
            ("classes", classes, 2),
            ("channels", channels, 1),
        )
        if value < least
    ]
    if problems:
        raise ConfigError(problems)
    patterns = _patterns(classes, channels, seed)
    train, train_labels = _part(patterns, train_images, noise, generator(seed, "synthetic train"))
    test, test_labels = _part(patterns, test_images, noise, generator(seed, "synthetic test"))
    mean, deviation = np.mean(train, dtype=np.float64), np.std(train, dtype=np.float64)
    return Dataset(
        ((train - mean) / deviation).astype(np.float32),
        train_labels,
        ((test - mean) / deviation).astype(np.float32),
        test_labels,
        classes=classes,
    )


def _patterns(classes: int, channels: int, seed: int) -> npt.NDArray[np.float32]:
    """(classes, channels, 32, 32), smooth over the edges too, each of mean 0 and deviation 1."""
    coarse = generator(seed, "synthetic patterns").standard_normal((classes, channels, _COARSE, _COARSE))
    # Fourier coefficients of the coarse field, zero beyond: the smooth field through its points.
    spectrum = np.zeros((classes, channels, IMAGE_SIDE, IMAGE_SIDE), dtype=np.complex128)
    waves = np.fft.fftfreq(_COARSE, 1.0 / _COARSE).astype(np.int64)
    spectrum[:, :, waves[:, None], waves] = np.fft.fft2(coarse)
    fields = np.fft.ifft2(spectrum).real
    fields -= fields.mean(axis=(1, 2, 3), keepdims=True)
    fields /= fields.std(axis=(1, 2, 3), keepdims=True)
    return fields.astype(np.float32)


def _part(
    patterns: npt.NDArray[np.float32], count: int, deviation: float, draws: np.random.Generator
) -> tuple[Images, Labels]:
    classes, channels = patterns.shape[:2]
    labels = draws.permutation(np.arange(count) % classes).astype(np.int64)
    others = (labels + draws.integers(1, classes, count)) % classes
    own, foreign = _moved(patterns, labels, draws), _moved(patterns, others, draws)
    share = draws.uniform(0.0, _FOREIGN, (count, 1, 1, 1)).astype(np.float32)
    noise = draws.standard_normal((count, channels, IMAGE_SIDE, IMAGE_SIDE), dtype=np.float32)
    return own + share * foreign + np.float32(deviation) * noise, labels


def _moved(patterns: npt.NDArray[np.float32], labels: Labels, draws: np.random.Generator) -> Images:
    """Each label's pattern, rolled by up to 6 pixels each way."""
    shifts = draws.integers(-_SHIFT, _SHIFT + 1, (2, len(labels), 1))
    rows, columns = (np.arange(IMAGE_SIDE) + shifts) % IMAGE_SIDE
    moved = patterns[labels[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return moved.transpose(0, 3, 1, 2)
