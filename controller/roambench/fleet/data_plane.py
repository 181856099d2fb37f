"""The data port: what an AP sends to devices and takes from them. Paced, counted, verified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from roambench.contract.ballast import ballast
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ModelError
from roambench.contract.model_blob import chunks, digest_of
from roambench.contract.orders import SyncOrder, TrainOrder, TransferOrder, UploadOrder, Vector
from roambench.contract.pacing import paced
from roambench.fleet.guard import Context, Guard
from roambench.fleet.model_shop import ModelShop
from roambench.fleet.outstanding import OutstandingOrder, OutstandingOrders
from roambench.wire.v1 import data_pb2 as wire
from roambench.wire.v1.methods import DATA_SERVICE


@dataclass(frozen=True, slots=True)
class DataPlane:
    """Download and Upload over raw bytes.

    A device downloads only the version its own outstanding order names, and uploads only for its own
    outstanding order. `device_of` maps a certificate's name to a device index (None: unknown).
    `transfer_limit_s` (host seconds) ends a transfer that stands still.
    """

    guard: Guard
    shop: ModelShop
    outstanding: OutstandingOrders
    device_of: Callable[[str], int | None]
    clock: DeviceClock
    refused: Callable[[str, str, str], None]  # (device name, kind, reason): for the journal
    transfer_limit_s: float

    def handlers(self) -> grpc.GenericRpcHandler:
        """Identity serialisers: a protobuf `bytes` field would copy every model twice more."""
        return grpc.method_handlers_generic_handler(
            DATA_SERVICE,
            {
                "Download": grpc.unary_stream_rpc_method_handler(self.download),
                "Upload": grpc.stream_unary_rpc_method_handler(self.upload),
            },
        )

    async def download(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        name = await self.guard.identify(context)
        try:
            wanted = wire.DownloadRequest.FromString(request)
        except DecodeError:
            await self._abort(context, name, grpc.StatusCode.INVALID_ARGUMENT, "request is not readable")
            return
        entry = self._entry(name, wanted.order_id)
        order = entry.order if entry is not None else None
        if isinstance(order, TransferOrder) and order.direction == "down":
            yield wire.DownloadHeader(total_bytes=order.total_bytes).SerializeToString()
            async for piece in paced(ballast(order.total_bytes, order.mbit_s), order.mbit_s, self.clock):
                yield piece
            return
        if not isinstance(order, TrainOrder | SyncOrder) or order.model_digest != wanted.digest.hex():
            await self._abort(
                context, name, grpc.StatusCode.PERMISSION_DENIED, "no outstanding order names this model"
            )
            return
        blob = self.shop.get(order.model_digest)
        if blob is None:
            await self._abort(context, name, grpc.StatusCode.NOT_FOUND, "this model version is gone")
            return
        yield wire.DownloadHeader(total_bytes=len(blob), digest=wanted.digest).SerializeToString()
        pieces = chunks(blob, order.download_mbit_s)
        async for chunk in paced(pieces, order.download_mbit_s, self.clock):
            yield chunk

    async def upload(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        name = await self.guard.identify(context)
        entry: OutstandingOrder | None = None
        try:
            async with asyncio.timeout(self.transfer_limit_s):
                header = await self._header(messages)
                entry = self._entry(name, header.order_id)
                self._admit(header, name, entry)
                assert entry is not None
                if isinstance(entry.order, TransferOrder):
                    await self._swallow(messages, header.total_bytes)
                    entry.uploads += 1
                    entry.refusal = ""
                    return wire.UploadReceipt(accepted=True).SerializeToString()
                blob = await self._receive(messages, header)
            # Beside the loop: 36 uploads of 2.6 MB are 70 ms of hashing and checking.
            entry.model = await asyncio.to_thread(self._verified, blob, header.digest.hex())
            entry.refusal = ""  # of an attempt that broke off when the agent died
        except (ModelError, TimeoutError) as error:
            reason = str(error) or f"not finished within {self.transfer_limit_s:.0f} s"
            self.refused(name, "upload refused", reason)
            if entry is not None and entry.model is None:
                entry.refusal = reason
            return wire.UploadReceipt(accepted=False, reason=reason).SerializeToString()
        return wire.UploadReceipt(accepted=True).SerializeToString()

    async def _header(self, messages: AsyncIterator[bytes]) -> wire.UploadHeader:
        async for message in messages:
            try:
                return wire.UploadHeader.FromString(message)
            except DecodeError:
                break
        raise ModelError("upload does not begin with a readable header")

    def _admit(self, header: wire.UploadHeader, name: str, entry: OutstandingOrder | None) -> None:
        """Refuse before reading what cannot be right: nobody fills the controller's memory."""
        if header.device != name:
            raise ModelError(f"upload claims to be of {header.device!r}")
        order = entry.order if entry is not None else None
        if isinstance(order, TransferOrder) and order.direction == "up":
            if header.total_bytes != order.total_bytes:
                raise ModelError(
                    f"upload announces {header.total_bytes} bytes of {order.total_bytes} ordered"
                )
            return
        if not isinstance(order, UploadOrder) or header.train_order_id != order.train_order_id:
            raise ModelError("no outstanding order asks for this upload")
        if header.ap != order.ap:
            raise ModelError(f"upload goes to AP {header.ap}, the order names AP {order.ap}")
        if header.total_bytes != self.shop.blob_bytes:
            raise ModelError(
                f"upload announces {header.total_bytes} bytes, a model of this run has {self.shop.blob_bytes}"
            )

    async def _receive(self, messages: AsyncIterator[bytes], header: wire.UploadHeader) -> bytes:
        pieces: list[bytes] = []
        received = 0
        async for chunk in messages:
            pieces.append(chunk)
            received += len(chunk)
            if received > header.total_bytes:
                raise ModelError(f"upload is longer than the {header.total_bytes} bytes it announced")
        if received != header.total_bytes:
            raise ModelError(f"upload ended after {received} of {header.total_bytes} bytes")
        return b"".join(pieces)

    async def _swallow(self, messages: AsyncIterator[bytes], total_bytes: int) -> None:
        """Count ballast and keep none of it."""
        received = 0
        async for piece in messages:
            received += len(piece)
            if received > total_bytes:
                break
        if received != total_bytes:
            raise ModelError(f"{received} bytes of ballast arrived, {total_bytes} were announced")

    def _verified(self, blob: bytes, digest: str) -> Vector:
        if digest_of(blob) != digest:
            raise ModelError("upload does not match its digest")
        return self.shop.accept(blob)

    def _entry(self, name: str, order_id: str) -> OutstandingOrder | None:
        device = self.device_of(name)
        return None if device is None else self.outstanding.get(order_id, device)

    async def _abort(self, context: Context, name: str, code: grpc.StatusCode, reason: str) -> None:
        self.refused(name, "download refused", reason)
        await context.abort(code, reason)
