"""UCI HAR: six activities from a phone's accelerometer and gyroscope (Anguita et al., 2013).

What is read are the inertial signals, not the 561 features made from them: 9 signals of 128 samples (2.56 s
at 50 Hz) each. A convolutional network takes them as 9 channels of 32x32: row r holds the 32 samples from
sample round(96 r / 31) on, so across a row time runs fast, down the rows slowly. All 128 samples are used
and none is interpolated.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets.archives import Limits, read_members
from roambench.learning.datasets.data_files import DataFiles, Found
from roambench.learning.datasets.dataset import IMAGE_SIDE, Dataset
from roambench.learning.datasets.downloads import Download, fetch
from roambench.learning.shards import Images, Labels

SIGNALS: Final = tuple(
    f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in ("x", "y", "z")
)
SAMPLES: Final = 128
ACTIVITIES: Final = ("walking", "upstairs", "downstairs", "sitting", "standing", "laying")

_LIMITS: Final = Limits(member_bytes=256 << 20, total_bytes=1 << 30)
_FOLDER: Final = "UCI HAR Dataset"
#: What UCI offers today: a zip that holds the data set's own zip.
ARCHIVE: Final = Download(
    "human+activity+recognition+using+smartphones.zip",
    "https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
    "sha256",
    "c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031",
    max_bytes=61_005_872,
)
_INNER: Final = Download(
    "UCI HAR Dataset.zip",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00240/UCI%20HAR%20Dataset.zip",
    "sha256",
    "2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0",
    max_bytes=60_999_314,
)


def _members(part: str) -> tuple[str, ...]:
    signals = (f"{part}/Inertial Signals/{signal}_{part}.txt" for signal in SIGNALS)
    return (*signals, f"{part}/y_{part}.txt")


FILES: Final = DataFiles(
    title="UCI HAR",
    name="har",
    folder=_FOLDER,
    members=(*_members("train"), *_members("test")),
    archive=_INNER,
    limits=_LIMITS,
)


def missing(folder: Path | None = None) -> list[str]:
    """One line for every file that is neither loose nor in one of the two archives."""
    outer = FILES.place(folder) / ARCHIVE.name
    return [] if outer.is_file() else FILES.missing(folder)


def load_har(folder: Path | None = None, *, download: bool = False, archive: Download = ARCHIVE) -> Dataset:
    """7,352 training and 2,947 test windows, float32 (n, 9, 32, 32), as the module's text tells.

    Each signal has mean 0 and deviation 1 over the training part; the split is the official one, by person.
    With `download`, `archive` is fetched where files are missing. ConfigError lists missing files; DataError
    names a file and its line.
    """
    found = _read(folder, download, archive)
    train, train_labels = _half(found, "train")
    test, test_labels = _half(found, "test")
    means = train.mean(axis=(0, 2), keepdims=True)
    deviations = train.std(axis=(0, 2), keepdims=True)
    deviations[deviations < 1e-12] = 1.0
    return Dataset(
        pictures((train - means) / deviations),
        train_labels,
        pictures((test - means) / deviations),
        test_labels,
        classes=len(ACTIVITIES),
    )


def pictures(signals: npt.NDArray[np.float64]) -> Images:
    """(n, channels, 128) to float32 (n, channels, 32, 32): overlapping windows of 32 samples as rows."""
    starts = np.rint(np.arange(IMAGE_SIDE) * (SAMPLES - IMAGE_SIDE) / (IMAGE_SIDE - 1)).astype(np.int64)
    return signals.astype(np.float32)[:, :, starts[:, None] + np.arange(IMAGE_SIDE)]


def _read(folder: Path | None, download: bool, archive: Download) -> dict[str, Found]:
    place = FILES.place(folder)
    outer = place / archive.name
    if problems := FILES.missing(place):
        if not outer.is_file():
            if not download:
                raise ConfigError(problems)
            fetch(archive, place)
        return _nested(outer)
    return FILES.read(place)


def _nested(outer: Path) -> dict[str, Found]:
    """The members out of the zip in the zip."""
    inner = dict(read_members(outer, str(outer), _INNER.name.__eq__, _LIMITS)).get(_INNER.name)
    if inner is None:
        raise DataError(f"{outer}: lacks {_INNER.name}")
    name = f"{outer}: {_INNER.name}"
    wanted = {f"{_FOLDER}/{member}": member for member in FILES.members}
    members = read_members(io.BytesIO(inner), name, wanted.__contains__, _LIMITS)
    found = {wanted[path]: Found(content, f"{name}: {path}") for path, content in members}
    lacking = sorted(set(FILES.members) - set(found))
    if lacking:
        raise DataError(f"{name}: lacks {', '.join(lacking)}")
    return found


def _half(found: dict[str, Found], part: str) -> tuple[npt.NDArray[np.float64], Labels]:
    *signals, labels_name = _members(part)
    labels_file = found.pop(labels_name)
    labels = _rows(labels_file, 1)[:, 0]
    wrong = np.flatnonzero(~np.isin(labels, np.arange(1, len(ACTIVITIES) + 1)))
    if len(wrong):
        raise DataError(
            f"{labels_file.where}, line {wrong[0] + 1}: label {labels[wrong[0]]:g}, "
            f"expected 1 to {len(ACTIVITIES)}"
        )
    windows = np.empty((len(labels), len(SIGNALS), SAMPLES))
    for channel, name in enumerate(signals):
        file = found.pop(name)
        values = _rows(file, SAMPLES)
        if len(values) != len(labels):
            raise DataError(f"{file.where}: {len(values)} lines for {len(labels)} labels")
        windows[:, channel] = values
    return windows, labels.astype(np.int64) - 1


def _rows(file: Found, columns: int) -> npt.NDArray[np.float64]:
    """The numbers of a text file, `columns` on each line."""
    # Bytes that are no ASCII become a character that is no number: the line is named below.
    rows = [line.split() for line in file.content.decode("ascii", "replace").splitlines()]
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise DataError(f"{file.where}: holds no line")
    for number, row in enumerate(rows, start=1):
        if len(row) != columns:
            raise DataError(f"{file.where}, line {number}: {len(row)} numbers, expected {columns}")
    try:
        values = np.array(rows, dtype=np.float64)
    except ValueError:
        values = np.array([[_number(text) for text in row] for row in rows])
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        line, column = wrong[0]
        raise DataError(f"{file.where}, line {line + 1}: {rows[line][column][:20]!r} is not a number")
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
