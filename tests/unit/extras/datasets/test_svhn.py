from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.svhn import FILES, load_svhn
from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.datasets.downloads import Download


def pixels(count: int) -> np.ndarray:
    """MATLAB's order: row, column, colour, image. Image i: row 2, column 5 is (51, 102, 255)."""
    array = np.zeros((32, 32, 3, count), dtype=np.uint8)
    array[2, 5] = np.array([51, 102, 255])[:, None]
    return array


def write(folder: Path, part: str, images: np.ndarray, labels: list[int], **options: object) -> None:
    labels_column = np.array(labels, dtype=np.uint8)[:, None]
    savemat(folder / f"{part}_32x32.mat", {"X": images, "y": labels_column}, **options)


@pytest.fixture(params=[True, False], ids=["compressed", "plain"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """With files of a few images."""
    write(tmp_path, "train", pixels(3), [10, 1, 9], do_compression=request.param)
    write(tmp_path, "test", pixels(2)[:, :, ::-1], [2, 10], do_compression=request.param)
    return tmp_path


def of(folder: Path) -> list[Download]:
    """As if the files in `folder` were the published ones."""
    digests = [hashlib.md5((folder / file.name).read_bytes()).hexdigest() for file in FILES]
    return [dataclasses.replace(file, digest=md5) for file, md5 in zip(FILES, digests, strict=True)]


def test_svhn_files_are_read_with_label_10_as_0_and_scaled_by_the_training_part(folder: Path):
    data = load_svhn(folder, files=of(folder))
    assert data.train_images.shape == (3, 3, 32, 32)
    assert data.train_images.dtype == np.float32
    assert (data.train_labels.tolist(), data.test_labels.tolist(), data.classes) == ([0, 1, 9], [2, 0], 10)
    assert data.train_labels.dtype == np.int64
    for channel, value in enumerate((0.2, 0.4, 1.0)):  # one of 1,024 pixels is lit
        mean = value / 1024
        deviation = (value**2 / 1024 - mean**2) ** 0.5
        assert data.train_images[1, channel, 2, 5] == pytest.approx((value - mean) / deviation, rel=1e-6)
        assert data.train_images[1, channel, 5, 2] == pytest.approx(-mean / deviation, rel=1e-6)
        swapped = (1.2 - value) if channel != 1 else 0.4
        assert data.test_images[0, channel, 2, 5] == pytest.approx((swapped - mean) / deviation, rel=1e-6)


def test_missing_files_are_listed(tmp_path: Path):
    write(tmp_path, "test", pixels(1), [1])
    with pytest.raises(ConfigError) as raised:
        load_dataset("svhn", tmp_path)
    assert raised.value.problems == (f"{tmp_path}/train_32x32.mat: missing SVHN file",)


@pytest.mark.parametrize("at", [0, 130, 300])
def test_a_file_that_is_not_the_published_one_is_named_and_never_given_to_scipy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: int
):
    path, published = folder / "train_32x32.mat", of(folder)
    damaged = bytearray(path.read_bytes())
    damaged[at % len(damaged)] ^= 1
    path.write_bytes(damaged)
    monkeypatch.setattr("scipy.io.loadmat", lambda file, **_: pytest.fail(f"read {len(file.read())} bytes"))
    with pytest.raises(DataError, match=rf"^{path}: MD5 \w+, expected \w+: not the file that SVHN publishes"):
        load_svhn(folder, files=published)


def test_both_downloads_have_a_checksum_and_a_size():
    assert [(file.name, len(file.digest), file.max_bytes) for file in FILES] == [
        ("train_32x32.mat", 32, 182_040_794),
        ("test_32x32.mat", 32, 64_275_384),
    ]
