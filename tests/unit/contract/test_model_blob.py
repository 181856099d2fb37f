"""A model as bytes: what encode made comes back, anything else is refused with its reason."""

import struct
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ModelError
from roambench.contract.model_blob import (
    BULK_CHUNK_BYTES,
    PACED_CHUNK_BYTES,
    chunks,
    decode,
    encode,
    parts,
)
from roambench.contract.model_digest import digest_of

MODEL = np.array([1.5, -2.25, 3.0], dtype=np.float32)


def test_a_model_survives_the_round_trip_bit_by_bit() -> None:
    blob = encode(MODEL, "ab" * 16)
    np.testing.assert_array_equal(decode(blob, layout="ab" * 16), MODEL)
    assert blob[-12:] == struct.pack("<3f", 1.5, -2.25, 3.0)


def test_a_blob_written_in_parts_is_the_same_and_is_read_where_it_lies(tmp_path: Path) -> None:
    head, data = parts(MODEL, "ab" * 16)
    blob = encode(MODEL, "ab" * 16)
    assert head + data == blob
    assert digest_of(head, data) == digest_of(blob)
    assert np.shares_memory(np.frombuffer(data, dtype=np.float32), MODEL)
    path = tmp_path / "model.blob"
    path.write_bytes(blob)
    with path.open("rb") as file:
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    np.testing.assert_array_equal(decode(mapped, layout="ab" * 16), MODEL)


def test_a_float64_model_survives_in_its_own_precision_and_only_where_it_is_expected() -> None:
    third = np.array([1.0 / 3.0, -2.0])
    blob = encode(third, "ab")  # type: ignore[arg-type]
    assert blob[-16:] == struct.pack("<2d", 1.0 / 3.0, -2.0)
    assert decode(blob, dtype="float64").tolist() == [1.0 / 3.0, -2.0]
    with pytest.raises(ModelError, match="expected float32"):
        decode(blob)
    with pytest.raises(ModelError, match="expected float64"):
        decode(encode(MODEL, "ab"), dtype="float64")
    with pytest.raises(ModelError, match="15 bytes, its header says 16"):
        decode(blob[:-1], dtype="float64")


@pytest.mark.parametrize("count", [1, 10, 100, 1000])
def test_the_numbers_begin_at_a_multiple_of_16(count: int) -> None:
    for layout in ("ab", "ab" * 16):
        blob = encode(np.ones(count, np.float32), layout)
        assert (len(blob) - 4 * count) % 16 == 0
        assert decode(blob, layout=layout).flags.aligned


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"", "magic"),
        (b"\x80\x04pickle-like bytes", "magic"),
        (b"ROAMBLB1" + struct.pack("<I", 4097) + b"{}", "does not fit"),
        (b"ROAMBLB1" + struct.pack("<I", 200) + b"{}", "does not fit"),
        (b"ROAMBLB1" + struct.pack("<I", 2) + b"{]", "model header: not JSON"),
        (b"ROAMBLB1" + struct.pack("<I", 2) + b"{}", "model header: count: is missing"),
        (b"ROAMBLB1" + struct.pack("<I", 2) + b"[]", "model header: top level: expected an object"),
        (encode(MODEL, "ab")[:-1], "its header says 12"),
        (encode(MODEL, "ab") + b"x", "its header says 12"),
        (encode(MODEL, "ab").replace(b"float32", b"float64"), "expected float32"),
        (encode(np.array([np.inf], dtype=np.float32), "ab"), "NaN or infinity"),
    ],
)
def test_what_is_no_model_is_refused(blob: bytes, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        decode(blob)


def test_a_model_of_another_layout_is_refused() -> None:
    with pytest.raises(ModelError, match="has layout ab, expected cd"):
        decode(encode(MODEL, "ab"), layout="cd")


def test_only_flat_float32_vectors_are_models() -> None:
    for wrong in (MODEL.astype(np.float16), MODEL.astype(np.int64), MODEL.reshape(1, 3)):
        with pytest.raises(ModelError, match="flat float32"):
            encode(wrong, "ab")  # type: ignore[arg-type]


def test_random_bytes_never_raise_anything_but_a_model_error() -> None:
    random = np.random.Generator(np.random.PCG64(7))
    good = encode(np.arange(64, dtype=np.float32), "ab")
    refused = 0
    for _ in range(3000):
        spoilt = bytearray(good)
        for _ in range(int(random.integers(1, 6))):
            spoilt[int(random.integers(0, 60))] = int(random.integers(0, 256))
        try:
            accepted = decode(bytes(spoilt), layout="ab")
        except ModelError:
            refused += 1
        else:
            assert accepted.shape == (64,)
    assert refused > 2500


def test_chunks_join_to_the_blob_and_suit_the_transfer() -> None:
    blob = bytes(range(256)) * 4096 + b"tail"  # 1 MiB and 4 bytes
    paced = list(chunks(blob, 20.0))
    bulk = list(chunks(blob, 0.0))
    assert b"".join(paced) == b"".join(bulk) == blob
    assert [len(piece) for piece in paced] == [PACED_CHUNK_BYTES] * 4 + [4]
    assert max(len(piece) for piece in bulk) <= BULK_CHUNK_BYTES


@pytest.mark.parametrize(("mbit_s", "first"), [(0.001, 1024), (0.08, 2500), (8.0, 250_000), (95.0, 262_144)])
def test_a_slow_link_carries_small_pieces_so_that_it_is_never_silent_for_long(
    mbit_s: float, first: int
) -> None:
    """A quarter of a second's worth: 0.08 Mbit/s are 10 kB/s."""
    blob = bytes(300_000)
    assert len(next(iter(chunks(blob, mbit_s)))) == first
    assert b"".join(chunks(blob, mbit_s)) == blob
