"""Names and limits of the wire's methods: both ends build their gRPC handlers from these."""

from __future__ import annotations

from typing import Final

#: Raised by one whenever an old agent could misunderstand a new controller, or the other way round.
PROTOCOL_VERSION: Final = 8

CONTROL_SERVICE: Final = "roambench.wire.v1.Control"
SESSION: Final = f"/{CONTROL_SERVICE}/Session"
DRAIN: Final = f"/{CONTROL_SERVICE}/Drain"

DATA_SERVICE: Final = "roambench.wire.v1.Data"
DOWNLOAD: Final = f"/{DATA_SERVICE}/Download"
UPLOAD: Final = f"/{DATA_SERVICE}/Upload"
#: A call that stays open and moves nothing: an agent's connection without one is ended as idle.
HOLD: Final = f"/{DATA_SERVICE}/Hold"

PEER_SERVICE: Final = "roambench.wire.v1.Peer"
PULL: Final = f"/{PEER_SERVICE}/Pull"
ASK: Final = f"/{PEER_SERVICE}/Ask"

#: gRPC's own 4 MB default is replaced on purpose: control frames are small; a data message is one piece of
#: a model, at most `contract.model_blob.BULK_CHUNK_BYTES`.
MAX_CONTROL_MESSAGE_BYTES: Final = 4 * 1024 * 1024
MAX_DATA_MESSAGE_BYTES: Final = 5 * 1024 * 1024
#: A device's own training data: more would not fit a Pi's memory either.
MAX_SHARD_BYTES: Final = 512 * 1024 * 1024
MAX_PULL_REQUEST_BYTES: Final = 4096

#: A dead peer is noticed within about 20 s outside measured phases; gRPC's default hides it for a minute.
KEEPALIVE_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


#: For runs whose measured phases must be silent. Without keepalive gRPC still pings after having received
#: data, to size its flow control (39 bytes each way, seconds later); a fixed window of 8 MiB needs no pings.
QUIET_OPTIONS: Final = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 8 * 1024 * 1024))
#: Who dials learns without a ping that nothing gets through: what it sent is not acknowledged (gRPC sets
#: TCP_USER_TIMEOUT). The time between pings is 24 days: gRPC takes more for "no timeout, either".
QUIET_CHANNEL_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 2**31 - 2),
    ("grpc.keepalive_timeout_ms", 20_000),
)
#: Who is dialled waits for as long as TCP does: who only listens would never learn of an end.
QUIET_SERVER_OPTIONS: Final = (("grpc.keepalive_time_ms", 2**31 - 1),)


def channel_options(
    max_message_bytes: int, *, keepalive: bool = True, server: bool = False
) -> list[tuple[str, int]]:
    """Options of a channel or `server` that carries messages of at most `max_message_bytes`.

    Without `keepalive` it sends no pings of any kind.
    """
    quiet = (*QUIET_OPTIONS, *(QUIET_SERVER_OPTIONS if server else QUIET_CHANNEL_OPTIONS))
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.enable_http_proxy", 0),  # a bench's own network: what http_proxy names does not lead there
        *(KEEPALIVE_OPTIONS if keepalive else quiet),
    ]
