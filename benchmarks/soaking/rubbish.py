"""What a fuzzer sends: seeded byte strings that begin as something real and then go wrong."""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from roambench.contract.events import EventKind
from roambench.contract.model_blob import encode
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1 import data_pb2, peer_pb2
from roambench.wire.v1.methods import DOWNLOAD, DRAIN, PROTOCOL_VERSION, SESSION, UPLOAD

METHODS = (SESSION, DRAIN, DOWNLOAD, UPLOAD)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_BLOB = encode(np.arange(5000, dtype=np.float32) / 7.0, "a" * 32)
_GOOD = (
    wire.AgentFrame(hello=wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-01", machine_id="m")),
    wire.AgentFrame(
        hello=wire.Hello(protocol_version=2**32 - 1, device="pi-01" * 50, capabilities=["x"] * 500)
    ),
    wire.AgentFrame(answer=wire.Answer(order_id="run/1/1/train", status=wire.Answer.DONE)),
    wire.AgentFrame(
        event=wire.SessionEvent(order_id="run/1/1/train", kind=EventKind.TRAIN_STARTED, at_ns=-1)
    ),
    wire.AgentFrame(clock_echo=wire.ClockEcho(probe=2**64 - 1, sent_ns=-(2**63))),
    wire.AgentFrame(model_request=wire.ModelRequest(order_id="run/1/1/train", digest=b"d" * 32)),
    wire.AgentFrame(model_upload=wire.ModelUpload(order_id="run/1/1/train", digest=b"d" * 32, blob=_BLOB)),
    wire.DrainRequest(device="pi-01", spool_uuid="u", records=[wire.Record(seq=2**64 - 1, payload=b"x")] * 9),
    wire.DrainRequest(device="pi-02", spool_uuid="u" * 9000),
    data_pb2.DownloadRequest(device="pi-01", order_id="run/1/1/train", digest=b"d" * 32),
    data_pb2.UploadHeader(device="pi-01", order_id="run/1/1/train", total_bytes=2**63, digest=b"d" * 32),
    peer_pb2.PullRequest(run_id="run", step=1),
    peer_pb2.PullRequest(run_id="run", step=2**31 - 1),
    peer_pb2.PullRequest(run_id="run" * 100, step=0),
)
MESSAGES = tuple(message.SerializeToString() for message in _GOOD)
_GZIP = zlib.compressobj(wbits=31)
BOMB = _GZIP.compress(bytes(64 * 2**20)) + _GZIP.flush()  # 64 KB, or 64 MiB for who unpacks it


def damaged(message: bytes, draw: np.random.Generator) -> bytes:
    """One of: as it is, cut, doubled, bits flipped, bytes put in, all of it random."""
    data = bytearray(message)
    kind = draw.integers(6)
    if kind == 1:
        return bytes(data[: draw.integers(len(data) + 1)])
    if kind == 2:
        return bytes(data) * int(draw.integers(2, 200))
    if kind == 3:
        for at in draw.integers(len(data), size=1 + len(data) // 8) if data else ():
            data[at] ^= 1 << int(draw.integers(8))
    if kind == 4:
        at = int(draw.integers(len(data) + 1))
        return bytes(data[:at]) + draw.bytes(int(draw.integers(1, 64))) + bytes(data[at:])
    if kind == 5:
        return draw.bytes(int(draw.integers(0, 300)))
    return bytes(data)


def messages(draw: np.random.Generator) -> list[bytes]:
    """The messages of one call: protobuf and pieces of a model, in any order."""
    count = int(draw.integers(1, 6))
    found = []
    for _ in range(count):
        if draw.random() < 0.2:
            found.append(_BLOB[: draw.integers(len(_BLOB))])
        else:
            found.append(damaged(MESSAGES[draw.integers(len(MESSAGES))], draw))
    return found


def frame(kind: int, flags: int, stream: int, payload: bytes, length: int | None = None) -> bytes:
    """An HTTP/2 frame; `length` may lie."""
    size = len(payload) if length is None else length
    return (size & 0xFFFFFF).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def headers(method: str, encoding: str = "") -> bytes:
    """A gRPC call's header block, itself not compressed; `encoding`: that of its messages."""
    block = b""
    for name, value in (
        (":method", "POST"),
        (":scheme", "https"),
        (":path", method),
        (":authority", "roambench-controller"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *([("grpc-encoding", encoding)] if encoding else []),
    ):
        block += b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
    return block


def grpc_message(payload: bytes, draw: np.random.Generator) -> bytes:
    """A length-prefixed message whose flag or length may be wrong."""
    flag = 0 if draw.random() < 0.7 else int(draw.integers(256))
    length = len(payload) if draw.random() < 0.6 else int(draw.integers(2**32))
    return bytes((flag,)) + length.to_bytes(4, "big") + payload


def http2(draw: np.random.Generator, methods: Sequence[str] = METHODS) -> bytes:
    """A connection's bytes: mostly a real beginning, then frames of every kind, right and wrong."""
    out = PREFACE if draw.random() < 0.95 else draw.bytes(24)
    out += frame(4, 0, 0, b"" if draw.random() < 0.8 else draw.bytes(6 * int(draw.integers(1, 20))))
    for _ in range(int(draw.integers(1, 12))):
        out += b"".join(_some_frames(draw, methods))
    return out


def _some_frames(draw: np.random.Generator, methods: Sequence[str]) -> Iterator[bytes]:
    stream = int(draw.choice([0, 1, 1, 3, 5, 2, 2**31 - 1]))
    kind, method = draw.integers(10), methods[int(draw.integers(len(methods)))]
    if kind == 0:
        yield frame(1, 0x4 | int(draw.integers(2)), stream, headers(method))
    elif kind == 1:  # a call whose message goes wrong
        call = 1 + 2 * int(draw.integers(50))
        yield frame(1, 0x4, call, headers(method))
        for message in messages(draw):
            data = grpc_message(message[:16000], draw)
            yield frame(0, int(draw.integers(2)), call, data[:16384])
    elif kind == 2:
        yield frame(1, 0x4, stream, _damaged_headers(method, draw))
    elif kind == 3:  # header blocks that never end
        yield frame(1, 0, stream, headers(method))
        yield from (frame(9, 0, stream, draw.bytes(50)) for _ in range(int(draw.integers(1, 60))))
    elif kind == 4:
        yield frame(8, 0, stream, int(draw.integers(2**32)).to_bytes(4, "big"))
    elif kind == 5:  # open and reset, again and again
        for call in range(1, 2 * int(draw.integers(1, 60)), 2):
            yield frame(1, 0x5, call, headers(method)) + frame(3, 0, call, (8).to_bytes(4, "big"))
    elif kind == 6:
        yield frame(6, 0, 0, draw.bytes(8)) * int(draw.integers(1, 60))
    elif kind == 7:
        yield frame(
            int(draw.integers(256)), int(draw.integers(256)), stream, draw.bytes(int(draw.integers(60)))
        )
    elif kind == 8:
        yield frame(0, 0, stream, draw.bytes(20), length=int(draw.integers(2**24)))
    else:  # a small message that becomes a large one
        call = 1 + 2 * int(draw.integers(50))
        yield frame(1, 0x4, call, headers(method, "gzip"))
        bomb = b"\x01" + len(BOMB).to_bytes(4, "big") + BOMB
        yield from (frame(0, 0, call, bomb[at : at + 16384]) for at in range(0, len(bomb), 16384))


def _damaged_headers(method: str, draw: np.random.Generator) -> bytes:
    """One in a hundred of those that are cut or changed keeps bytes that are no ASCII: such a path breaks
    grpc.aio's server, and the next one comes only after a pause."""
    block = damaged(headers(method), draw)
    return block if draw.random() < 0.01 else bytes(byte & 0x7F for byte in block)


def before_tls(draw: np.random.Generator) -> bytes:
    """What somebody sends who does not even speak TLS, or stops in the middle of it."""
    kind = draw.integers(4)
    if kind == 0:
        return draw.bytes(int(draw.integers(1, 400)))
    if kind == 1:
        return http2(draw)
    length = int(draw.integers(2**16))  # a record of a handshake: its header, then anything
    record = b"\x16\x03\x01" + length.to_bytes(2, "big") + b"\x01" + draw.bytes(int(draw.integers(400)))
    return record if kind == 2 else record[: draw.integers(len(record) + 1)]
