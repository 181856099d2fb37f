"""The data port: what an AP sends to devices and takes from them. Paced, counted, verified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.events import EventKind
from roambench.contract.model_blob import (
    BULK_CHUNK_BYTES,
    LEAST_CHUNK_BYTES,
    SESSION_BYTES,
    chunks,
    fits_session,
)
from roambench.contract.model_digest import from_wire, names, to_wire
from roambench.contract.orders import (
    ExchangeOrder,
    ProgramOrder,
    SyncOrder,
    Task,
    TrainOrder,
    TransferOrder,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.contract.pacing import paced, padding
from roambench.contract.session import ModelReceipt, ModelReply, ModelRequest, ModelUpload
from roambench.fleet.guard import Context, Guard
from roambench.fleet.limits import Allowances
from roambench.fleet.model_registry import ModelRegistry
from roambench.fleet.outstanding import OutstandingOrder, OutstandingOrders
from roambench.fleet.shards import ShippedShard
from roambench.fleet.traced_grpc import grpc
from roambench.wire.server import first_request
from roambench.wire.v1 import data_pb2 as wire
from roambench.wire.v1.methods import DATA_SERVICE

_SHARD_LIMIT_S = 1800.0  # host seconds for a device's data, on the slowest of radios
_PIECES_BEYOND = 16  # ends of chunks, empty messages
_NO_MODEL: Final = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class DataPlane:
    """Download and Upload over raw bytes, and Hold; the same of small models within sessions.

    A device downloads only the version its own outstanding order names and its own shard (of `shards`, by
    device; before a run), and uploads only for its own outstanding order. `device_of` maps a certificate's
    name to a device index (None: unknown).
    `transfer_limit_s` (host seconds) ends a transfer that stands still. A device's rates and numbers are
    held by `allowances`.
    """

    guard: Guard
    registry: ModelRegistry
    outstanding: OutstandingOrders
    device_of: Callable[[str], int | None]
    clock: DeviceClock
    refused: Callable[[str, EventKind, str], None]  # (device name, kind, reason): for the journal
    transfer_limit_s: float
    allowances: Allowances
    shards: Mapping[int, ShippedShard] = field(default_factory=dict)
    _held: dict[str, list[asyncio.Event]] = field(default_factory=dict)

    def handlers(self) -> grpc.GenericRpcHandler:
        """Identity serialisers: a protobuf `bytes` field would copy every model twice more."""
        return grpc.method_handlers_generic_handler(
            DATA_SERVICE,
            {
                "Download": grpc.stream_stream_rpc_method_handler(self.download),
                "Upload": grpc.stream_unary_rpc_method_handler(self.upload),
                "Hold": grpc.stream_unary_rpc_method_handler(self.hold),
            },
        )

    async def hold(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """Nothing moves: as long as it is open its connection is an agent's, and not idle. A device's newest
        take the place of its oldest, whose connection may be dead."""
        async with self.guard.admitted(context, "Hold") as name:
            held, over = self._held.setdefault(name, []), asyncio.Event()
            held.append(over)
            if len(held) >= self.allowances.limits.calls_at_once:
                held[0].set()
            try:
                await over.wait()
            finally:
                held.remove(over)
        return b""

    def let_go(self) -> None:
        """End the calls that hold connections."""
        for held in self._held.values():
            for over in held:
                over.set()

    async def download(self, messages: AsyncIterator[bytes], context: Context) -> None:
        """The call by which an agent fetches a model."""
        async with self.guard.admitted(context, "Download") as name:
            try:
                request = await first_request(messages, self.allowances.limits.request_s)
                wanted = wire.DownloadRequest.FromString(request)
            except LinkError as error:
                await self._abort(context, name, grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
                return
            except DecodeError:
                await self._abort(context, name, grpc.StatusCode.INVALID_ARGUMENT, "request is not readable")
                return
            send = self._send_shard if wanted.shard else self._send_model
            limit_s = max(self.transfer_limit_s, _SHARD_LIMIT_S) if wanted.shard else self.transfer_limit_s
            try:
                async with AwakeTimeout(limit_s):
                    await send(name, wanted, context)
            except TimeoutError:
                reason = f"not finished within {limit_s:.0f} s"
                await self._abort(context, name, grpc.StatusCode.DEADLINE_EXCEEDED, reason)

    async def _send_model(self, name: str, wanted: wire.DownloadRequest, context: Context) -> None:
        entry = self._entry(name, wanted.order_id)
        order = entry.order if entry is not None else None
        denied = grpc.StatusCode.PERMISSION_DENIED
        try:
            await self._count(name, entry)
        except ModelError as error:
            await self._abort(context, name, denied, str(error))
        if isinstance(order, TransferOrder) and not order.upload:
            await context.write(wire.DownloadHeader(total_bytes=order.total_bytes).SerializeToString())
            async for piece in paced(padding(order.total_bytes, order.mbit_s), order.mbit_s, self.clock):
                await context.write(piece)
            return
        digest = from_wire(wanted.digest)
        try:
            blob, mbit_s = self._offered(order, digest)
        except ModelError as error:
            await self._abort(context, name, denied, str(error))
            return
        header = wire.DownloadHeader(total_bytes=len(blob), digest=to_wire(self.registry.sent(digest)))
        await context.write(header.SerializeToString())
        async for chunk in paced(chunks(blob, mbit_s), mbit_s, self.clock):
            await context.write(chunk)

    def requested(self, name: str, request: ModelRequest) -> ModelReply:
        """The reply to a session that asks for a model."""
        entry = self._entry(name, request.order_id)
        try:
            if entry is not None:
                self._count_transfer(entry)
            blob, mbit_s = self._offered(entry.order if entry is not None else None, request.digest)
            if not fits_session(len(blob), mbit_s):
                raise ModelError("this model travels over the data port")
        except ModelError as error:
            self.refused(name, EventKind.DOWNLOAD_REFUSED, str(error))
            return ModelReply(request.order_id, request.digest, refusal=str(error))
        return ModelReply(request.order_id, request.digest, self.registry.sent(request.digest), blob)

    def _offered(self, order: Task | TransferOrder | None, digest: str) -> tuple[bytes, float]:
        """The blob that the order names by this digest, and the rate of its way (Mbit/s); ModelError where
        there is none."""
        if (
            not isinstance(order, TrainOrder | ProgramOrder | SyncOrder | ExchangeOrder)
            or digest not in order.model_digests
        ):
            raise ModelError("no outstanding order names this model")
        if (blob := self.registry.get(digest)) is None:
            raise ModelError("this model version is gone")
        return blob, order.download_mbit_s

    async def _count(self, name: str, entry: OutstandingOrder | None) -> None:
        """Hold a device to its rate where nothing was ordered, and to a number where something was.

        What is ordered is never made to wait: its duration is what a bench measures.
        """
        if entry is None:
            await self.allowances.of(name).call()
        else:
            self._count_transfer(entry)

    def _count_transfer(self, entry: OutstandingOrder) -> None:
        entry.transfers += 1
        order = entry.order
        expected = order.repeats if isinstance(order, TransferOrder) else 2
        if entry.transfers > expected + self.allowances.limits.transfers_beyond:
            raise ModelError(f"moved {entry.transfers - 1} times for one order")

    async def _send_shard(self, name: str, wanted: wire.DownloadRequest, context: Context) -> None:
        """The device's own data, as fast as the network goes."""
        await self.allowances.of(name).call()
        device = self.device_of(name)
        shard = None if device is None else self.shards.get(device)
        if shard is None or shard.digest != wanted.digest.hex():
            await self._abort(context, name, grpc.StatusCode.PERMISSION_DENIED, "this is not its shard")
            return
        header = wire.DownloadHeader(total_bytes=shard.path.stat().st_size, digest=wanted.digest)
        await context.write(header.SerializeToString())
        with shard.path.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, BULK_CHUNK_BYTES):
                await context.write(piece)

    async def upload(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """The call by which an agent hands over a model."""
        async with self.guard.admitted(context, "Upload") as name:
            return await self._upload(messages, name, context)

    async def _upload(self, messages: AsyncIterator[bytes], name: str, context: Context) -> bytes:
        """The receipt. A refusal is of what arrived; what did not arrive is a broken link, and the device may
        begin again."""
        entry: OutstandingOrder | None = None
        try:
            async with AwakeTimeout(self.transfer_limit_s):
                header = await self._header(messages)
                entry = self._entry(name, header.order_id)
                await self._count(name, entry)
                if header.device != name:
                    raise ModelError(f"upload claims to be of {header.device!r}")
                asked = self._admit(header, header.total_bytes, entry)
                assert entry is not None
                began_ns = self.clock.now_ns()
                if isinstance(asked, TransferOrder):
                    await self._swallow(messages, header.total_bytes)
                    entry.uploads += 1
                    entry.refusal = ""
                    return wire.UploadReceipt(accepted=True).SerializeToString()
                blob = await self._receive(messages, header)
            lasted_s = (self.clock.now_ns() - began_ns) * 1e-9
            digest = from_wire(header.digest)
            verify = partial(self._verified, asked, blob, digest)
            # 36 uploads of 2.6 MB are 70 ms of hashing and checking; to a thread and back is 0.1 ms.
            arrived = verify() if len(blob) <= SESSION_BYTES else await asyncio.to_thread(verify)
            if self._entry(name, header.order_id) is not entry:
                raise LinkError(
                    "the order's time is up: this model is not awaited any more"
                )  # its device keeps it
            moved = (0, 0.0) if asked.free else (len(blob), lasted_s)
            _arrive(entry, arrived, digest, *moved)
        except (LinkError, TimeoutError) as error:
            reason = str(error) or f"not finished within {self.transfer_limit_s:.0f} s"
            self.refused(name, EventKind.UPLOAD_BROKE_OFF, reason)
            await context.abort(grpc.StatusCode.ABORTED, reason)
        except ModelError as error:
            reason = self._refuse(name, entry, error)
            return wire.UploadReceipt(accepted=False, reason=reason).SerializeToString()
        return wire.UploadReceipt(accepted=True).SerializeToString()

    def uploaded(self, name: str, upload: ModelUpload) -> ModelReceipt:
        """The receipt of a model that a session brings."""
        entry, blob = self._entry(name, upload.order_id), upload.blob
        try:
            if entry is not None:
                self._count_transfer(entry)
            asked = self._admit(upload, len(blob), entry)
            assert entry is not None
            if isinstance(asked, TransferOrder) or not fits_session(len(blob), asked.upload_mbit_s):
                raise ModelError("this upload travels over the data port")
            arrived = self._verified(asked, blob, upload.digest)
            _arrive(entry, arrived, upload.digest, 0 if asked.free else len(blob), 0.0)
        except ModelError as error:
            refusal = self._refuse(name, entry, error)
            return ModelReceipt(upload.order_id, upload.digest, refusal)
        return ModelReceipt(upload.order_id, upload.digest)

    def _refuse(self, name: str, entry: OutstandingOrder | None, error: ModelError) -> str:
        reason = str(error)
        self.refused(name, EventKind.UPLOAD_REFUSED, reason)
        if entry is not None and entry.received is None:
            entry.refusal = reason
        return reason

    async def _header(self, messages: AsyncIterator[bytes]) -> wire.UploadHeader:
        try:
            return wire.UploadHeader.FromString(
                await first_request(messages, self.allowances.limits.request_s)
            )
        except DecodeError:
            raise ModelError("upload does not begin with a readable header") from None

    def _admit(
        self, upload: wire.UploadHeader | ModelUpload, total_bytes: int, entry: OutstandingOrder | None
    ) -> UploadOrder | TransferOrder:
        """Refuse before reading what cannot be right: no caller fills the controller's memory."""
        order = entry.order if entry is not None else None
        if isinstance(order, TransferOrder) and order.upload:
            if total_bytes != order.total_bytes:
                raise ModelError(f"upload announces {total_bytes} bytes of {order.total_bytes} ordered")
            return order
        if not isinstance(order, UploadOrder) or upload.train_order_id != order.train_order_id:
            raise ModelError("no outstanding order asks for this upload")
        if upload.ap != order.ap:
            raise ModelError(f"upload goes to AP {upload.ap}, the order names AP {order.ap}")
        self.registry.admit(order, total_bytes)
        return order

    async def _receive(self, messages: AsyncIterator[bytes], header: wire.UploadHeader) -> bytes:
        pieces: list[bytes] = []
        received = 0
        async for chunk in messages:
            pieces.append(chunk)
            received += len(chunk)
            _refuse_tiny_pieces(len(pieces), header.total_bytes)
            if received > header.total_bytes:
                raise ModelError(f"upload is longer than the {header.total_bytes} bytes it announced")
        if received != header.total_bytes:
            raise LinkError(f"upload ended after {received} of {header.total_bytes} bytes")
        return b"".join(pieces)

    async def _swallow(self, messages: AsyncIterator[bytes], total_bytes: int) -> None:
        """Count padding and keep none of it."""
        received = pieces = 0
        async for piece in messages:
            received += len(piece)
            pieces += 1
            _refuse_tiny_pieces(pieces, total_bytes)
            if received > total_bytes:
                raise ModelError(f"more than the {total_bytes} bytes of padding arrive that were announced")
        if received != total_bytes:
            raise LinkError(f"{received} bytes of padding arrived, {total_bytes} were announced")

    def _verified(self, order: UploadOrder, blob: bytes, digest: str) -> Vector | bytes:
        if not names(digest, blob):
            raise ModelError("upload does not match its digest")
        return self.registry.accept(order, blob)

    def _entry(self, name: str, order_id: str) -> OutstandingOrder | None:
        device = self.device_of(name)
        return None if device is None else self.outstanding.get(order_id, device)

    async def _abort(self, context: Context, name: str, code: grpc.StatusCode, reason: str) -> None:
        self.refused(name, EventKind.DOWNLOAD_REFUSED, reason)
        await context.abort(code, reason)


def _arrive(
    entry: OutstandingOrder, arrived: Vector | bytes, digest: str, moved_bytes: int, lasted_s: float
) -> None:
    if isinstance(arrived, bytes):
        entry.received = UploadReply(_NO_MODEL, digest, moved_bytes, lasted_s, arrived)
    else:
        entry.received = UploadReply(arrived, digest, moved_bytes, lasted_s)
    entry.refusal = ""  # of an attempt that broke off when the agent died


def _refuse_tiny_pieces(pieces: int, total_bytes: int) -> None:
    """A million messages of a byte would cost a hundred times the memory of what they carry."""
    if pieces > total_bytes // LEAST_CHUNK_BYTES + _PIECES_BEYOND:
        raise ModelError(f"upload comes in more pieces than {total_bytes} bytes need")
