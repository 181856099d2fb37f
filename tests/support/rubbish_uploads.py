"""Uploads for an order that is really outstanding, each of them wrong in its own way."""

import pickle
from collections.abc import Iterator

import numpy as np

from hand_agent import LAYOUT, MODEL
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of, to_wire
from roambench.contract.orders import UploadOrder
from roambench.wire.v1 import data_pb2

#: What the fuzzed controller orders of pi-01, all the time; a model of its run has this size.
ORDER = UploadOrder("run/1/0/upload", 0, 1, 3, "run/1/0/train")
SMALL = MODEL[:30_000]
_BLOB = encode(SMALL, LAYOUT)
_NOT_FINITE = encode(np.where(SMALL == 7.0, np.float32(np.nan), SMALL), LAYOUT)
_PICKLE = pickle.dumps(list(range(60_000))).ljust(len(_BLOB), b".")[: len(_BLOB)]
_OF_ANOTHER_LAYOUT = encode(SMALL, "b" * len(LAYOUT))
_PIECE_BYTES = 16 * 1024
_BULK = bytes(256 * 1024)
_ENDLESS = 1000  # pieces: 250 MiB of a controller that would take them
_TINY_PIECES = 50_000


def upload(draw: np.random.Generator) -> Iterator[bytes]:
    """Its messages, in order; the pieces of an endless one are a quarter of a MiB."""
    kind = draw.integers(8)
    if kind == 0:
        yield _header(_BLOB)
        yield from (_BULK for _ in range(_ENDLESS))
    elif kind == 1:
        yield _header(_BLOB)
        yield from (b"\x00" for _ in range(_TINY_PIECES))
    elif kind == 2:
        yield _header(_BLOB)
        yield from _pieces(_BLOB[: draw.integers(len(_BLOB))])
    elif kind == 3:
        yield _header(_BLOB)
        at = int(draw.integers(len(_BLOB)))
        yield from _pieces(_BLOB[:at] + bytes((_BLOB[at] ^ 1,)) + _BLOB[at + 1 :])
    elif kind == 4:  # what the header says of it is true
        blob = (_NOT_FINITE, _PICKLE, _OF_ANOTHER_LAYOUT)[draw.integers(3)]
        yield _header(blob)
        yield from _pieces(blob)
    elif kind == 5:
        yield _header(_BLOB, total_bytes=int(draw.choice([0, 1, len(_BLOB) + 1, 2**40, 2**64 - 1])))
        yield from _pieces(_BLOB)
    elif kind == 6:
        claims = (
            {"device": "pi-02"},
            {"ap": 4},
            {"order_id": "run/1/1/train"},
            {"train_order_id": "run/9/0"},
        )
        yield _header(_BLOB, **claims[draw.integers(len(claims))])
        yield from _pieces(_BLOB)
    else:
        yield from _pieces(_BLOB)


def _header(blob: bytes, **claims: object) -> bytes:
    true = {
        "device": "pi-01",
        "order_id": ORDER.order_id,
        "train_order_id": ORDER.train_order_id,
        "ap": ORDER.ap,
        "total_bytes": len(_BLOB),
        "digest": to_wire(digest_of(blob)),
    }
    return data_pb2.UploadHeader(**(true | claims)).SerializeToString()  # type: ignore[arg-type]


def _pieces(blob: bytes) -> Iterator[bytes]:
    return (blob[at : at + _PIECE_BYTES] for at in range(0, len(blob), _PIECE_BYTES))
