"""Carries out orders that only move bytes: a trained model up, the global model down, ballast either way."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from roambench.agent.shelf import Shelf
from roambench.agent.workplace import Workplace
from roambench.contract.model_blob import MAX_BLOB_BYTES
from roambench.contract.phases import Phase
from roambench.wire.v1 import control_pb2 as wire


@dataclass(frozen=True, slots=True)
class TransferOrders:
    place: Workplace
    shelf: Shelf

    async def upload(self, order: wire.Order) -> wire.Answer:
        """The trained model, from the shelf; it leaves the shelf when the controller has it."""
        place, spec, order_id = self.place, order.upload, order.order_id
        model = self.shelf.trained()
        if model is None or model.order_id != spec.train_order_id:
            return wire.Answer(
                status=wire.Answer.REFUSED, reason=f"no trained model of {spec.train_order_id} on disk"
            )
        await place.fall_quiet()
        place.event("upload started", order_id)
        place.timeline.enter(
            Phase.UPLOAD,
            order.step,
            order_id=order_id,
            train_order_id=spec.train_order_id,
            mbit_s=spec.upload_mbit_s,
        )
        blob = model.path.read_bytes()
        place.moving(len(blob), spec.upload_mbit_s)
        sent = await place.link().upload(
            order_id,
            spec.train_order_id,
            spec.ap,
            blob,
            model.reply.model_digest,
            spec.upload_mbit_s,
            place.limit_s(order),
        )
        place.timeline.enter(Phase.WAIT, order.step, transferred_bytes=sent.transferred_bytes)
        # Only now: the controller has it, digest checked.
        self.shelf.release(spec.train_order_id, as_own=spec.keeps_model)
        report = wire.UploadReport(
            uploaded_bytes=sent.transferred_bytes,
            upload_s=sent.duration_s,
            model_digest=bytes.fromhex(model.reply.model_digest),
        )
        return wire.Answer(status=wire.Answer.DONE, upload=report)

    async def sync(self, order: wire.Order) -> wire.Answer:
        """The global model, to the shelf."""
        place, spec = self.place, order.sync
        if spec.free:
            return await self._sync_for_free(order)
        await place.fall_quiet()
        place.event("download started", order.order_id)
        blob, download = await place.download(order, spec.ap, spec.digest, spec.download_mbit_s)
        place.timeline.enter(Phase.WAIT, order.step, transferred_bytes=download.transferred_bytes)
        await asyncio.to_thread(self.shelf.synchronise, blob)
        report = wire.SyncReport(downloaded_bytes=download.transferred_bytes, download_s=download.duration_s)
        return wire.Answer(status=wire.Answer.DONE, sync=report)

    async def _sync_for_free(self, order: wire.Order) -> wire.Answer:
        """The same in a waiting phase: a reading of the papers in which this is no communication."""
        place, spec = self.place, order.sync
        place.timeline.enter(Phase.WAIT, order.step)
        blob, _ = await place.link().download(
            order.order_id, spec.ap, spec.digest.hex(), place.limit_s(order), lambda total_bytes: None
        )
        await asyncio.to_thread(self.shelf.synchronise, blob)
        return wire.Answer(status=wire.Answer.DONE, sync=wire.SyncReport())

    async def ballast(self, order: wire.Order) -> wire.Answer:
        """Ballast, back to back: one phase per transfer, without a gap between them."""
        place, spec, order_id = self.place, order.transfer, order.order_id
        if not (
            1 <= spec.total_bytes <= MAX_BLOB_BYTES and spec.repeats >= 1 and 0.0 <= spec.mbit_s < math.inf
        ):
            return wire.Answer(
                status=wire.Answer.REFUSED,
                reason=f"{spec.repeats} transfers of {spec.total_bytes} bytes at {spec.mbit_s} Mbit/s",
            )
        phase = Phase.UPLOAD if spec.upload else Phase.DOWNLOAD
        link, limit_s = place.link(), place.limit_s(order)
        await place.fall_quiet()
        moved, seconds = 0, 0.0
        for _ in range(spec.repeats):
            place.timeline.enter(
                phase,
                order.step,
                order_id=order_id,
                mbit_s=spec.mbit_s,
                transferred_bytes=spec.total_bytes if moved else 0,
            )
            place.moving(spec.total_bytes, spec.mbit_s)
            if spec.upload:
                done = await link.send_ballast(order_id, spec.total_bytes, spec.mbit_s, limit_s)
            else:
                done = await link.fetch_ballast(order_id, spec.total_bytes, limit_s)
            moved += done.transferred_bytes
            seconds += done.duration_s
        place.timeline.enter(Phase.WAIT, order.step, transferred_bytes=spec.total_bytes)
        report = wire.TransferReport(transfers=spec.repeats, transferred_bytes=moved, transfer_s=seconds)
        return wire.Answer(status=wire.Answer.DONE, transfer=report)
