from __future__ import annotations

import gzip
import hashlib
import http.server
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets.catalogue import DATASETS, load_dataset
from roambench.learning.datasets.digits import enlarge
from roambench.learning.datasets.downloads import Download
from roambench.learning.datasets.mnist import FILES, default_folder, load_mnist, normalise


def test_digits_are_1437_and_360_real_digits_of_32x32_pixels():
    digits = load_dataset("digits")
    assert digits.train_images.shape == (1437, 1, 32, 32)
    assert digits.test_images.shape == (360, 1, 32, 32)
    assert digits.train_images.dtype == digits.test_images.dtype == np.float32
    assert digits.train_labels.dtype == digits.test_labels.dtype == np.int64
    assert (digits.classes, digits.in_channels) == (10, 1)
    assert float(digits.train_images.mean()) == pytest.approx(0, abs=1e-4)
    assert float(digits.train_images.std()) == pytest.approx(1, abs=1e-4)
    # UCI's test half has 178, 182, 177, 183, 181, 182, 181, 179, 174, 180 of the ten digits.
    counts = np.bincount(np.concatenate([digits.train_labels, digits.test_labels]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_are_split_the_same_way_every_time_and_no_image_is_on_both_sides():
    first, again = load_dataset("digits"), load_dataset("digits")
    assert first.test_images.tobytes() == again.test_images.tobytes()
    train = {bytes(image) for image in first.train_images}
    assert not train & {bytes(image) for image in first.test_images}
    assert min(np.bincount(first.test_labels, minlength=10)) >= 20


def test_digits_keep_their_pictures_when_they_are_enlarged():
    from sklearn.datasets import load_digits

    digits = load_dataset("digits")
    # Bilinear by 4 between pixel centres: the mean over a 4x4 cell is a fixed average of the 8x8 neighbours.
    small = load_digits().images.reshape(1797, -1)
    large = np.concatenate([digits.test_images, digits.train_images])[:, 0]
    cells = large.reshape(1797, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(1797, -1)
    # Every enlarged image resembles exactly one original most, and all originals are hit.
    unit = [rows - rows.mean(axis=1, keepdims=True) for rows in (cells, small)]
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in unit]
    nearest = (unit[0] @ unit[1].T).argmax(axis=1)
    assert len(set(nearest.tolist())) > 1780
    labels = np.concatenate([digits.test_labels, digits.train_labels])
    assert (load_digits().target[nearest] == labels).mean() > 0.99


def test_enlarging_is_bilinear_between_pixel_centres():
    image = np.zeros((1, 8, 8), dtype=np.float32)
    image[0, :, 1:] = 8.0
    row = enlarge(image)[0, 0, 16]
    # Output pixel i lies at (i + 0.5) / 4 - 0.5 of the input: the step from 0 to 8 is 1, 3, 5, 7.
    assert row[:8].tolist() == [0, 0, 1, 3, 5, 7, 8, 8]


def test_an_unknown_data_set_is_answered_with_the_names_there_are():
    with pytest.raises(ConfigError, match=r"unknown data set 'imagenet': expected one of .*digits.*mnist"):
        load_dataset("imagenet")
    assert {"digits", "mnist"} <= set(DATASETS.names())


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


IMAGES = np.arange(3 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28)
LABELS = np.array([9, 0, 4], dtype=np.uint8)
NAMES = [file.name.removesuffix(".gz") for file in FILES]
CONTENTS = {name: idx(IMAGES if "images" in name else LABELS) for name in NAMES}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in CONTENTS.items():
        packed = "labels" in name
        path = tmp_path / f"{name}.gz" if packed else tmp_path / name
        path.write_bytes(gzip.compress(content) if packed else content)
    return tmp_path


def test_mnist_files_are_read_gzipped_or_not_and_padded_to_32_pixels(folder: Path):
    data = load_mnist(folder)
    assert data.train_images.shape == (3, 1, 32, 32)
    assert data.train_labels.tolist() == data.test_labels.tolist() == [9, 0, 4]
    assert data.train_labels.dtype == np.int64


def test_mnist_pixels_are_normalised_by_the_published_mean_and_deviation():
    images = normalise(np.full((1, 28, 28), 255, dtype=np.uint8))
    black, white = -0.1307 / 0.3081, (1 - 0.1307) / 0.3081
    assert images[0, 0, 0, 0] == images[0, 0, 1, 31] == images[0, 0, 30, 5] == np.float32(black)
    assert images[0, 0, 2, 2] == images[0, 0, 29, 29] == np.float32(white)


def test_missing_mnist_files_are_listed_with_their_place(folder: Path):
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    (folder / "train-images-idx3-ubyte").unlink()
    with pytest.raises(ConfigError) as raised:
        load_mnist(folder)
    assert raised.value.problems == (
        f"{folder}/train-images-idx3-ubyte[.gz]: missing MNIST file",
        f"{folder}/t10k-labels-idx1-ubyte[.gz]: missing MNIST file",
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t10k-images-idx3-ubyte", CONTENTS["t10k-images-idx3-ubyte"][:-1], "truncated"),
        ("t10k-images-idx3-ubyte", idx(IMAGES[:, :27]), "images of 27x28, expected 28x28"),
        ("t10k-images-idx3-ubyte", idx(IMAGES[:2]), "3 labels for 2 images"),
        ("t10k-labels-idx1-ubyte", idx(np.array([1, 2, 10], dtype=np.uint8)), "label 10, expected 0 to 9"),
        ("train-labels-idx1-ubyte", b"<!DOCTYPE html>", "not an idx file"),
    ],
)
def test_a_broken_mnist_file_is_named(folder: Path, name: str, content: bytes, message: str):
    (folder / f"{name}.gz").unlink(missing_ok=True)
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_mnist(folder)


@dataclass(frozen=True)
class Mirror:
    folder: Path
    files: list[Download]


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    """A real web server on loopback with the four files; their digests stand in for the published ones."""
    served = tmp_path / "served"
    served.mkdir()
    for name, content in CONTENTS.items():
        (served / f"{name}.gz").write_bytes(gzip.compress(content))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(served))

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Mirror(
            served,
            [
                replace(
                    file,
                    url=f"http://127.0.0.1:{server.server_port}/{file.name}",
                    digest=hashlib.sha256(CONTENTS[name]).hexdigest(),
                )
                for name, file in zip(NAMES, FILES, strict=True)
            ],
        )
        server.shutdown()
        thread.join()


def test_what_is_missing_is_downloaded_once_and_then_found(mirror: Mirror, tmp_path: Path):
    cache = tmp_path / "cache"
    assert load_mnist(cache, download=True, files=mirror.files).test_labels.tolist() == [9, 0, 4]
    assert sorted(path.name for path in cache.iterdir()) == sorted(file.name for file in FILES)
    for path in mirror.folder.iterdir():
        path.unlink()
    assert load_mnist(cache, download=True, files=mirror.files).train_labels.tolist() == [9, 0, 4]


def test_a_file_that_is_there_is_not_downloaded_again(mirror: Mirror, tmp_path: Path):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "train-labels-idx1-ubyte").write_bytes(CONTENTS["train-labels-idx1-ubyte"])
    (mirror.folder / "train-labels-idx1-ubyte.gz").unlink()
    assert load_mnist(cache, download=True, files=mirror.files).train_labels.tolist() == [9, 0, 4]


def test_a_download_with_another_digest_is_not_kept(mirror: Mirror, tmp_path: Path):
    (mirror.folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES[::-1])))
    cache = tmp_path / "cache"
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: SHA-256 .* not kept"):
        load_mnist(cache, download=True, files=mirror.files)
    assert not list(cache.iterdir())


def test_a_download_that_fails_says_what_and_why(mirror: Mirror, tmp_path: Path):
    (mirror.folder / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: cannot be downloaded .*404"):
        load_mnist(tmp_path / "cache", download=True, files=mirror.files)


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROAMBENCH_DATA", "/data")
    assert default_folder() == Path("/data/mnist")
    monkeypatch.delenv("ROAMBENCH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_folder() == Path("/cache/roambench/mnist")


def test_the_real_mnist_has_its_published_statistics(data_folder: Path):
    data = load_dataset("mnist", data_folder / "mnist")
    assert data.train_images.shape == (60_000, 1, 32, 32)
    assert data.test_images.shape == (10_000, 1, 32, 32)
    inside = data.train_images[:, :, 2:30, 2:30]
    assert float(inside.mean(dtype=np.float64)) == pytest.approx(0, abs=1e-3)
    assert float(inside.std(dtype=np.float64)) == pytest.approx(1, abs=1e-3)
    assert np.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
