"""Data sets that are a folder of files: images by class, and the Free Spoken Digit Dataset."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.pictures import (
    Files,
    expect_packages,
    few,
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
_RECORDING: Final = re.compile(r"([0-9])_[\w .-]+_([0-9]{1,6})\.wav", re.IGNORECASE)
_NEARLY: Final = re.compile(r"[0-9].*\.wav", re.IGNORECASE | re.DOTALL)
_TESTED: Final = 5  # of a speaker's recordings of a digit: numbers 0 to 4


def missing_images(folder: Path) -> list[str]:
    """A line for each part that is no folder in `folder` or cannot be read."""
    return [line for part in _PARTS for line in _unreadable(folder / part)]


def _unreadable(folder: Path) -> Iterator[str]:
    try:
        os.scandir(folder).close()
    except (FileNotFoundError, NotADirectoryError):
        yield f"{folder}: not there, expected a folder with a folder of images for each class"
    except OSError as error:
        yield f"{folder}: cannot be read ({error.strerror})"


def load_images(folder: Path | None) -> Dataset:
    """The images of FOLDER/train/CLASS and FOLDER/test/CLASS and folders below, in the order of their names;
    classes are numbered in the order of theirs.

    Pictures are those of `pictures_of_images`. ConfigError lists what is missing, classes without an image or
    in one part alone, and files that are no images by their names; DataError names folders and files that
    cannot be read.
    """
    folder = default_folder("imagefolder") if folder is None else folder
    expect_packages("imagefolder", PIL="pillow>=12,<14")
    if problems := missing_images(folder):
        raise ConfigError(problems)
    unreadable = list[str]()
    found = {part: _by_class(folder / part, unreadable) for part in _PARTS}
    if unreadable:
        raise DataError("\n".join(few(unreadable)))
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
        if path.suffix.lower() in _IMAGES and not path.name.startswith(".") and not path.is_dir()
    ]
    if not 1 < len(classes) <= _MOST_CLASSES:
        problems.append(f"{folder}: expected 2 to {_MOST_CLASSES:,} classes, found {len(classes):,}")
    if len(classes) == 1 and _has_folders(folder / "train" / classes[0]):
        deep = folder / "train" / classes[0]
        problems.append(f"{deep}: holds folders, expected the images of a class; too deep by one?")
    if problems:
        raise ConfigError(few(problems))
    train, test = ([path for name in classes for path in found[part][name]] for part in _PARTS)
    train_labels, test_labels = (
        np.repeat(np.arange(len(classes)), [len(found[part][name]) for name in classes]) for part in _PARTS
    )
    pictures = pictures_of_images(_contents(train), _contents(test))
    return Dataset(pictures[0], train_labels, pictures[1], test_labels, len(classes))


def _by_class(part: Path, unreadable: list[str]) -> dict[str, list[Path]]:
    """Files by the folder of their class, links among them; what a name with a dot in front hides is left
    out. A line for each folder that cannot be read, and each link without an end, comes to `unreadable`."""
    found = dict[str, list[Path]]()
    for each in sorted(part.iterdir()):
        if each.name.startswith("."):
            continue
        try:
            if stat.S_ISDIR(each.stat().st_mode):
                found[each.name] = sorted(_files(each, unreadable))
        except OSError as error:
            what = "a link that leads nowhere" if each.is_symlink() else "cannot be read"
            unreadable.append(f"{each}: {what} ({error.strerror})")
    return found


def _files(folder: Path, unreadable: list[str]) -> Iterator[Path]:
    try:
        with os.scandir(folder) as listed:
            entries = [entry for entry in listed if not entry.name.startswith(".")]
    except OSError as error:
        unreadable.append(f"{folder}: cannot be read ({error.strerror})")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry), unreadable)
        elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
            yield Path(entry)


def _has_folders(folder: Path) -> bool:
    return folder.is_dir() and any(path.is_dir() for path in folder.iterdir())


def missing_digits(folder: Path) -> list[str]:
    """A line where `folder` has no recordings or cannot be read, and for those with other names."""
    try:
        named = _recordings(folder)
    except OSError as error:
        return [f"{error.filename}: cannot be read ({error.strerror})"]
    if not named:
        return [f"{folder / 'recordings'}: no recordings, expected files such as 7_jackson_32.wav"]
    return few([f"{path}: expected DIGIT_SPEAKER_N.wav" for found, path in named if not found])


def load_digits(folder: Path | None) -> Dataset:
    """The Free Spoken Digit Dataset: recordings 0 to 4 of each speaker and digit test, as its authors say.

    Recordings (8 kHz; the first second of the few that are longer) come in the order of their names as
    pictures (`log_mel`) with mean 0 and deviation 1 over the training part. ConfigError for missing files and
    names that are nearly a recording's, DataError names those that are damaged.
    """
    folder = default_folder("spokendigits") if folder is None else folder
    if problems := missing_digits(folder):
        raise ConfigError(problems)
    found = [(int(name[1]), int(name[2]), path) for name, path in _recordings(folder) if name]
    digits = np.array([digit for digit, *_ in found], np.int64)
    tested = np.array([number < _TESTED for _, number, _ in found])
    if tested.all() or not tested.any():
        raise ConfigError([f"{folder}: expected recordings 0 to {_TESTED - 1}, which test, and others"])
    sounds = pictures_of_sounds(_contents(path for *_, path in found), _DIGITS_RATE_HZ, cut=True)
    train, test = standardised(sounds[~tested], sounds[tested])
    return Dataset(train, digits[~tested], test, digits[tested], classes=10)


def _recordings(folder: Path) -> list[tuple[re.Match[str] | None, Path]]:
    """(digit and number, or None, file) of every wav file in `folder`, or in its folder `recordings`, whose
    name begins with a digit, by name. OSError where the folder is there and cannot be read."""
    place = folder / "recordings"
    try:
        paths = sorted((place if place.is_dir() else folder).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [(_RECORDING.fullmatch(path.name), path) for path in paths if _NEARLY.fullmatch(path.name)]


def _contents(paths: Iterable[Path]) -> Files:
    for path in paths:
        try:
            content: bytes | DataError = read_file(path, _MOST_BYTES)
        except DataError as error:
            content = error
        yield str(path), content
