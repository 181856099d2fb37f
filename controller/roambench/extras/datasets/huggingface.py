"""A data set that Hugging Face's `datasets` wrote with `save_to_disk`: its Arrow files are read by pyarrow.

FOLDER/dataset_dict.json             {"splits": ["train", "test"]}
FOLDER/SPLIT/dataset_info.json       its columns ("features")
FOLDER/SPLIT/state.json              its Arrow files, each a stream
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.pictures import (
    expect_packages,
    pictures_of_images,
    pictures_of_sounds,
    standardised,
)
from roambench.learning.datasets.data_files import default_folder
from roambench.learning.datasets.dataset import IMAGE_SIDE, Dataset
from roambench.learning.shards import Images, Labels

_SPLITS: Final = "dataset_dict.json"
#: The kind of feature in dataset_info.json -> what we call such a column.
_INPUTS: Final = {"Image": "image", "Audio": "audio", "Value": "text"}
_LETTERS: Final = IMAGE_SIDE * IMAGE_SIDE


@dataclass(frozen=True, slots=True)
class _Columns:
    """The input column, what it is ("image", "audio", "text"), the label column and its classes' names."""

    given: str
    kind: str
    label: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Split:
    given: list[Any]
    labels: Labels


def missing(folder: Path) -> list[str]:
    """A line where `folder` is none that save_to_disk wrote."""
    path = folder / _SPLITS
    return [] if path.is_file() else [f"{path}: not there, expected a folder that save_to_disk wrote"]


def load_huggingface(folder: Path | None) -> Dataset:
    """The splits `train` and `test` of `folder`: one column of images, sounds or texts, and one ClassLabel.

    Images become 32x32 pixels, grey where all of them are and else in colours, normalised by the training
    part; sounds (WAV, 16 kHz, 16 bits, one channel, a second) log-mel pictures with mean 0 and deviation 1;
    texts the numbers of their first 1,024 bytes (UTF-8) row by row, 0 behind them. ConfigError for a folder
    or columns that are none of these, DataError naming the split and row of what cannot be read.
    """
    folder = default_folder("huggingface") if folder is None else folder
    expect_packages("huggingface", pyarrow="pyarrow>=18", PIL="pillow>=12,<14")
    _expect_splits(folder)
    columns = {name: _columns(folder / name) for name in ("train", "test")}
    if columns["train"] != columns["test"]:
        raise ConfigError([f"{folder}: train and test have other columns or classes, expected the same"])
    train, test = (_read(folder / name, columns[name]) for name in ("train", "test"))
    images = _DRAWN[columns["train"].kind](train.given, test.given, folder)
    return Dataset(images[0], train.labels, images[1], test.labels, len(columns["train"].classes))


def _expect_splits(folder: Path) -> None:
    if (folder / "state.json").is_file():
        raise ConfigError([f"{folder}: is one split, expected train and test (Dataset.train_test_split)"])
    if problems := missing(folder):
        raise ConfigError(problems)
    splits = _json(folder / _SPLITS).get("splits")
    if not isinstance(splits, list) or not {"train", "test"} <= set(map(str, splits)):
        raise ConfigError([f"{folder}: has the splits {splits}, expected train and test among them"])


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: expected a JSON object")
    return found


def _columns(split: Path) -> _Columns:
    features = _json(split / "dataset_info.json").get("features")
    if not isinstance(features, dict):
        raise DataError(f"{split / 'dataset_info.json'}: names no features")
    typed = {name: one.get("_type") for name, one in features.items() if isinstance(one, dict)}
    inputs = [
        name
        for name, kind in typed.items()
        if kind in ("Image", "Audio") or (kind == "Value" and features[name].get("dtype") == "string")
    ]
    labels = [name for name, kind in typed.items() if kind == "ClassLabel"]
    there = ", ".join(f"{name} ({kind})" for name, kind in typed.items())
    problems = []
    if len(inputs) != 1:
        problems.append(
            f"{split}: {len(inputs)} columns of images, sounds or texts among {there}; expected one: "
            "select_columns leaves others out, cast_column says what one is"
        )
    if len(labels) != 1:
        problems.append(
            f"{split}: {len(labels)} columns of classes among {there}; expected one ClassLabel: "
            "class_encode_column makes one, select_columns leaves others out"
        )
    if problems:
        raise ConfigError(problems)
    names = features[labels[0]].get("names")
    if not isinstance(names, list) or not names:
        raise DataError(f"{split / 'dataset_info.json'}: {labels[0]} names no classes")
    return _Columns(inputs[0], _INPUTS[str(typed[inputs[0]])], labels[0], tuple(map(str, names)))


def _read(split: Path, columns: _Columns) -> _Split:
    import pyarrow as pa

    given, labels = list[Any](), list[Any]()
    for path in _files(split):
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
                table = stream.read_all().select([columns.given, columns.label])
                labels += table[columns.label].to_pylist()
                given += table[columns.given].to_pylist()
        except (OSError, KeyError, pa.ArrowException) as error:
            raise DataError(f"{path}: not an Arrow file of {split.name} ({error})") from None
    if not labels:
        raise DataError(f"{split}: has no rows")
    for row, label in enumerate(labels):
        if not isinstance(label, int) or not 0 <= label < len(columns.classes):
            raise DataError(f"{split}, row {row}: class {label}, expected 0 to {len(columns.classes) - 1}")
    return _Split(given, np.array(labels, np.int64))


def _files(split: Path) -> Iterator[Path]:
    files = _json(split / "state.json").get("_data_files")
    for entry in files if isinstance(files, list) else []:
        name = entry.get("filename") if isinstance(entry, dict) else None
        if not isinstance(name, str) or Path(name).name != name:
            raise DataError(f"{split / 'state.json'}: names the file {name!r}, expected one beside it")
        yield split / name


def _content(value: Any, where: str, folder: Path) -> bytes:
    """The bytes of an image or a sound: save_to_disk puts them into the table."""
    content = value.get("bytes") if isinstance(value, dict) else None
    if isinstance(content, bytes):
        return content
    raise DataError(
        f"{where}: names a file ({_named(value)}), expected content, as save_to_disk leaves it in {folder}"
    )


def _named(value: Any) -> str:
    return str(value.get("path"))[:80] if isinstance(value, dict) else "none"


def _images(train: list[Any], test: list[Any], folder: Path) -> tuple[Images, Images]:
    parts = _contents(train, "train", folder), _contents(test, "test", folder)
    return pictures_of_images(*parts, others=["JPEG2000", "PPM", "TIFF"])


def _sounds(train: list[Any], test: list[Any], folder: Path) -> tuple[Images, Images]:
    train_files, test_files = _contents(train, "train", folder), _contents(test, "test", folder)
    return standardised(pictures_of_sounds(train_files), pictures_of_sounds(test_files))


def _contents(part: list[Any], name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    for row, value in enumerate(part):
        where = f"{folder / name}, row {row}"
        yield where, _content(value, where, folder)


def _texts(train: list[Any], test: list[Any], folder: Path) -> tuple[Images, Images]:
    def numbers(part: list[Any], name: str) -> Images:
        found = np.zeros((len(part), _LETTERS), np.float32)
        for row, text in enumerate(part):
            if not isinstance(text, str):
                raise DataError(f"{folder / name}, row {row}: has no text")
            content = np.frombuffer(text.encode(errors="replace")[:_LETTERS], np.uint8)
            found[row, : len(content)] = content
        return found.reshape(len(part), 1, IMAGE_SIDE, IMAGE_SIDE)

    return numbers(train, "train"), numbers(test, "test")


_DRAWN: Final[dict[str, Callable[[list[Any], list[Any], Path], tuple[Images, Images]]]] = {
    "image": _images,
    "audio": _sounds,
    "text": _texts,
}
