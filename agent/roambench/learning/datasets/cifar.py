"""CIFAR-10 and CIFAR-100 from their binary versions (Krizhevsky, 2009). The pickled version is never read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import DataError
from roambench.learning.datasets.archives import Limits
from roambench.learning.datasets.data_files import DataFiles, Found
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.datasets.downloads import Download
from roambench.learning.datasets.pixels import Pixels, normalised
from roambench.learning.shards import Labels

_SHAPE: Final = (3, 32, 32)
_PIXEL_BYTES: Final = 3 * 32 * 32
#: The papers' constants; they use CIFAR-10's for both sets.
MEANS: Final = (0.4914, 0.4822, 0.4465)
DEVIATIONS: Final = (0.2023, 0.1994, 0.2010)
_LIMITS: Final = Limits(member_bytes=256 << 20, total_bytes=512 << 20)


@dataclass(frozen=True, slots=True)
class Version:
    """One of the two. A record is `label_bytes` bytes, the last of them the label, then the pixels."""

    files: DataFiles
    train: tuple[str, ...]
    test: str
    label_bytes: int
    classes: int


def _version(
    classes: int, folder: str, train: tuple[str, ...], test: str, label_bytes: int, md5: str, size: int
) -> Version:
    plain = f"cifar-{classes}"
    binary = f"{plain}-binary.tar.gz"
    pickled = f"holds Python pickles, which are never read: get the binary version, {binary}"
    python_folder = f"{plain}-batches-py" if classes == 10 else f"{plain}-python"
    files = DataFiles(
        title=f"CIFAR-{classes}",
        name=f"cifar{classes}",
        folder=folder,
        members=(*train, test),
        archive=Download(binary, f"https://www.cs.toronto.edu/~kriz/{binary}", "md5", md5, max_bytes=size),
        limits=_LIMITS,
        mistaken=(
            (f"{plain}-python.tar.gz", pickled),
            (python_folder, pickled),
            (train[0].removesuffix(".bin"), pickled),
        ),
    )
    return Version(files, train, test, label_bytes, classes)


CIFAR10: Final = _version(
    10,
    "cifar-10-batches-bin",
    tuple(f"data_batch_{batch}.bin" for batch in range(1, 6)),
    "test_batch.bin",
    label_bytes=1,
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    size=170_052_171,
)
CIFAR100: Final = _version(
    100,
    "cifar-100-binary",
    ("train.bin",),
    "test.bin",
    label_bytes=2,
    md5="03b5dce01913d631647c71ecec9e9cb8",
    size=168_513_733,
)


def load_cifar(version: Version, folder: Path | None = None, *, download: bool = False) -> Dataset:
    """The 50,000 training and 10,000 test images, 3x32x32, with the papers' mean and deviation.

    CIFAR-100's labels are the 100 fine ones. ConfigError lists missing files and tells who has only the
    pickled version; DataError names a file and its record.
    """
    found = version.files.read(folder, download=download)
    parts = [_records(version, found.pop(name)) for name in version.train]
    train = np.concatenate([pixels for pixels, _ in parts])
    train_labels = np.concatenate([labels for _, labels in parts])
    test, test_labels = _records(version, found.pop(version.test))
    return Dataset(
        normalised(train, MEANS, DEVIATIONS),
        train_labels,
        normalised(test, MEANS, DEVIATIONS),
        test_labels,
        classes=version.classes,
    )


def _records(version: Version, file: Found) -> tuple[Pixels, Labels]:
    size = version.label_bytes + _PIXEL_BYTES
    whole, rest = divmod(len(file.content), size)
    if rest or not whole:
        raise DataError(
            f"{file.where}: truncated in record {whole}: {len(file.content)} bytes, "
            f"expected a multiple of {size}"
        )
    records = np.frombuffer(file.content, dtype=np.uint8).reshape(whole, size)
    labels = records[:, version.label_bytes - 1].astype(np.int64)
    wrong = np.flatnonzero(labels >= version.classes)
    if len(wrong):
        raise DataError(
            f"{file.where}: record {wrong[0]} has label {labels[wrong[0]]}, "
            f"expected 0 to {version.classes - 1}"
        )
    return records[:, version.label_bytes :].reshape(whole, *_SHAPE), labels
