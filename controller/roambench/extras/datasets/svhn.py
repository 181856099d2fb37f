"""SVHN, cropped digits, from its two MATLAB files (Netzer et al., 2011)."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError, DataError
from roambench.contract.extra_packages import install_command
from roambench.learning.datasets.data_files import default_folder, read_file
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.datasets.downloads import Download, fetch
from roambench.learning.datasets.pixels import Pixels, normalised, statistics
from roambench.learning.shards import Labels

_SITE: Final = "http://ufldl.stanford.edu/housenumbers/"
FILES: Final = tuple(
    Download(name, _SITE + name, "md5", md5, max_bytes=size)
    for name, md5, size in (
        ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
        ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384),
    )
)
_CLASSES: Final = 10


def missing(folder: Path | None = None) -> list[str]:
    """One line for every file that is not there."""
    place = default_folder("svhn") if folder is None else folder
    return [f"{place / file.name}: missing SVHN file" for file in FILES if not (place / file.name).is_file()]


def load_svhn(
    folder: Path | None = None, *, download: bool = False, files: Sequence[Download] = FILES
) -> Dataset:
    """73,257 training and 26,032 test images, 3x32x32, the training part's own mean and deviation.

    MATLAB's label 10 is the digit 0. ConfigError lists missing files, or says that SciPy is; DataError
    names one of `files` that is not the one that is published.
    """
    place = default_folder("svhn") if folder is None else folder
    problems = missing(place)
    if problems and not download:
        raise ConfigError(problems)
    for file in files:
        if not (place / file.name).is_file():
            fetch(file, place)
    (train, train_labels), (test, test_labels) = (_half(place / file.name, file.digest) for file in files)
    means, deviations = statistics(train)
    return Dataset(
        normalised(train, means, deviations),
        train_labels,
        normalised(test, means, deviations),
        test_labels,
        classes=_CLASSES,
    )


def _half(path: Path, digest: str) -> tuple[Pixels, Labels]:
    """SciPy's reader can end the process over a damaged file, so it is given the published ones alone."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise ConfigError(
            [f"data set 'svhn' needs SciPy: {install_command('controller', 'scipy')}"]
        ) from None
    content = read_file(path, max(file.max_bytes for file in FILES))
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != digest:
        raise DataError(f"{path}: MD5 {found[:12]}, expected {digest[:12]}: not the file that SVHN publishes")
    arrays = loadmat(io.BytesIO(content), variable_names=("X", "y"))
    # MATLAB's order: row, column, colour, image.
    return arrays["X"].transpose(3, 2, 0, 1), arrays["y"].reshape(-1).astype(np.int64) % _CLASSES
