"""Codecs against their definitions, written here a second time and number by number, and hostile codes."""

from __future__ import annotations

import contextlib
import math
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.model_blob import encode_coded
from roambench.learning.codecs.catalogue import CODECS, codec_of
from roambench.learning.codecs.coder import Coder

LAYOUT = "a" * 32
SHAPES = ((8, 3, 5, 5), (8,), (40, 30), ())
COUNT = 600 + 8 + 1200 + 1 + 7  # and 7 numbers that travel behind the model
LOSSLESS = ("identity", "deflate", "zstd")
TEXTS = (*LOSSLESS, "fp16", "bf16", "int8", "int4", "topk:0.05", "lowrank:2", "int8+deflate", "topk+zstd")


def drawn(seed: int = 0, count: int = COUNT) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(count) * 0.01).astype(np.float32)


def codes(text: str, values: np.ndarray, key: int = 5) -> bytes:
    return codec_of(text).encode(values, SHAPES, np.random.Generator(np.random.PCG64(key)))


def decodes(text: str, coded: bytes, count: int = COUNT) -> np.ndarray:
    return codec_of(text).decode(coded, count, SHAPES)


@pytest.mark.parametrize("text", TEXTS)
def test_a_code_is_bounded_repeatable_and_as_long_as_its_codec_says(text: str) -> None:
    values = drawn()
    coded = codes(text, values)
    assert coded == codes(text, values)
    assert len(coded) <= codec_of(text).most_bytes(COUNT, SHAPES)
    back = decodes(text, coded)
    assert (back.dtype, back.shape) == (np.float32, (COUNT,))
    assert (back == values).all() == (text in LOSSLESS)


def test_halves_are_rounded_to_the_nearest_even_number() -> None:
    """IEEE 754: binary16 by struct; bfloat16 by exact arithmetic on the 8 bits of its significand."""
    values = np.concatenate((drawn(), np.float32([0.0, -0.0, 1e38, -3.4e38, 1e-40, 2.0**-25])))
    count = values.size
    halves = [
        struct.unpack("<e", struct.pack("<e", max(-65504.0, min(65504.0, float(v)))))[0] for v in values
    ]
    assert decodes("fp16", codes("fp16", values), count).tolist() == halves

    def brain(value: float) -> float:
        if value == 0.0:
            return value
        unit = 2.0 ** (max(math.frexp(value)[1], -125) - 8)
        return max(-3.3895313892515355e38, min(3.3895313892515355e38, round(value / unit) * unit))

    found = decodes("bf16", codes("bf16", values), count).tolist()
    assert found == [brain(float(value)) for value in values]


@pytest.mark.parametrize(("text", "levels"), [("int8", 127), ("int4", 7)])
def test_quantised_numbers_are_qsgds_by_buckets(text: str, levels: int) -> None:
    """QSGD, Section 3.1: v becomes scale * sign(v) * xi / s, with xi one of the two levels around
    s |v| / scale, the upper one where the draw says so; the scale is the bucket's largest magnitude."""
    values = drawn()
    draws = np.random.Generator(np.random.PCG64(5)).random(COUNT, np.float32)
    wanted = []
    for place, value in enumerate(values.tolist()):
        bucket = values[place // 512 * 512 : place // 512 * 512 + 512]
        scale = float(np.abs(bucket).max())
        exact = levels * abs(value) / scale
        level = math.floor(exact) + (draws[place] >= 1.0 - (exact - math.floor(exact)))
        wanted.append(math.copysign(level * scale / levels, value))
    coded = codes(text, values)
    found = decodes(text, coded)
    assert len(coded) == 4 * math.ceil(COUNT / 512) + math.ceil(COUNT * (8 if text == "int8" else 4) / 8)
    off = np.abs(found - wanted)
    assert np.count_nonzero(off > 1e-8) <= 1  # a draw within rounding of the border
    mean = np.mean([decodes(text, codes(text, values, key)) for key in range(400)], axis=0)
    spread = np.abs(values).max() / levels / 2.0 / math.sqrt(400)
    assert np.abs(mean - values).max() < 6.0 * spread  # unbiased (Lemma 3.1)


def test_topk_is_sparsified_sgd_with_memory() -> None:
    """Stich et al., Algorithm 1: g = top_k(m + x), m = m + x - g, over ten uploads; nothing is lost."""
    coder = Coder.of("topk:0.05", LAYOUT, SHAPES)
    assert coder is not None
    kept, memory = math.ceil(0.05 * COUNT), np.zeros(COUNT, np.float32)
    sent, told = np.zeros(COUNT), np.zeros(COUNT)
    theirs = None
    for step in range(10):
        update = drawn(step)
        update[3:6] = 0.02  # equal ones
        total = memory + update
        order = sorted(range(COUNT), key=lambda place: (-abs(total[place]), place))[:kept]
        wanted = np.zeros(COUNT, np.float32)
        wanted[order] = total[order]
        memory = total - wanted
        blob, theirs = coder.encode(update, key=1, memory=theirs)
        assert theirs is not None
        found = coder.decode(blob, COUNT)
        assert (found == wanted).all()
        assert (theirs == memory).all()
        assert len(codes("topk:0.05", update)) == 8 * kept
        sent, told = sent + found, told + update
    assert np.abs(sent + memory - told).max() < 1e-6


@pytest.mark.parametrize("hundredths", range(1, 101))
def test_topk_keeps_exactly_its_share_of_a_hundred(hundredths: int) -> None:
    assert codec_of(f"topk:{hundredths / 100}").most_bytes(100, ()) == 8 * hundredths


@pytest.mark.parametrize("text", ["fp16", "bf16", "int8", "int4"])
def test_the_largest_numbers_come_back_finite(text: str) -> None:
    most = np.finfo(np.float32).max
    back = decodes(text, codes(text, np.float32([most, -most, 1.0])), 3)
    assert np.isfinite(back).all()
    assert back[0] == -back[1]


def test_low_rank_is_powersgds_power_iteration() -> None:
    """Vogels et al., Algorithm 1, by QR and BLAS in float64; and it is near the best rank there is (SVD)."""
    values = drawn()
    draws = np.random.Generator(np.random.PCG64(5))
    wanted, at, length = [], 0, 0
    for rows, columns in ((8, 75), (1, 8), (40, 30), (1, 1), (1, 7)):
        part = values[at : at + rows * columns].astype(np.float64)
        at += rows * columns
        if 2 * (rows + columns) >= rows * columns:
            wanted.append(part)
            length += 4 * part.size
            continue
        matrix = part.reshape(rows, columns)
        q = draws.standard_normal((columns, 2), np.float32).astype(np.float64)
        for _ in range(2):
            p = np.linalg.qr(matrix @ q)[0]
            q = matrix.T @ p
        wanted.append((p @ q.T).reshape(-1))
        length += 4 * 2 * (rows + columns)
        best = np.sqrt((np.linalg.svd(matrix, compute_uv=False)[2:] ** 2).sum())
        assert best <= np.linalg.norm(matrix - p @ q.T) < 1.1 * best
    coded = codes("lowrank:2", values)
    assert len(coded) == length
    assert np.abs(decodes("lowrank:2", coded) - np.concatenate(wanted)).max() < 1e-7


@pytest.mark.parametrize("text", ["fp16", "int8", "topk:0.05", "lowrank:2"])
def test_differences_come_back_to_what_they_are_of(text: str) -> None:
    coder = Coder.of(text, LAYOUT, SHAPES)
    assert coder is not None
    base = drawn(1)
    model = base + 0.01 * drawn(2)
    blob, _ = coder.encode(model, key=3, base=base)
    plain, _ = coder.encode(model, key=3)
    worst = np.abs(coder.decode(blob, COUNT, base) - model).max()
    assert worst < 0.2 * np.abs(coder.decode(plain, COUNT) - model).max()


def bomb() -> bytes:
    packer = zlib.compressobj(9)
    return packer.compress(b"\0" * 10**8) + packer.flush()


def zstd_bomb() -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(b"\0" * 10**8)


def zstd_that_does_not_say() -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * 4 * COUNT)


def places(*found: int) -> bytes:
    kept = math.ceil(0.05 * COUNT)
    rest = [*found, *range(100, 100 + kept)][:kept]
    return struct.pack(f"<{kept}I", *rest) + b"\0" * 4 * kept


HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "short": ("int8", lambda: b"\0" * 9, "has 9 bytes"),
    "long": ("fp16", lambda: b"\0" * 10_000, "has 10000 bytes"),
    "scale": ("int8", lambda: struct.pack("<4f", math.nan, 1, 1, 1) + b"\0" * COUNT, "a scale"),
    "negative scale": ("int8", lambda: struct.pack("<4f", -1.0, 1, 1, 1) + b"\0" * COUNT, "a scale"),
    "level": ("int8", lambda: struct.pack("<4f", 1, 1, 1, 1) + b"\x80" * COUNT, "beyond 127"),
    "nibble": ("int4", lambda: struct.pack("<4f", 1, 1, 1, 1) + b"\0" * (COUNT // 2), "beyond 7"),
    "place beyond": ("topk:0.05", lambda: _beyond(), "ascending and below"),
    "place twice": ("topk:0.05", lambda: places(100, 100), "ascending and below"),
    "place back": ("topk:0.05", lambda: places(101), "ascending and below"),
    "bomb": ("identity+deflate", bomb, "more than"),
    "zstd bomb": ("zstd", zstd_bomb, "100000000 of at most"),
    "zstd without a length": ("zstd", zstd_that_does_not_say, "-1 of at most"),
    "no zstd": ("zstd", lambda: b"nothing", "cannot be unpacked|of at most"),
    "no zlib": ("deflate", lambda: b"nothing", "cannot be unpacked"),
    "cut short": ("deflate", lambda: zlib.compress(b"\0" * 4 * COUNT)[:-5], "cut short"),
    "more behind": ("deflate", lambda: zlib.compress(b"\0" * 4 * COUNT) + b"x", "more lies behind"),
    "not a number": ("identity+deflate", lambda: zlib.compress(b"\xff" * 4 * COUNT), "NaN"),
    "infinite": ("fp16", lambda: b"\x00\x7c" * COUNT, "NaN or infinity"),
    "overflow": ("lowrank:2", lambda: struct.pack("<f", 3e38) * 322, "NaN or infinity"),
}


def _beyond() -> bytes:
    kept = math.ceil(0.05 * COUNT)
    return struct.pack(f"<{kept}I", *range(COUNT - kept + 1, COUNT + 1)) + b"\0" * 4 * kept


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_codes_are_refused_with_a_reason(case: str) -> None:
    text, made, reason = HOSTILE[case]
    coder = Coder(codec_of(text), LAYOUT, SHAPES)
    with pytest.raises(ModelError, match=reason):
        coder.decode(encode_coded(made(), LAYOUT, COUNT), COUNT)


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=60, deadline=None)
@given(coded=st.binary(max_size=4000))
def test_no_bytes_at_all_are_more_than_refused(text: str, coded: bytes) -> None:
    coder = Coder(codec_of(text), LAYOUT, SHAPES)
    with contextlib.suppress(ModelError):
        assert np.isfinite(coder.decode(encode_coded(coded, LAYOUT, COUNT), COUNT)).all()


def test_headers_that_lie_are_refused() -> None:
    coder = Coder(codec_of("fp16"), LAYOUT, SHAPES)
    blob, _ = coder.encode(drawn(), key=0)
    assert coder.decode(blob).size == COUNT
    with pytest.raises(ModelError, match="1816 numbers, expected 5"):
        coder.decode(blob, 5)
    with pytest.raises(ModelError, match="layout"):
        Coder(codec_of("fp16"), "b" * 32, SHAPES).decode(blob, COUNT)
    with pytest.raises(ModelError, match="expected a coded model"):
        coder.decode(encode_coded(b"", LAYOUT, 2**40), COUNT)
    with pytest.raises(ModelError, match="NaN"):
        coder.encode(np.float32([math.nan]), key=0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("int9", "unknown codec 'int9'"),
        ("topk:2", "above 0 and at most 1"),
        ("topk:many", "expected a number"),
        ("lowrank:0", "whole rank"),
        ("int8:3", "takes no number"),
        ("int8+int4", "packs bytes"),
        ("", "unknown codec"),
    ],
)
def test_a_codec_that_cannot_be_is_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        codec_of(text)


def test_every_row_has_a_summary() -> None:
    assert all(CODECS.load(name).summary for name in CODECS.names())
