"""EMNIST by class and letters, from the idx files of NIST's gzip.zip (Cohen et al., 2017)."""

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
from roambench.learning.datasets.idx import parse_idx, unpacked
from roambench.learning.datasets.pixels import Pixels, normalised, statistics
from roambench.learning.shards import Labels

_SIDE: Final = 28
#: About 560 MB; its largest member is 547 MB as an idx file.
_ARCHIVE: Final = Download(
    "gzip.zip",
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
    "sha256",
    "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
    max_bytes=561_753_746,
)


@dataclass(frozen=True, slots=True)
class EmnistSplit:
    """One of EMNIST's splits: `classes` labels, counted from `first_label`."""

    name: str
    classes: int
    first_label: int

    @property
    def files(self) -> DataFiles:
        """The four files of this split and their checksums."""
        return DataFiles(
            title=f"EMNIST {self.name}",
            name="emnist",
            folder="gzip",
            members=tuple(
                self.member(part, what) for part in ("train", "test") for what in ("images", "labels")
            ),
            archive=_ARCHIVE,
            limits=Limits(member_bytes=1 << 30, total_bytes=2 << 30),
        )

    def member(self, part: str, what: str) -> str:
        """The name of one file in EMNIST's archive."""
        return f"emnist-{self.name}-{part}-{what}-idx{3 if what == 'images' else 1}-ubyte.gz"


BYCLASS: Final = EmnistSplit("byclass", classes=62, first_label=0)
LETTERS: Final = EmnistSplit("letters", classes=26, first_label=1)


def load_emnist(split: EmnistSplit, folder: Path | None = None, *, download: bool = False) -> Dataset:
    """A split's training and test part, turned upright, padded to 1x32x32.

    NIST's files hold the images transposed. Mean and deviation are the training part's own (without the
    border); letters' labels 1 to 26 become 0 to 25. ConfigError lists missing files; DataError names one
    that is truncated or not what it should be. By class takes 3.4 GB.
    """
    found = split.files.read(folder, download=download)
    train, train_labels = _half(split, found, "train")
    test, test_labels = _half(split, found, "test")
    means, deviations = statistics(train)
    return Dataset(
        normalised(train, means, deviations),
        train_labels,
        normalised(test, means, deviations),
        test_labels,
        classes=split.classes,
    )


def _half(split: EmnistSplit, found: dict[str, Found], part: str) -> tuple[Pixels, Labels]:
    images, labels = (found.pop(split.member(part, what)) for what in ("images", "labels"))
    pixels = parse_idx(unpacked(images.content, images.where), 3, images.where)
    if pixels.shape[1:] != (_SIDE, _SIDE):
        raise DataError(f"{images.where}: images of {pixels.shape[1]}x{pixels.shape[2]}, expected 28x28")
    values = parse_idx(unpacked(labels.content, labels.where), 1, labels.where)
    if len(values) != len(pixels) or not len(values):
        raise DataError(f"{labels.where}: {len(values)} labels for {len(pixels)} images")
    last = split.first_label + split.classes - 1
    wrong = np.flatnonzero((values < split.first_label) | (values > last))
    if len(wrong):
        raise DataError(
            f"{labels.where}: record {wrong[0]} has label {values[wrong[0]]}, "
            f"expected {split.first_label} to {last}"
        )
    upright = pixels.transpose(0, 2, 1)[:, None]
    return upright, values.astype(np.int64) - split.first_label
