from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from roambench.contract.errors import DataError
from roambench.learning.shards import Shard, read_shard, write_shard

IMAGES = np.arange(2 * 1 * 3 * 3, dtype=np.float32).reshape(2, 1, 3, 3)
LABELS = np.array([7, 0])


def test_a_shard_comes_back_as_it_was_written(tmp_path: Path):
    path = tmp_path / "deep" / "device-3.safetensors"
    write_shard(path, Shard(IMAGES, LABELS))
    shard = read_shard(path, in_channels=1, classes=10)
    assert shard.images.tobytes() == IMAGES.tobytes()
    assert shard.images.shape == (2, 1, 3, 3)
    assert shard.labels.tolist() == [7, 0]
    assert [entry.name for entry in path.parent.iterdir()] == ["device-3.safetensors"]


def test_a_selection_of_a_larger_array_is_written_whole(tmp_path: Path):
    path = tmp_path / "s"
    write_shard(path, Shard(IMAGES[::-1], LABELS[::-1]))
    assert read_shard(path).images.tolist() == IMAGES[::-1].tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, "expected entries images and labels, found images"),
        ({"images": IMAGES, "labels": LABELS, "x": LABELS}, "found images, labels, x"),
        ({"images": IMAGES.astype(np.float64), "labels": LABELS}, "images are float64 of shape"),
        ({"images": IMAGES[0], "labels": LABELS}, r"shape \(1, 3, 3\), expected float32"),
        ({"images": IMAGES, "labels": LABELS.astype(np.int32)}, "labels: expected int64 .*, got int32"),
        ({"images": IMAGES, "labels": LABELS[:1]}, r"labels: expected int64 of shape \(2,\).*got .* \(1,\)"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "holds no image"),
        ({"images": IMAGES * np.float32(np.nan), "labels": LABELS}, "NaN or infinity"),
        ({"images": IMAGES, "labels": -LABELS}, r"labels: expected 0 or more, got -7\.\.0"),
    ],
)
def test_a_shard_that_is_not_one_is_refused_with_its_name(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
):
    path = tmp_path / "bad.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    with pytest.raises(DataError, match=message) as raised:
        read_shard(path)
    assert str(raised.value).startswith(str(path))


def test_a_shard_for_another_model_is_refused(tmp_path: Path):
    path = tmp_path / "s"
    write_shard(path, Shard(IMAGES, LABELS))
    with pytest.raises(DataError, match="images have 1 channels, the model takes 3"):
        read_shard(path, in_channels=3)
    with pytest.raises(DataError, match=r"labels: expected 0\.\.4, got 0\.\.7"):
        read_shard(path, classes=5)


def test_nothing_unreadable_is_ever_written(tmp_path: Path):
    with pytest.raises(DataError, match=r"labels: expected int64 of shape \(2,\)"):
        write_shard(tmp_path / "s", Shard(IMAGES, LABELS[:1]))
    assert not list(tmp_path.iterdir())


def test_missing_files_and_folders_are_errors_of_one_line(tmp_path: Path):
    with pytest.raises(DataError, match="no such shard"):
        read_shard(tmp_path / "none")
    with pytest.raises(DataError, match="not a readable shard"):
        read_shard(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="cannot be written"):
        write_shard(tmp_path / "file" / "shard", Shard(IMAGES, LABELS))


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F4", "I65"])
def test_a_header_with_a_dtype_numpy_lacks_is_refused(tmp_path: Path, dtype: str):
    header = json.dumps({"images": {"dtype": dtype, "shape": [2], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "odd"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(DataError, match="odd: not a readable shard"):
        read_shard(path)
    # F8 takes one byte each.
    header = header.replace(b"[0, 4]", b"[0, 2]")
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(2))
    with pytest.raises(DataError, match="odd: not a readable shard"):
        read_shard(path)


WHOLE = save({"images": IMAGES, "labels": LABELS})


@given(cut=st.integers(0, len(WHOLE) - 1))
def test_a_truncated_shard_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: int):
    path = tmp_path_factory.getbasetemp() / "cut.safetensors"
    path.write_bytes(WHOLE[:cut])
    with pytest.raises(DataError):
        read_shard(path)


@given(st.data())
def test_a_damaged_header_never_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
):
    damaged = bytearray(WHOLE)
    header = 8 + int.from_bytes(WHOLE[:8], "little")
    for position in data.draw(st.lists(st.integers(0, header - 1), min_size=1, max_size=4)):
        damaged[position] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    path.write_bytes(damaged)
    try:
        shard = read_shard(path)
    except DataError:
        return
    assert shard.images.ndim == 4
