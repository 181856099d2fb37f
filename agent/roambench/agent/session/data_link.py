"""The data port as an agent uses it: download a model version from an AP, upload a trained model to one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from roambench.agent.board_load import REAL_RADIO, RadioLoad
from roambench.agent.session.transfer_stamps import TransferStamps
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.model_blob import MAX_BLOB_BYTES, chunks
from roambench.contract.model_digest import from_wire, names, to_wire
from roambench.contract.pacing import paced, padding
from roambench.contract.phases import Moved
from roambench.contract.whole_file import take_place
from roambench.wire.v1 import data_pb2 as wire
from roambench.wire.v1.methods import DOWNLOAD, MAX_SHARD_BYTES, UPLOAD

#: What the controller means by these will not change within an order; all others are the way there.
_FINAL: Final = frozenset(
    (
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    )
)


class BrokeOff(LinkError):
    """The connection broke in the middle of a transfer, or there was none: it may be begun again."""


class TimeIsUp(BrokeOff):
    """A transfer broke off because its time was up."""


@dataclass(frozen=True, slots=True)
class ModelTransfer:
    """The model bytes that one transfer moved, how long it lasted in device time, when its first and last
    bytes moved (an upload's: were taken by the link), and where it stalled."""

    moved: Moved
    duration_s: float

    @property
    def transferred_bytes(self) -> int:
        """Bytes that crossed the link, either way."""
        return self.moved.transferred_bytes


class DataLink:
    """Downloads and uploads over one channel. No serialiser touches the model's bytes. The LinkError of a
    transfer is BrokeOff where another attempt may go better.

    A call waits for a connection (36 agents shake hands at once when a step opens), at most `limit_s` host
    seconds for the whole transfer.
    """

    def __init__(self, channel: grpc.aio.Channel, device: str, clock: DeviceClock) -> None:
        self._device = device
        self._clock = clock
        self._download: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(DOWNLOAD)
        self._upload: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(UPLOAD)

    async def download(
        self,
        order_id: str,
        ap: int,
        digest: str,
        limit_s: float,
        radio: RadioLoad = REAL_RADIO,
        *,
        coded: bool = False,
    ) -> tuple[bytes, ModelTransfer]:
        """The blob of version `digest` of AP `ap`; `radio` begins when its first bytes come. One that is
        `coded` has another digest, which comes with its length.

        Raises ModelError when it is oversize, truncated or not what its digest says, LinkError when the
        transfer breaks off.
        """
        request = wire.DownloadRequest(device=self._device, order_id=order_id, ap=ap, digest=to_wire(digest))
        started_ns = self._clock.now_ns()
        pieces: list[bytes] = []
        received = 0
        total: int | None = None
        stamps = TransferStamps(self._clock)
        try:
            call = self._download(request.SerializeToString(), timeout=limit_s, wait_for_ready=True)
            async for message in call:
                if total is None:
                    # A chunk is handed over when its last bit is due: its first came with the header.
                    first_byte_ns = stamps.note()
                    total = _announced_bytes(message)
                    if coded:
                        digest = from_wire(wire.DownloadHeader.FromString(message).digest)
                    radio.begin(first_byte_ns, total)
                    continue
                stamps.note()
                pieces.append(message)
                received += len(message)
                if received > total:
                    raise ModelError(f"download of {order_id}: more bytes than the {total} announced")
        except grpc.aio.AioRpcError as error:
            raise _broken(error, f"download of {order_id}") from None
        if total is None or received != total:
            raise ModelError(f"download of {order_id}: got {received} of {total} bytes")
        ended_ns = self._clock.now_ns()  # joining and hashing is no part of the link's time
        blob = b"".join(pieces)
        # Beside the loop: hashing takes some ms on a Pi.
        if not await asyncio.to_thread(names, digest, blob):
            raise ModelError(f"download of {order_id}: the digest does not match")
        return blob, ModelTransfer(stamps.moved(len(blob)), (ended_ns - started_ns) * 1e-9)

    async def upload(
        self,
        order_id: str,
        train_order_id: str,
        ap: int,
        blob: bytes,
        digest: str,
        mbit_s: float,
        limit_s: float,
        radio: RadioLoad = REAL_RADIO,
    ) -> ModelTransfer:
        """Send `blob` (whose digest the trainer computed) of `train_order_id` to AP `ap`; `radio` begins with
        its first byte.

        Raises ModelError when the AP refuses it, LinkError when the transfer breaks off.
        """
        header = wire.UploadHeader(
            device=self._device,
            order_id=order_id,
            train_order_id=train_order_id,
            ap=ap,
            total_bytes=len(blob),
            digest=to_wire(digest),
        )

        return await self._send(header, chunks(blob, mbit_s), mbit_s, limit_s, radio)

    async def fetch_padding(
        self,
        order_id: str,
        total_bytes: int,
        limit_s: float,
        radio: RadioLoad = REAL_RADIO,
    ) -> ModelTransfer:
        """Download padding and keep none of it: nothing is joined or hashed, the link is what is measured.

        Raises ModelError when it is not as long as ordered, LinkError when the transfer breaks off.
        """
        request = wire.DownloadRequest(device=self._device, order_id=order_id)
        started_ns = self._clock.now_ns()
        received = -1  # the header comes first
        stamps = TransferStamps(self._clock)
        try:
            call = self._download(request.SerializeToString(), timeout=limit_s, wait_for_ready=True)
            async for message in call:
                noted_ns = stamps.note()
                if received < 0:
                    received = 0
                    radio.begin(noted_ns, total_bytes)
                    continue
                received += len(message)
        except grpc.aio.AioRpcError as error:
            raise _broken(error, f"download of {order_id}") from None
        if received != total_bytes:
            raise ModelError(f"download of {order_id}: got {max(received, 0)} of {total_bytes} bytes")
        ended_ns = self._clock.now_ns()
        return ModelTransfer(stamps.moved(received), (ended_ns - started_ns) * 1e-9)

    async def fetch_shard(self, digest: str, path: Path, patience_s: float) -> None:
        """Write the device's own data, whose SHA-256 is `digest`, to `path` (whole or not at all).

        Raises ModelError when it is not what its digest says, LinkError when the transfer breaks off or
        nothing comes for `patience_s` host seconds: a slow link may take as long as it needs.
        """
        request = wire.DownloadRequest(device=self._device, digest=bytes.fromhex(digest), shard=True)
        unfinished = path.with_name(path.name + ".part")
        hasher, received = hashlib.sha256(), -1  # the header comes first
        try:
            with unfinished.open("wb") as file:
                async with AwakeTimeout(patience_s) as patience:
                    async for message in self._download(request.SerializeToString(), wait_for_ready=True):
                        patience.restart()
                        if received < 0:
                            received = 0
                            continue
                        received += len(message)
                        if received > MAX_SHARD_BYTES:
                            raise ModelError(f"shard {digest[:12]}: longer than {MAX_SHARD_BYTES} bytes")
                        hasher.update(message)
                        file.write(message)
            if hasher.hexdigest() != digest:
                raise ModelError(
                    f"shard {digest[:12]}: the digest of {max(received, 0)} bytes does not match"
                )
            await asyncio.to_thread(take_place, unfinished, path)
        except TimeoutError:
            raise BrokeOff(
                f"download of shard {digest[:12]} broke off: nothing came for {patience_s:g} s"
            ) from None
        except grpc.aio.AioRpcError as error:
            raise _broken(error, f"download of shard {digest[:12]}") from None
        finally:
            unfinished.unlink(missing_ok=True)

    async def send_padding(
        self,
        order_id: str,
        total_bytes: int,
        mbit_s: float,
        limit_s: float,
        radio: RadioLoad = REAL_RADIO,
    ) -> ModelTransfer:
        """Upload padding; raises as `upload` does."""
        header = wire.UploadHeader(device=self._device, order_id=order_id, total_bytes=total_bytes)
        return await self._send(header, padding(total_bytes, mbit_s), mbit_s, limit_s, radio)

    async def _send(
        self,
        header: wire.UploadHeader,
        pieces: Iterable[bytes],
        mbit_s: float,
        limit_s: float,
        radio: RadioLoad,
    ) -> ModelTransfer:
        """The header and `pieces`, paced; raises as `upload` does."""
        stamps = TransferStamps(self._clock)  # when the link had taken a chunk

        async def messages() -> AsyncIterator[bytes]:
            yield header.SerializeToString()
            radio.begin(stamps.note(), header.total_bytes)
            async for piece in paced(pieces, mbit_s, self._clock):
                yield piece
                stamps.note()

        started_ns = self._clock.now_ns()
        try:
            answer = await self._upload(messages(), timeout=limit_s, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise _broken(error, f"upload of {header.order_id}") from None
        _check_receipt(answer, header.order_id)
        duration_s = (self._clock.now_ns() - started_ns) * 1e-9
        return ModelTransfer(stamps.moved(header.total_bytes), duration_s)


def _broken(error: grpc.aio.AioRpcError, what: str) -> LinkError:
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimeIsUp(f"{what} was not done in time: {error.details()}")
    made = LinkError if error.code() in _FINAL else BrokeOff
    return made(f"{what} broke off: {error.details()}")


def _check_receipt(answer: bytes, order_id: str) -> None:
    receipt = wire.UploadReceipt.FromString(answer)
    if not receipt.accepted:
        raise ModelError(f"upload of {order_id} refused: {receipt.reason}")


def _announced_bytes(message: bytes) -> int:
    header = wire.DownloadHeader.FromString(message)
    if header.total_bytes > MAX_BLOB_BYTES:
        raise ModelError(f"a model of {header.total_bytes} bytes is announced, the limit is {MAX_BLOB_BYTES}")
    return int(header.total_bytes)
