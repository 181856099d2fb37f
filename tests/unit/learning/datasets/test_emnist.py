from __future__ import annotations

import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.datasets.emnist import BYCLASS, LETTERS
from roambench.learning.datasets.idx import read_idx, unpacked


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def image(row: int, column: int, value: int) -> np.ndarray:
    """As NIST stores it: transposed. The written letter has its pixel at (row, column)."""
    stored = np.zeros((28, 28), dtype=np.uint8)
    stored[column, row] = value
    return stored


IMAGES = np.stack([image(3, 20, 255), image(0, 27, 51)])


def files(split: str, labels: list[int]) -> dict[str, bytes]:
    name = f"emnist-{split}"
    return {
        f"{name}-train-images-idx3-ubyte": idx(IMAGES),
        f"{name}-train-labels-idx1-ubyte": idx(np.array(labels, dtype=np.uint8)),
        f"{name}-test-images-idx3-ubyte": idx(IMAGES[1:]),
        f"{name}-test-labels-idx1-ubyte": idx(np.array(labels[1:], dtype=np.uint8)),
    }


def write(folder: Path, contents: dict[str, bytes], suffix: str = ".gz") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)


def archive(path: Path, contents: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in contents.items():
            packed.writestr(f"gzip/{name}.gz", gzip.compress(content))


@pytest.fixture(params=["here", "here, not gzipped", "in gzip/", "in gzip.zip"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    contents = files("letters", [1, 26])
    if request.param == "in gzip.zip":
        archive(tmp_path / "gzip.zip", contents)
    else:
        place = tmp_path / "gzip" if "gzip/" in request.param else tmp_path
        write(place, contents, "" if "not" in request.param else ".gz")
    return tmp_path


def test_letters_are_upright_padded_normalised_and_counted_from_0(folder: Path):
    data = load_dataset("emnist_letters", folder)
    assert data.train_images.shape == (2, 1, 32, 32)
    assert data.train_images.dtype == np.float32
    assert (data.train_labels.tolist(), data.test_labels.tolist(), data.classes) == ([0, 25], [25], 26)
    # Two of 1,568 pixels are lit, 1.0 and 0.2: mean 1.2/1568, mean square 1.04/1568.
    mean = 1.2 / 1568
    deviation = (1.04 / 1568 - mean**2) ** 0.5
    bright, dim, black = ((value - mean) / deviation for value in (1.0, 0.2, 0.0))
    first, second = data.train_images[:, 0]
    assert first[3 + 2, 20 + 2] == pytest.approx(bright, rel=1e-6)
    assert second[0 + 2, 27 + 2] == pytest.approx(dim, rel=1e-6)
    assert first[20 + 2, 3 + 2] == first[0, 0] == pytest.approx(black, rel=1e-6)
    # The test part is scaled by the training part's figures.
    assert data.test_images[0].tolist() == data.train_images[1].tolist()


def test_by_class_has_62_classes_counted_from_0(tmp_path: Path):
    write(tmp_path, files("byclass", [0, 61]))
    data = load_dataset("emnist_byclass", tmp_path)
    assert (data.train_labels.tolist(), data.classes) == ([0, 61], 62)


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("byclass", [0, 62], "train-labels-idx1-ubyte.gz: record 1 has label 62, expected 0 to 61"),
        ("letters", [0, 26], "train-labels-idx1-ubyte.gz: record 0 has label 0, expected 1 to 26"),
        ("letters", [3, 27], "train-labels-idx1-ubyte.gz: record 1 has label 27, expected 1 to 26"),
        ("letters", [3, 4, 5], "train-labels-idx1-ubyte.gz: 3 labels for 2 images"),
    ],
)
def test_wrong_labels_are_named_with_their_record(tmp_path: Path, name: str, labels: list[int], message: str):
    write(tmp_path, files(name, labels))
    with pytest.raises(DataError, match=message):
        load_dataset(f"emnist_{name}", tmp_path)


def test_truncated_wrong_sized_and_foreign_files_are_named(tmp_path: Path):
    write(tmp_path, files("letters", [1, 2]))
    path = tmp_path / "emnist-letters-test-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    for content, message in (
        (whole[:-9], "cannot be read"),
        (gzip.compress(idx(IMAGES)[:-1]), "truncated"),
        (gzip.compress(idx(IMAGES[:1, :27])), "images of 27x28, expected 28x28"),
        (b"<html>", "not an idx file"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{path}: .*{message}"):
            load_dataset("emnist_letters", tmp_path)


def test_every_missing_file_is_listed_with_where_it_was_looked_for(tmp_path: Path):
    write(tmp_path, files("byclass", [0, 1]))
    (tmp_path / "emnist-byclass-test-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ConfigError) as raised:
        load_dataset("emnist_byclass", tmp_path)
    assert raised.value.problems == (
        f"{tmp_path}/emnist-byclass-test-labels-idx1-ubyte.gz: missing EMNIST byclass file "
        "(also looked for in gzip/ and in gzip.zip there)",
    )
    with pytest.raises(ConfigError) as raised:
        load_dataset("emnist_letters", tmp_path)
    assert len(raised.value.problems) == 4


def test_an_archive_without_the_files_is_named(tmp_path: Path):
    archive(tmp_path / "gzip.zip", files("byclass", [0, 1]))
    with pytest.raises(DataError, match=r"gzip\.zip: lacks gzip/emnist-letters-test-images-idx3-ubyte\.gz, "):
        load_dataset("emnist_letters", tmp_path)


def test_a_gzip_bomb_stops_at_the_limit(tmp_path: Path):
    path, bomb = tmp_path / "images.gz", gzip.compress(bytes((1 << 20) + 1))
    path.write_bytes(bomb)
    with pytest.raises(DataError, match=rf"{path}: holds more than 1 MiB"):
        read_idx(path, 3, max_bytes=1 << 20)
    with pytest.raises(DataError, match=r"images: holds more than 1 MiB"):
        unpacked(bomb, "images", max_bytes=1 << 20)
    assert len(unpacked(bomb, "images", max_bytes=(1 << 20) + 1)) == (1 << 20) + 1


def test_both_splits_lie_in_one_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROAMBENCH_DATA", "/data")
    assert BYCLASS.files.place(None) == LETTERS.files.place(None) == Path("/data/emnist")
