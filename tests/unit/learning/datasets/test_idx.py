from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roambench.contract.errors import DataError
from roambench.learning.datasets.idx import parse_idx, read_idx

#: Type 8, three dimensions: 2 images of 2x3 pixels.
GOOD = bytes.fromhex("00000803 00000002 00000002 00000003") + bytes(range(12))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_idx_file_is_read_plain_or_gzipped(tmp_path: Path, pack):
    path = tmp_path / "images"
    path.write_bytes(pack(GOOD))
    array = read_idx(path, 3)
    assert array.dtype == np.uint8
    assert array.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file .it starts with nothing"),
        (b"\x89PNG", "it starts with 89 50 4e 47"),
        (bytes.fromhex("00000d03") + GOOD[4:], "idx type 0x0d, expected unsigned bytes"),
        (bytes.fromhex("00000801 0000000c") + bytes(12), "1 dimensions, expected 3"),
        (GOOD[:9], "header cut off after 9 bytes"),
        (GOOD[:-1], "truncated: 27 bytes, its header .2, 2, 3. says 28"),
        (GOOD + b"x", "too long: 29 bytes"),
    ],
)
def test_what_is_not_idx_is_refused_with_a_reason(content: bytes, message: str):
    with pytest.raises(DataError, match=f"^somefile: .*{message}"):
        parse_idx(content, 3, "somefile")


def test_a_gzip_file_cut_short_is_named(tmp_path: Path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(GOOD)[:-12])
    with pytest.raises(DataError, match=r"cut\.gz: cannot be read"):
        read_idx(path, 3)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="nothing-here: cannot be read"):
        read_idx(tmp_path / "nothing-here", 1)


@given(st.binary(max_size=40), st.integers(1, 3))
def test_no_bytes_raise_anything_but_a_data_error(content: bytes, dimensions: int):
    try:
        array = parse_idx(content, dimensions, "fuzz")
    except DataError:
        return
    assert array.ndim == dimensions
