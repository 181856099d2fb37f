from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets.catalogue import load_dataset


def record(labels: bytes, red: int, green: int, blue: int, first: int | None = None) -> bytes:
    """Label bytes, then 1,024 red, 1,024 green and 1,024 blue pixels, row by row."""
    pixels = bytearray(bytes([red]) * 1024 + bytes([green]) * 1024 + bytes([blue]) * 1024)
    if first is not None:
        pixels[1] = first  # red, row 0, column 1
    return labels + bytes(pixels)


CIFAR10 = {
    **{f"data_batch_{n}.bin": record(bytes([n]), n, 0, 0) + record(b"\0", 0, 0, n) for n in range(1, 6)},
    "test_batch.bin": record(b"\x09", 255, 51, 0, first=102),
}
CIFAR100 = {
    "train.bin": record(b"\x13\x63", 10, 20, 30) + record(b"\x00\x00", 0, 0, 0),
    "test.bin": record(b"\x07\x2a", 255, 51, 0),
}


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def pack(path: Path, inner: str, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{inner}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture(params=["loose", "unpacked", "packed"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "packed":
        pack(tmp_path / "cifar-10-binary.tar.gz", "cifar-10-batches-bin", CIFAR10)
        pack(tmp_path / "cifar-100-binary.tar.gz", "cifar-100-binary", CIFAR100)
    elif request.param == "unpacked":
        write(tmp_path / "cifar-10-batches-bin", CIFAR10)
        write(tmp_path / "cifar-100-binary", CIFAR100)
    else:
        write(tmp_path, CIFAR10 | CIFAR100)
    return tmp_path


def test_cifar10_is_read_in_the_order_of_its_batches_and_normalised_by_channel(folder: Path):
    data = load_dataset("cifar10", folder)
    assert data.train_labels.tolist() == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    assert data.test_labels.tolist() == [9]
    assert (data.train_images.shape, data.test_images.shape) == ((10, 3, 32, 32), (1, 3, 32, 32))
    assert data.train_images.dtype == np.float32
    assert (data.classes, data.in_channels) == (10, 3)
    red, green, blue = data.test_images[0]
    assert red[0, 0] == red[31, 31] == np.float32((1.0 - 0.4914) / 0.2023)
    assert red[0, 1] == np.float32((0.4 - 0.4914) / 0.2023)
    assert red[1, 0] == red[0, 0]
    assert green[5, 7] == np.float32((0.2 - 0.4822) / 0.1994)
    assert blue[5, 7] == np.float32((0.0 - 0.4465) / 0.2010)


def test_cifar100_takes_the_fine_label_the_second_byte(folder: Path):
    data = load_dataset("cifar100", folder)
    assert (data.train_labels.tolist(), data.test_labels.tolist(), data.classes) == ([99, 0], [42], 100)
    assert data.train_images[0, 2, 3, 4] == np.float32((30 / 255 - 0.4465) / 0.2010)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3.bin", CIFAR10["data_batch_3.bin"][:-1], "truncated in record 1: 6145 bytes"),
        ("data_batch_3.bin", b"", "truncated in record 0: 0 bytes, expected a multiple of 3073"),
        ("data_batch_5.bin", CIFAR10["data_batch_5.bin"] + b"\0", "truncated in record 2: 6147 bytes"),
        ("test_batch.bin", record(b"\x0a", 1, 2, 3), "record 0 has label 10, expected 0 to 9"),
    ],
)
def test_a_broken_batch_is_named_with_its_record(tmp_path: Path, name: str, content: bytes, message: str):
    write(tmp_path, CIFAR10 | {name: content})
    with pytest.raises(DataError, match=rf"^{tmp_path / name}: {message}"):
        load_dataset("cifar10", tmp_path)


def test_a_broken_member_of_the_archive_is_named(tmp_path: Path):
    path = tmp_path / "cifar-100-binary.tar.gz"
    pack(path, "cifar-100-binary", CIFAR100 | {"test.bin": record(b"\0\x64", 0, 0, 0)})
    with pytest.raises(DataError, match=rf"^{path}: cifar-100-binary/test.bin: record 0 has label 100"):
        load_dataset("cifar100", tmp_path)


def test_an_archive_that_lacks_a_batch_is_named(tmp_path: Path):
    few = {name: content for name, content in CIFAR10.items() if name != "data_batch_4.bin"}
    pack(tmp_path / "cifar-10-binary.tar.gz", "cifar-10-batches-bin", few)
    with pytest.raises(DataError, match=r"lacks cifar-10-batches-bin/data_batch_4\.bin$"):
        load_dataset("cifar10", tmp_path)


def test_every_missing_batch_is_listed(tmp_path: Path):
    write(tmp_path, CIFAR10)
    (tmp_path / "data_batch_2.bin").unlink()
    (tmp_path / "test_batch.bin").unlink()
    with pytest.raises(ConfigError) as raised:
        load_dataset("cifar10", tmp_path)
    where = "(also looked for in cifar-10-batches-bin/ and in cifar-10-binary.tar.gz there)"
    assert raised.value.problems == (
        f"{tmp_path}/data_batch_2.bin: missing CIFAR-10 file {where}",
        f"{tmp_path}/test_batch.bin: missing CIFAR-10 file {where}",
    )


@pytest.mark.parametrize(
    ("dataset", "mistaken", "binary"),
    [
        ("cifar10", "cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
        ("cifar10", "cifar-10-batches-py", "cifar-10-binary.tar.gz"),
        ("cifar10", "data_batch_1", "cifar-10-binary.tar.gz"),
        ("cifar100", "cifar-100-python", "cifar-100-binary.tar.gz"),
        ("cifar100", "cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
        ("cifar100", "train", "cifar-100-binary.tar.gz"),
    ],
)
def test_who_has_only_the_pickled_version_is_told_so(
    tmp_path: Path, dataset: str, mistaken: str, binary: str
):
    (tmp_path / mistaken).write_bytes(b"\x80\x04.")
    with pytest.raises(ConfigError) as raised:
        load_dataset(dataset, tmp_path)
    assert raised.value.problems[-1] == (
        f"{tmp_path / mistaken}: holds Python pickles, which are never read: get the binary version, {binary}"
    )
