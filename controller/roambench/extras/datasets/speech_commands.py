"""Speech Commands 0.02, the ten words zero to nine (Warden, 2018), as 1x32x32 log-mel pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.pictures import pictures_of_sounds, standardised
from roambench.learning.datasets.archives import Limits, read_members
from roambench.learning.datasets.data_files import default_folder, read_file
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.datasets.downloads import Download, fetch
from roambench.learning.shards import Images, Labels

WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ARCHIVE: Final = Download(
    "speech_commands_v0.02.tar.gz",
    "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
    "sha256",
    "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
    max_bytes=2_428_923_189,
)
_VALIDATION: Final = "validation_list.txt"
_TESTING: Final = "testing_list.txt"
#: A recording is 32 kB; the lists are 400 kB. All of the archive unpacks to about 3.8 GB.
_LIMITS: Final = Limits(member_bytes=16 << 20, total_bytes=8 << 30)


def missing(folder: Path | None = None) -> list[str]:
    """One line for every list and word folder that is not there, unless the archive is."""
    place = default_folder("speechcommands") if folder is None else folder
    if (place / ARCHIVE.name).is_file():
        return []
    absent = [place / name for name in (_VALIDATION, _TESTING) if not (place / name).is_file()]
    absent += [place / word for word in WORDS if not (place / word).is_dir()]
    return [f"{path}: missing Speech Commands file (nor is {ARCHIVE.name} there)" for path in absent]


def load_speech_commands(folder: Path | None = None, *, download: bool = False) -> Dataset:
    """The recordings of the ten digits' words; the test part is the official testing list.

    The training part is what is in neither list; the validation list's recordings are left out. Recordings
    come in the order of their names. Pictures (see `log_mel`) have mean 0 and deviation 1 over the training
    part. ConfigError lists missing files; DataError names a recording, or a list and its line.
    """
    place = default_folder("speechcommands") if folder is None else folder
    problems = missing(place)
    if problems and not download:
        raise ConfigError(problems)
    if problems:
        fetch(ARCHIVE, place)
    # Unpacked files go before the archive: reading 2.4 GB of it takes a minute every time.
    loose = all((place / name).exists() for name in (_VALIDATION, _TESTING, *WORDS))
    files = _loose(place) if loose else _packed(place / ARCHIVE.name)
    where = f"{place}/" if loose else f"{place / ARCHIVE.name}: "
    lists: dict[str, list[str]] = {}
    names = list[str]()

    def sounds() -> Iterator[tuple[str, bytes]]:
        for name, content in files:
            if name in (_VALIDATION, _TESTING):
                lists[name] = content.decode("utf-8", "replace").splitlines()
            else:
                names.append(name)
                yield f"{where}{name}", content

    pictures = pictures_of_sounds(sounds())
    return _split(dict(zip(names, pictures, strict=True)), lists, where)


def _split(pictures: dict[str, Images], lists: dict[str, list[str]], where: str) -> Dataset:
    for name in (_VALIDATION, _TESTING):
        if name not in lists:
            raise DataError(f"{where}{name}: missing")
        for line, path in enumerate(lists[name], start=1):
            if path.split("/")[0] in WORDS and path not in pictures:
                raise DataError(f"{where}{name}, line {line}: {path[:80]!r} is not there")
    tested, held_back = set(lists[_TESTING]), set(lists[_VALIDATION])
    test = sorted(tested & pictures.keys())
    train = sorted(pictures.keys() - tested - held_back)
    for part, names in (("training", train), ("test", test)):
        if not names:
            raise DataError(f"{where}{_TESTING}: leaves no recording for the {part} part")
    train_images, test_images = (np.stack([pictures[name] for name in names]) for names in (train, test))
    images = standardised(train_images, test_images)
    return Dataset(images[0], _labels(train), images[1], _labels(test), classes=len(WORDS))


def _labels(names: list[str]) -> Labels:
    return np.array([WORDS.index(name.split("/")[0]) for name in names], dtype=np.int64)


def _loose(place: Path) -> Iterator[tuple[str, bytes]]:
    for name in (_VALIDATION, _TESTING):
        yield name, read_file(place / name, _LIMITS.member_bytes)
    for word in WORDS:
        for path in sorted((place / word).glob("*.wav")):
            yield f"{word}/{path.name}", read_file(path, _LIMITS.member_bytes)


def _packed(archive: Path) -> Iterator[tuple[str, bytes]]:
    def wanted(name: str) -> bool:
        folder, _, file = name.partition("/")
        return name in (_VALIDATION, _TESTING) or (folder in WORDS and file.endswith(".wav"))

    return read_members(archive, str(archive), wanted, _LIMITS)
