"""SVHN, cropped digits, from its two MATLAB files (Netzer et al., 2011)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import numpy as np

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.data_files import default_folder, read_file
from roambench.learning.datasets import Dataset
from roambench.learning.downloads import Download, fetch
from roambench.learning.pixels import Pixels, normalised, statistics
from roambench.learning.shards import Labels

_SITE: Final = "http://ufldl.stanford.edu/housenumbers/"
FILES: Final = tuple(
    Download(name, _SITE + name, "md5", md5, max_bytes=size)
    for name, md5, size in (
        ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
        ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384),
    )
)
_MAX_BYTES: Final = 512 << 20
#: The training part has 73,257; the set's extra part 531,131.
_MAX_IMAGES: Final = 1_000_000
_CLASSES: Final = 10
_MAGIC: Final = b"MATLAB 5.0 MAT-file"


def missing(folder: Path | None = None) -> list[str]:
    """One line for every file that is not there."""
    place = default_folder("svhn") if folder is None else folder
    return [f"{place / file.name}: missing SVHN file" for file in FILES if not (place / file.name).is_file()]


def load_svhn(folder: Path | None = None, *, download: bool = False) -> Dataset:
    """73,257 training and 26,032 test images, 3x32x32, the training part's own mean and deviation.

    MATLAB's label 10 is the digit 0. ConfigError lists missing files, or says that SciPy is; DataError
    names a file that is not what it should be.
    """
    place = default_folder("svhn") if folder is None else folder
    problems = missing(place)
    if problems and not download:
        raise ConfigError(problems)
    for file in FILES:
        if not (place / file.name).is_file():
            fetch(file, place)
    (train, train_labels), (test, test_labels) = (_half(place / file.name) for file in FILES)
    means, deviations = statistics(train)
    return Dataset(
        normalised(train, means, deviations),
        train_labels,
        normalised(test, means, deviations),
        test_labels,
        classes=_CLASSES,
    )


def _half(path: Path) -> tuple[Pixels, Labels]:
    arrays = _arrays(path, read_file(path, _MAX_BYTES))
    # MATLAB's order: row, column, colour, image.
    pixels = arrays["X"].transpose(3, 2, 0, 1)
    labels = arrays["y"].reshape(-1).astype(np.int64)
    if len(labels) != len(pixels):
        raise DataError(f"{path}: {len(labels)} labels for {len(pixels)} images")
    wrong = np.flatnonzero((labels < 1) | (labels > _CLASSES))
    if len(wrong):
        raise DataError(f"{path}: record {wrong[0]} has label {labels[wrong[0]]}, expected 1 to {_CLASSES}")
    return pixels, labels % _CLASSES


def _arrays(path: Path, content: bytes) -> dict[str, Any]:
    """X and y, after a look at the headers alone: a compressed array may not grow beyond what fits."""
    try:
        from scipy.io import loadmat, whosmat
    except ImportError:
        raise ConfigError(["data set 'svhn' needs SciPy: install the extra roambench[controller]"]) from None
    if not content.startswith(_MAGIC):
        raise DataError(f"{path}: not a MATLAB 5 file (it starts with {content[:20]!r})")
    try:
        listed = whosmat(io.BytesIO(content))
        heads = {name: (shape, kind) for name, shape, kind in listed}
        if len(heads) < len(listed):  # or a harmless second X would hide what the first one promises
            raise DataError(f"{path}: holds two arrays of one name")
        _check_heads(path, heads)
        return dict(loadmat(io.BytesIO(content), variable_names=("X", "y")))
    except DataError:
        raise
    # SciPy raises nearly anything at a damaged file (ValueError, TypeError, zlib.error, MemoryError ...).
    except Exception as error:
        raise DataError(f"{path}: damaged MATLAB file ({error})") from None


def _check_heads(path: Path, heads: dict[str, tuple[tuple[int, ...], str]]) -> None:
    for name in ("X", "y"):
        if name not in heads:
            raise DataError(f"{path}: holds no array {name} (it holds {', '.join(heads) or 'nothing'})")
    shape, kind = heads["X"]
    images = shape[-1] if len(shape) == 4 else 0
    if shape != (32, 32, 3, images) or kind != "uint8" or not 0 < images <= _MAX_IMAGES:
        raise DataError(f"{path}: X is {kind} of shape {shape}, expected uint8 of 32x32x3xN")
    shape, kind = heads["y"]
    if sorted(shape) != sorted((1, images)) or kind not in ("uint8", "double", "single", "int32", "uint16"):
        raise DataError(f"{path}: y is {kind} of shape {shape}, expected {images} labels")
