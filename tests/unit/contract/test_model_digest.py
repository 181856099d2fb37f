"""Models are named by BLAKE3; the bare SHA-256 of earlier folders still names its bytes."""

import hashlib

import pytest

from roambench.contract.model_digest import digest_like, digest_of, from_wire, is_digest, names, to_wire

#: BLAKE3's own test vectors begin with that of no bytes.
OF_NOTHING = "blake3-af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
BLOB = b"a model"
BARE = hashlib.sha256(BLOB).hexdigest()


def test_a_digest_has_the_name_of_its_kind_in_front() -> None:
    assert digest_of(b"") == OF_NOTHING


@pytest.mark.parametrize("digest", [digest_of(BLOB), BARE])
def test_both_kinds_name_their_bytes_and_no_others_and_cross_the_wire(digest: str) -> None:
    assert names(digest, BLOB)
    assert not names(digest, BLOB + b"x")
    assert is_digest(digest)
    assert digest_like(digest, BLOB) == digest
    assert from_wire(to_wire(digest)) == digest


def test_the_32_bytes_of_an_earlier_answer_are_its_sha_256() -> None:
    assert from_wire(hashlib.sha256(BLOB).digest()) == BARE
    assert from_wire(to_wire("")) == ""


@pytest.mark.parametrize(
    "field", [b"d" * 31, b"\xff" * 71, b"blake3-" + b"g" * 64, OF_NOTHING.encode() + b"0"]
)
def test_other_bytes_name_nothing(field: bytes) -> None:
    text = from_wire(field)
    assert not is_digest(text)
    assert not names(text, BLOB)
