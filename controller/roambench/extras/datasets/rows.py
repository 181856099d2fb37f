"""The rows of these data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from roambench.extras.datasets import folders, har, huggingface, speech_commands, svhn
from roambench.learning.datasets.dataset import Dataset, FileLoader


def _svhn(folder: Path | None, download: bool) -> Dataset:
    return svhn.load_svhn(folder, download=download)


def _har(folder: Path | None, download: bool) -> Dataset:
    return har.load_har(folder, download=download)


def _speech_commands(folder: Path | None, download: bool) -> Dataset:
    return speech_commands.load_speech_commands(folder, download=download)


def _huggingface(folder: Path | None, download: bool) -> Dataset:
    del download  # `datasets` does that before it saves
    return huggingface.load_huggingface(folder)


def _imagefolder(folder: Path | None, download: bool) -> Dataset:
    del download  # your own files
    return folders.load_images(folder)


def _spokendigits(folder: Path | None, download: bool) -> Dataset:
    del download  # a checkout of its repository
    return folders.load_digits(folder)


SVHN: Final = FileLoader(
    "SVHN's 99,289 cropped house numbers of 32x32 in colour, 10 classes", "svhn", _svhn, svhn.missing
)
HAR: Final = FileLoader(
    "UCI HAR: 10,299 windows of a phone's nine inertial signals as 9x32x32, 6 activities",
    "har",
    _har,
    har.missing,
)
SPEECH_COMMANDS: Final = FileLoader(
    "Speech Commands 0.02: the words zero to nine as 32x32 log-mel pictures",
    "speechcommands",
    _speech_commands,
    speech_commands.missing,
)
HUGGINGFACE: Final = FileLoader(
    "Images, sounds or texts in a folder that Hugging Face's `datasets` wrote with save_to_disk",
    "huggingface",
    _huggingface,
    huggingface.missing,
    fetches=False,
)
IMAGEFOLDER: Final = FileLoader(
    "Images of your own by class: train/CLASS/FILE and test/CLASS/FILE, reduced to 32x32",
    "imagefolder",
    _imagefolder,
    folders.missing_images,
    fetches=False,
)
SPOKENDIGITS: Final = FileLoader(
    "Free Spoken Digit Dataset: 3,000 recordings of zero to nine as 32x32 log-mel pictures",
    "spokendigits",
    _spokendigits,
    folders.missing_digits,
    fetches=False,
)
