"""Pulls half-step models from neighbours' peer ports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from roambench.agent.peers.inbox import Inbox, Parcel, Receipt
from roambench.agent.peers.offers import OfferState, WantedHalfStep
from roambench.agent.peers.radio import RadioPace, Receiving
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.model_digest import from_wire
from roambench.identity.authority import Credential
from roambench.wire.v1 import peer_pb2 as wire
from roambench.wire.v1.methods import ASK, MAX_DATA_MESSAGE_BYTES, PULL, channel_options

#: Between two attempts at a neighbour that cannot be reached, or whose connection broke, host seconds.
_RETRY_S: Final = 0.3
#: Host seconds after which a neighbour that cannot be reached is gone. Holes are shorter.
_PATIENCE_S: Final = 60.0
#: What gRPC says where nothing listens, or another one does; so often in a row, the neighbour is gone.
_NOWHERE: Final = ("Connection refused", "Tls handshake failed", "verification check failed")
_MOST_NOWHERE: Final = 3
#: Host seconds for a neighbour to say how it stands; then it is asked again.
_ASK_S: Final = 5.0


class PullFailed(LinkError):
    """No model came from a neighbour. `kind` is "late", "lost" or "refused"."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(slots=True)
class UnansweredCalls:
    """The calls to a neighbour that got no answer, until it is known to be gone."""

    nowhere: int = 0
    since_s: float = 0.0  # host monotonic; 0: the last call reached it

    def answered(self) -> None:
        """The neighbour has answered: count silence from zero."""
        self.nowhere, self.since_s = 0, 0.0

    def gone(self, error: grpc.aio.AioRpcError) -> bool:
        """Return whether it is gone, now that this call broke off, too."""
        now_s = time.monotonic()
        self.since_s = self.since_s or now_s
        details = error.details() or ""
        self.nowhere = self.nowhere + 1 if any(word in details for word in _NOWHERE) else 0
        return self.nowhere >= _MOST_NOWHERE or now_s - self.since_s >= _PATIENCE_S


class PeerLink:
    """Channels to the neighbours of an iteration. Each must prove the name that the controller gave."""

    def __init__(self, credential: Credential, *, keepalive: bool = True) -> None:
        self._credential = credential
        self._keepalive = keepalive
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}

    async def keep_only(self, neighbours: Collection[tuple[str, str]]) -> None:
        """Close the channels to all but these (name, address)."""
        gone = [self._channels.pop(key) for key in list(self._channels) if key not in neighbours]
        await asyncio.gather(*(channel.close() for channel in gone))

    async def close(self) -> None:
        """Close the connections to all neighbours."""
        await self.keep_only(())

    async def pull(
        self,
        name: str,
        address: str,
        wanted: WantedHalfStep,
        limit_s: float,
        inbox: Inbox,
        pace: RadioPace,
        coming: Receiving,
        receipt: Receipt,
    ) -> tuple[Parcel, str]:
        """The model of `name`, whole but not checked, and the digest it was announced with. A connection that
        breaks costs what had come over it, and no more: it is asked again until it is known to be gone.

        `coming` begins with the sender's pace when the bytes do; every piece is counted in `receipt`, so that
        the bytes that came are known however the pull ends. Raises PullFailed after `limit_s` host seconds at
        most, and ModelError for bytes that are no such stream.
        """
        silence = UnansweredCalls()
        try:
            async with AwakeTimeout(limit_s):
                while True:
                    parcels: list[Parcel] = []
                    try:
                        return await self._pull_once(
                            name, address, wanted, limit_s, inbox, pace, coming, receipt, parcels
                        )
                    except BaseException as error:
                        for parcel in parcels:
                            parcel.close()
                        if not isinstance(error, grpc.aio.AioRpcError):
                            raise
                        if parcels:
                            silence.answered()
                        if error.code() is not grpc.StatusCode.UNAVAILABLE or silence.gone(error):
                            raise PullFailed(_kind(error.code()), error.details() or "") from None
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError:
            pass
        raise PullFailed("late", f"not there within {limit_s:.1f} s")

    async def ask(
        self, name: str, address: str, wanted: WantedHalfStep, silence: UnansweredCalls
    ) -> OfferState | None:
        """Ask how it stands with our model at `name`; None: no answer. A neighbour that is gone, or does not
        answer such questions, takes no model.

        One that does not answer in time is slow as long as the connection stands: keepalive ends a dead one,
        in quiet runs the kernel does.
        """
        channel = self._channel(name, address)
        method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(ASK)
        call = method(timeout=_ASK_S)
        try:
            await call.write(_request(wanted))
            await call.done_writing()
            async for message in call:
                silence.answered()
                kind = int(wire.Standing.FromString(message).kind)
                return next((stands for stands in OfferState if stands == kind), None)
        except grpc.aio.AioRpcError as error:
            late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            if late and channel.get_state() is grpc.ChannelConnectivity.READY:
                silence.answered()
                return None
            reached = error.code() not in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.CANCELLED,
                grpc.StatusCode.INTERNAL,  # gRPC's own, where the call ended while this end still wrote
            )
            return OfferState.NEVER if reached or silence.gone(error) else None
        except (asyncio.InvalidStateError, DecodeError):
            pass
        finally:
            call.cancel()
        return None

    async def _pull_once(
        self,
        name: str,
        address: str,
        wanted: WantedHalfStep,
        limit_s: float,
        inbox: Inbox,
        pace: RadioPace,
        coming: Receiving,
        receipt: Receipt,
        parcels: list[Parcel],
    ) -> tuple[Parcel, str]:
        method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel(name, address).stream_stream(
            PULL
        )
        call = method(timeout=limit_s)
        digest = ""
        try:
            await call.write(_request(wanted))
            async for message in call:
                if not parcels:
                    header = _header(message)
                    parcels.append(inbox.parcel(header.total_bytes))
                    digest = from_wire(header.digest)
                    coming.begin(header.mbit_s)
                else:
                    receipt.received_bytes += len(message)
                    parcels[0].add(message)
                    await pace.receive(len(message))
                if parcels[0].whole:
                    await call.write(b"")
                    await call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            if not parcels or not parcels[0].whole:
                raise
        finally:
            call.cancel()
        if not parcels:
            raise ModelError("nothing came")
        return parcels[0], digest

    def _channel(self, name: str, address: str) -> grpc.aio.Channel:
        channel = self._channels.get((name, address))
        if channel is None:
            channel = self._channels[name, address] = self._dial(name, address)
        return channel

    def _dial(self, name: str, address: str) -> grpc.aio.Channel:
        return grpc.aio.secure_channel(
            address,
            grpc.ssl_channel_credentials(
                self._credential.authority_pem, self._credential.key_pem, self._credential.certificate_pem
            ),
            options=[
                *channel_options(MAX_DATA_MESSAGE_BYTES, keepalive=self._keepalive),
                ("grpc.ssl_target_name_override", name),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 10_000),  # how long one attempt may take
                ("grpc.max_reconnect_backoff_ms", 1_000),
            ],
        )


def _request(wanted: WantedHalfStep) -> bytes:
    return wire.PullRequest(run_id=wanted.run_id, step=wanted.step).SerializeToString()


def _header(message: bytes) -> wire.PullHeader:
    try:
        return wire.PullHeader.FromString(message)
    except DecodeError:
        raise ModelError("the stream does not begin with a readable header") from None


def _kind(code: grpc.StatusCode) -> str:
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return "late"
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED | grpc.StatusCode.UNKNOWN:
            return "lost"
        case _:
            return "refused"
