from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets import load_dataset
from roambench.learning.svhn import FILES


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
    write(tmp_path, "train", pixels(3), [10, 1, 9], do_compression=request.param)
    write(tmp_path, "test", pixels(2)[:, :, ::-1], [2, 10], do_compression=request.param)
    return tmp_path


def test_svhn_files_are_read_with_label_10_as_0_and_scaled_by_the_training_part(folder: Path):
    data = load_dataset("svhn", folder)
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


def test_wrong_labels_and_shapes_are_named(folder: Path):
    path = folder / "train_32x32.mat"
    for images, labels, message in (
        (pixels(2), [1, 11], "record 1 has label 11, expected 1 to 10"),
        (pixels(2), [0, 1], "record 0 has label 0, expected 1 to 10"),
        (pixels(2), [1, 2, 3], "y is uint8 of shape .3, 1., expected 2 labels"),
        (pixels(2)[:31], [1, 2], r"X is uint8 of shape .31, 32, 3, 2., expected uint8 of 32x32x3xN"),
        (pixels(2).astype(np.float64), [1, 2], "X is double of shape"),
        (pixels(2)[..., 0], [1, 2], "X is uint8 of shape .32, 32, 3., expected"),
    ):
        write(folder, "train", images, labels)
        with pytest.raises(DataError, match=rf"^{path}: {message}"):
            load_dataset("svhn", folder)


def test_files_of_other_kinds_and_without_the_arrays_are_named(folder: Path):
    path = folder / "train_32x32.mat"
    savemat(path, {"X": pixels(1), "labels": np.ones((1, 1))})
    with pytest.raises(DataError, match=r"holds no array y .it holds X, labels."):
        load_dataset("svhn", folder)
    for content, message in (
        (b"", "not a MATLAB 5 file"),
        (b"MATLAB 7.3 MAT-file, HDF5", "not a MATLAB 5 file .it starts with b'MATLAB 7.3 MAT-file"),
        (b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"\x0f\0\0\0", "damaged MATLAB file"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{path}: {message}"):
            load_dataset("svhn", folder)


def test_a_truncated_file_is_named(folder: Path):
    path = folder / "train_32x32.mat"
    whole = path.read_bytes()
    for size in (130, len(whole) // 2, len(whole) - 60):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=rf"^{path}: "):
            load_dataset("svhn", folder)


def test_an_array_too_large_for_the_set_is_refused_before_it_is_unpacked(folder: Path):
    """A compressed header alone that promises 1,300,000 images, 4 GB, in a file of some hundred bytes."""
    images = 1_300_000
    flags = struct.pack("<IIII", 6, 8, 9, 0)  # an array of uint8
    shape = struct.pack("<II4i", 5, 16, 32, 32, 3, images)
    name = struct.pack("<HH4s", 1, 1, b"X")
    values = struct.pack("<II", 2, images * 3072) + bytes(64)
    body = flags + shape + name + values
    packed = zlib.compress(struct.pack("<II", 14, len(body) - 64 + images * 3072) + body)
    path = folder / "train_32x32.mat"
    huge = struct.pack("<II", 15, len(packed)) + packed
    for others, message in (
        ({"y": np.ones((images // 1000, 1), np.uint8)}, "X is uint8 of shape .32, 32, 3, 1300000., expected"),
        ({"X": pixels(1), "y": np.ones((1, 1), np.uint8)}, "holds two arrays of one name"),
    ):
        savemat(path, others)
        honest = path.read_bytes()
        path.write_bytes(honest[:128] + huge + honest[128:])
        with pytest.raises(DataError, match=rf"^{path}: {message}"):
            load_dataset("svhn", folder)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), change=st.integers(1, 255))
def test_no_damage_raises_anything_but_a_data_error(folder: Path, at: int, change: int):
    path = folder / "test_32x32.mat"
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[at % len(damaged)] ^= change
    path.write_bytes(damaged)
    try:
        load_dataset("svhn", folder)
    except DataError:
        pass
    finally:
        path.write_bytes(whole)


def test_both_downloads_have_a_checksum_and_a_size():
    assert [(file.name, len(file.digest), file.max_bytes) for file in FILES] == [
        ("train_32x32.mat", 32, 182_040_794),
        ("test_32x32.mat", 32, 64_275_384),
    ]
