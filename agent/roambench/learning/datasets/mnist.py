"""MNIST from its four idx files, as they lie in a folder or as they are downloaded once into a cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets import data_files
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.datasets.downloads import Download, fetch
from roambench.learning.datasets.idx import read_idx
from roambench.learning.datasets.pixels import normalised
from roambench.learning.shards import Images, Labels

_MIRROR: Final = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MAX_DOWNLOAD_BYTES: Final = 64 << 20
#: The SHA-256 is of the content before compression (gzip files differ by how they were packed).
FILES: Final = tuple(
    Download(f"{name}.gz", f"{_MIRROR}{name}.gz", "sha256", sha256, _MAX_DOWNLOAD_BYTES, of_content=True)
    for name, sha256 in (
        ("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        ("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    )
)

_MEAN: Final = 0.1307
_DEVIATION: Final = 0.3081
_SIDE: Final = 28
_CLASSES: Final = 10


def default_folder() -> Path:
    """Return where downloads are kept: $ROAMBENCH_DATA/mnist, else the user's cache folder."""
    return data_files.default_folder("mnist")


def missing(folder: Path | None = None) -> list[str]:
    """One line for every file that is there neither gzipped nor plain."""
    place = default_folder() if folder is None else folder
    names = (file.name.removesuffix(".gz") for file in FILES)
    return [f"{place / name}[.gz]: missing MNIST file" for name in names if _find(place, name) is None]


def load_mnist(
    folder: Path | None = None, *, download: bool = False, files: Sequence[Download] = FILES
) -> Dataset:
    """The standard 60,000 training and 10,000 test images, padded to 1x32x32, mean .1307, deviation .3081.

    The `files` may be gzipped (`.gz`) or not. ConfigError lists the ones that are missing and where they were
    looked for; DataError names one that is truncated or not what it should be.
    """
    place = default_folder() if folder is None else folder
    problems = missing(place)
    if problems and not download:
        raise ConfigError(problems)
    for file in files:
        if _find(place, file.name.removesuffix(".gz")) is None:
            fetch(file, place)
    train_images, train_labels = _half(place, "train")
    test_images, test_labels = _half(place, "t10k")
    return Dataset(train_images, train_labels, test_images, test_labels, classes=_CLASSES)


def _half(place: Path, part: str) -> tuple[Images, Labels]:
    images_path = _found(place, f"{part}-images-idx3-ubyte")
    labels_path = _found(place, f"{part}-labels-idx1-ubyte")
    pixels = read_idx(images_path, 3)
    labels = read_idx(labels_path, 1)
    if pixels.shape[1:] != (_SIDE, _SIDE):
        raise DataError(f"{images_path}: images of {pixels.shape[1]}x{pixels.shape[2]}, expected 28x28")
    if len(pixels) != len(labels) or len(labels) == 0:
        raise DataError(f"{labels_path}: {len(labels)} labels for {len(pixels)} images")
    if int(labels.max()) >= _CLASSES:
        raise DataError(f"{labels_path}: label {int(labels.max())}, expected 0 to {_CLASSES - 1}")
    return normalise(pixels), labels.astype(np.int64)


def normalise(pixels: npt.NDArray[np.uint8]) -> Images:
    """Bytes (n, 28, 28) to float32 (n, 1, 32, 32): a black border of 2 pixels, then (x/255 - mean)/sd."""
    return normalised(pixels[:, None], (_MEAN,), (_DEVIATION,))


def _find(place: Path, name: str) -> Path | None:
    candidates = (place / name, place / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _found(place: Path, name: str) -> Path:
    path = _find(place, name)
    if path is None:
        raise DataError(f"{place / name}: disappeared while it was to be read")
    return path
