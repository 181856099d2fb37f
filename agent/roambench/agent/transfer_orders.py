"""Carries out orders that only move bytes: a trained model up, the global model down, ballast either way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roambench.agent.data_link import DataLink, Transfer
from roambench.agent.shelf import Shelf
from roambench.agent.undivided import undivided
from roambench.agent.workplace import Workplace
from roambench.contract.events import EventKind
from roambench.contract.model_blob import MAX_BLOB_BYTES
from roambench.contract.phases import NOTHING_MOVED, Phase
from roambench.wire.v1 import control_pb2 as wire


@dataclass(frozen=True, slots=True)
class TransferOrders:
    """The executor of upload, sync and transfer orders."""

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
        place.event(EventKind.UPLOAD_STARTED, order_id)
        blob, digest = model.path.read_bytes(), model.reply.model_digest

        async def attempt(link: DataLink, limit_s: float) -> Transfer:
            place.timeline.enter(
                Phase.UPLOAD,
                order.step,
                order_id=order_id,
                train_order_id=spec.train_order_id,
                mbit_s=spec.upload_mbit_s,
            )
            mbit_s = spec.upload_mbit_s
            return await link.upload(
                order_id,
                spec.train_order_id,
                spec.ap,
                blob,
                digest,
                mbit_s,
                limit_s,
                lambda total_bytes, first_byte_ns: place.moving(first_byte_ns, total_bytes, mbit_s),
            )

        sent = await place.transferred(order, attempt)
        place.timeline.enter(Phase.WAIT, order.step, moved=sent.moved)
        report = wire.UploadReport(
            uploaded_bytes=sent.transferred_bytes,
            upload_s=sent.duration_s,
            model_digest=bytes.fromhex(digest),
        )
        answer = wire.Answer(order_id=order_id, status=wire.Answer.DONE, upload=report)
        # Only now: the controller has it, digest checked; and whatever dies, the answer is known first.
        self.shelf.remember(order_id, answer.SerializeToString())
        self.shelf.release(spec.train_order_id, as_own=spec.keeps_model)
        return answer

    async def sync(self, order: wire.Order) -> wire.Answer:
        """The global model, to the shelf."""
        place, spec = self.place, order.sync
        if spec.free:
            return await self._sync_for_free(order)
        await place.fall_quiet()
        place.event(EventKind.DOWNLOAD_STARTED, order.order_id)
        blob, download = await place.download(order, spec.ap, spec.digest, spec.download_mbit_s)
        place.timeline.enter(Phase.WAIT, order.step, moved=download.moved)
        await undivided(self.shelf.synchronise, blob)
        report = wire.SyncReport(downloaded_bytes=download.transferred_bytes, download_s=download.duration_s)
        return wire.Answer(status=wire.Answer.DONE, sync=report)

    async def _sync_for_free(self, order: wire.Order) -> wire.Answer:
        """The same in a waiting phase: a reading of the papers in which this is no communication."""
        place, spec = self.place, order.sync
        place.timeline.enter(Phase.WAIT, order.step)
        blob, _ = await place.transferred(
            order,
            lambda link, limit_s: link.download(order.order_id, spec.ap, spec.digest.hex(), limit_s),
        )
        await undivided(self.shelf.synchronise, blob)
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
        total_bytes, seconds, last = 0, 0.0, NOTHING_MOVED

        def begins(announced_bytes: int, first_byte_ns: int) -> None:
            place.moving(first_byte_ns, announced_bytes, spec.mbit_s)

        for _ in range(spec.repeats):
            place.timeline.enter(
                phase,
                order.step,
                order_id=order_id,
                mbit_s=spec.mbit_s,
                moved=last,
            )
            if spec.upload:
                done = await link.send_ballast(order_id, spec.total_bytes, spec.mbit_s, limit_s, begins)
            else:
                done = await link.fetch_ballast(order_id, spec.total_bytes, limit_s, begins)
            last = done.moved
            total_bytes += done.transferred_bytes
            seconds += done.duration_s
        place.timeline.enter(Phase.WAIT, order.step, moved=last)
        report = wire.TransferReport(
            transfers=spec.repeats, transferred_bytes=total_bytes, transfer_s=seconds
        )
        return wire.Answer(status=wire.Answer.DONE, transfer=report)
