"""Messages of programs beside models: bytes of any length, up to what the order says that asks for them."""

from __future__ import annotations

import numpy as np
import pytest

from hand_agent import LAYOUT
from roambench.contract.errors import ModelError
from roambench.contract.model_blob import (
    MESSAGE_HEADER_BYTES,
    decode,
    decode_message,
    encode,
    encode_message,
)
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import UploadOrder
from roambench.fleet.model_registry import ModelRegistry

MODEL = encode(np.arange(5, dtype=np.float32), LAYOUT)
FOR_MODELS = UploadOrder("run/1/0/upload", 0, 1, 3, "run/1/0/train")
FOR_MESSAGES = UploadOrder("run/1/0/upload", 0, 1, 3, "run/1/0/train", message_bytes=1000)


@pytest.mark.parametrize("message", [b"", b"\x00\xff", bytes(1000)])
def test_a_message_of_any_length_comes_back(message: bytes) -> None:
    registry, blob = ModelRegistry(LAYOUT), encode_message(message)
    registry.publish(np.arange(5, dtype=np.float32))
    assert len(blob) <= len(message) + MESSAGE_HEADER_BYTES
    assert registry.get(registry.publish(message)) == blob
    registry.admit(FOR_MESSAGES, len(blob))
    assert registry.accept(FOR_MESSAGES, blob) == message
    assert registry.blob_bytes == len(MODEL)  # models keep their one size


def test_what_is_longer_than_its_order_allows_is_refused_by_its_announcement() -> None:
    registry = ModelRegistry(LAYOUT)
    registry.publish(np.arange(5, dtype=np.float32))
    with pytest.raises(ModelError, match="a message of this run has 1256 at most"):
        registry.admit(FOR_MESSAGES, 10**9)
    with pytest.raises(ModelError, match=f"a model of this run has {len(MODEL)}"):
        registry.admit(FOR_MODELS, 900)


def test_a_model_is_no_message_and_a_message_no_model() -> None:
    registry = ModelRegistry(LAYOUT)
    with pytest.raises(ModelError, match="expected a message of 20 bytes, got 5 of float32"):
        registry.accept(FOR_MESSAGES, MODEL)
    with pytest.raises(ModelError, match="got bytes"):
        registry.accept(FOR_MODELS, encode_message(b"x" * 20))


def test_a_damaged_message_is_none() -> None:
    blob = encode_message(b"four")
    assert decode_message(blob) == b"four"
    for wrong in (blob[:-1], blob + b"x", b"", blob[:20]):
        with pytest.raises(ModelError):
            decode_message(wrong)
    assert digest_of(blob) != digest_of(encode_message(b"fore"))
    assert decode(MODEL, layout=LAYOUT).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
