"""Data sets that are a folder of files: images by class, and the Free Spoken Digit Dataset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError
from roambench.extras.datasets.pictures import (
    expect_packages,
    pictures_of_images,
    pictures_of_sounds,
    standardised,
)
from roambench.learning.datasets.data_files import default_folder, read_file
from roambench.learning.datasets.dataset import Dataset

_PARTS: Final = ("train", "test")
_IMAGES: Final = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")
_MOST_BYTES: Final = 16 << 20
_MOST_CLASSES: Final = 100_000
_DIGITS_RATE_HZ: Final = 8_000
_RECORDING: Final = re.compile(r"([0-9])_(\w+)_([0-9]{1,6})\.wav")
_TESTED: Final = 5  # of a speaker's recordings of a digit: numbers 0 to 4


def missing_images(folder: Path) -> list[str]:
    """A line for each part that is no folder in `folder`."""
    absent = [folder / part for part in _PARTS if not (folder / part).is_dir()]
    return [f"{path}: not there, expected a folder with a folder of images for each class" for path in absent]


def load_images(folder: Path | None) -> Dataset:
    """The images of FOLDER/train/CLASS and FOLDER/test/CLASS and folders below, in the order of their names;
    classes are numbered in the order of theirs.

    Pictures are those of `pictures_of_images`. ConfigError lists what is missing, classes without an image or
    in one part alone, and files that are no images by their names; DataError names one that cannot be read.
    """
    folder = default_folder("imagefolder") if folder is None else folder
    expect_packages("imagefolder", PIL="pillow>=12,<14")
    if problems := missing_images(folder):
        raise ConfigError(problems)
    found = {part: _by_class(folder / part) for part in _PARTS}
    classes = sorted(set(found["train"]) | set(found["test"]))
    problems = [
        f"{folder / part / name}: expected images, as in the other part"
        for name in classes
        for part in _PARTS
        if not found[part].get(name)
    ]
    problems += [
        f"{path}: expected an image ({', '.join(_IMAGES)})"
        for part in _PARTS
        for paths in found[part].values()
        for path in paths
        if path.suffix.lower() not in _IMAGES
    ]
    problems += [
        f"{path}: expected images in a folder of their class"
        for part in _PARTS
        for path in sorted((folder / part).iterdir())
        if path.suffix.lower() in _IMAGES and not path.is_dir()
    ]
    if not 0 < len(classes) <= _MOST_CLASSES:
        problems.append(f"{folder}: {len(classes)} classes, expected 1 to {_MOST_CLASSES:,}")
    if problems:
        raise ConfigError(problems)
    train, test = ([path for name in classes for path in found[part][name]] for part in _PARTS)
    train_labels, test_labels = (
        np.repeat(np.arange(len(classes)), [len(found[part][name]) for name in classes]) for part in _PARTS
    )
    pictures = pictures_of_images(_contents(train), _contents(test))
    return Dataset(pictures[0], train_labels, pictures[1], test_labels, len(classes))


def _by_class(part: Path) -> dict[str, list[Path]]:
    """Files by the folder of their class, links among them; what a name with a dot in front hides is left
    out."""
    return {
        each.name: sorted(
            path
            for path in each.rglob("*")
            if (path.is_file() or path.is_symlink())
            and not any(name.startswith(".") for name in path.relative_to(part).parts)
        )
        for each in part.iterdir()
        if each.is_dir() and not each.name.startswith(".")
    }


def missing_digits(folder: Path) -> list[str]:
    """A line where `folder` has no recordings."""
    if _recordings(folder):
        return []
    return [f"{folder / 'recordings'}: no recordings, expected files such as 7_jackson_32.wav"]


def load_digits(folder: Path | None) -> Dataset:
    """The Free Spoken Digit Dataset: recordings 0 to 4 of each speaker and digit test, as its authors say.

    Recordings (8 kHz; the first second of the few that are longer) come in the order of their names as
    pictures (`log_mel`) with mean 0 and deviation 1 over the training part. ConfigError for missing files,
    DataError names one that is damaged.
    """
    folder = default_folder("spokendigits") if folder is None else folder
    if problems := missing_digits(folder):
        raise ConfigError(problems)
    found = _recordings(folder)
    parts = [[one for one in found if (one[1] < _TESTED) is tested] for tested in (False, True)]
    if not all(parts):
        raise ConfigError([f"{folder}: expected recordings 0 to {_TESTED - 1}, which test, and others"])
    train, test = (
        pictures_of_sounds(_contents([path for *_, path in part]), _DIGITS_RATE_HZ, cut=True)
        for part in parts
    )
    pictures = standardised(train, test)
    train_labels, test_labels = (np.array([digit for digit, *_ in part], np.int64) for part in parts)
    return Dataset(pictures[0], train_labels, pictures[1], test_labels, classes=10)


def _recordings(folder: Path) -> list[tuple[int, int, Path]]:
    """(digit, number, file) of every recording in `folder`, or in its folder `recordings`, by name."""
    place = folder / "recordings"
    paths = sorted((place if place.is_dir() else folder).glob("*.wav"))
    named = [(_RECORDING.fullmatch(path.name), path) for path in paths]
    return [(int(found[1]), int(found[3]), path) for found, path in named if found]


def _contents(paths: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        yield str(path), read_file(path, _MOST_BYTES)
