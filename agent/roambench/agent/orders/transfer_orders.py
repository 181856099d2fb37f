"""Carries out orders that only move bytes: a trained model up, the global model down, padding either way."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass

from roambench.agent.background import undivided
from roambench.agent.board_load import RadioLoad
from roambench.agent.orders.model_cache import CachedModel, ModelCache
from roambench.agent.orders.worker import CodeJob
from roambench.agent.orders.workplace import ModelLink, Workplace
from roambench.agent.session.data_link import ModelTransfer
from roambench.contract.errors import ModelError
from roambench.contract.events import EventKind
from roambench.contract.model_blob import MAX_BLOB_BYTES, decode, fits_session
from roambench.contract.orders import (
    Answer,
    GivenOrder,
    SyncOrder,
    SyncReply,
    TransferOrder,
    TransferReply,
    UploadOrder,
    UploadReport,
)
from roambench.contract.phases import NOTHING_MOVED, Phase
from roambench.learning.codecs.coder import upload_key
from roambench.vectors import distance_share
from roambench.wire.frames import serialised


@dataclass(frozen=True, slots=True)
class TransferOrders:
    """The executor of upload, sync and transfer orders."""

    place: Workplace
    model_cache: ModelCache

    async def upload(self, given: GivenOrder, order: UploadOrder) -> Answer:
        """The trained model, from the model cache; it leaves the model cache when the controller has it."""
        place, order_id = self.place, order.order_id
        model = self.model_cache.trained()
        if model is None or model.order_id != order.train_order_id:
            return given.refused(f"no trained model of {order.train_order_id} on disk")
        if coding := place.worker.codecs.codes_up and not (order.message_bytes or order.plain):
            await place.worker.ready()  # before the measured phases
        if not fits_session(model.path.stat().st_size, order.upload_mbit_s):
            await place.connected(given)
        await place.rest_before(order.step)
        path, digest, coding_s = model.path, model.reply.model_digest, 0.0
        if coding:
            if order.base_digest and model.base is None:
                return given.refused("what the training began from is not on disk")
            path = self.model_cache.coded
            digest, coding_s = await self._encode(given, order, model)
        else:
            self.model_cache.memory_draft.unlink(missing_ok=True)  # of a code that never arrived
        place.event(EventKind.UPLOAD_STARTED, order_id)
        blob = path.read_bytes()

        async def attempt(link: ModelLink, limit_s: float) -> ModelTransfer:
            place.timeline.enter(
                Phase.UPLOAD,
                order.step,
                order_id=order_id,
                train_order_id=order.training_id,
                mbit_s=order.upload_mbit_s,
            )
            mbit_s = order.upload_mbit_s
            radio = RadioLoad(place.load, mbit_s)
            return await link.upload(
                order_id, order.train_order_id, order.ap, blob, digest, mbit_s, limit_s, radio
            )

        in_session = fits_session(len(blob), order.upload_mbit_s)
        sent = await place.transferred(given, attempt, in_session=in_session)
        place.wait(order.step, await place.rest_after(order.step, sent.moved))
        answer = given.done(UploadReport(digest, sent.transferred_bytes, sent.duration_s, coding_s))
        # Only now: the controller has it, digest checked; whichever process dies, the answer is known first.
        self.model_cache.fed_back()
        self.model_cache.remember(order_id, serialised(answer))
        self.model_cache.release(order.train_order_id, as_own=order.keeps_model)
        return answer

    async def _encode(self, given: GivenOrder, order: UploadOrder, model: CachedModel) -> tuple[str, float]:
        """Code the model, as the difference to what its training began from where the order says so."""
        cache, step = self.model_cache, order.step
        cache.memory_draft.unlink(missing_ok=True)
        job = CodeJob(
            path=str(model.path),
            out_path=str(cache.coded),
            up=True,
            key=upload_key(self.place.worker.codecs, order.device, step),
            base_path=str(model.base) if order.base_digest else "",
            memory_path=str(cache.memory() or ""),
            memory_out_path=str(cache.memory_draft),
        )
        done, coding_s = await self.place.code(Phase.ENCODE, given, job, order.training_id)
        return done.digest, coding_s

    async def sync(self, given: GivenOrder, order: SyncOrder) -> Answer:
        """The global model, to the model cache."""
        place = self.place
        if order.free:
            return await self._sync_for_free(given, order)
        if not given.in_session:
            await place.connected(given)
        await place.rest_before(order.step)
        place.event(EventKind.DOWNLOAD_STARTED, order.order_id)
        blob, download = await place.download(given, order.ap, order.digest, order.download_mbit_s)
        before = await place.rest_after(order.step, download.moved)
        blob, coding_s = await place.decoded(given, blob, before)
        place.wait(order.step, NOTHING_MOVED if coding_s else before)
        divergence = await undivided(self._take_over, blob)
        moved, lasted_s = download.transferred_bytes, download.duration_s
        return given.done(SyncReply(moved, lasted_s, divergence, coding_s))

    async def _sync_for_free(self, given: GivenOrder, order: SyncOrder) -> Answer:
        """The same in a waiting phase: a reading of the papers in which this is no communication."""
        place = self.place
        place.timeline.enter(Phase.WAIT, order.step)
        blob, _ = await place.transferred(
            given,
            lambda link, limit_s: link.download(
                order.order_id, order.ap, order.digest, limit_s, coded=place.worker.codecs.codes_down
            ),
            in_session=given.in_session,
        )
        blob = await place.plain(blob)
        return given.done(SyncReply(divergence=await undivided(self._take_over, blob)))

    def _take_over(self, blob: bytes) -> float | None:
        """Put the global model in the place of the device's own; returns how far that was from it."""
        own, divergence = self.model_cache.own_model(), None
        if own is not None:
            with suppress(ModelError, ValueError):  # a damaged one is mended by taking over
                divergence = distance_share(decode(own.read_bytes()), decode(blob))
        self.model_cache.synchronise(blob)
        return divergence

    async def padding(self, given: GivenOrder, order: TransferOrder) -> Answer:
        """Padding, back to back: one phase per transfer, without a gap between them."""
        place, order_id = self.place, order.order_id
        if not (
            1 <= order.total_bytes <= MAX_BLOB_BYTES and order.repeats >= 1 and 0.0 <= order.mbit_s < math.inf
        ):
            return given.refused(
                f"{order.repeats} transfers of {order.total_bytes} bytes at {order.mbit_s} Mbit/s"
            )
        phase = Phase.UPLOAD if order.upload else Phase.DOWNLOAD
        link, now_s = place.link(), asyncio.get_running_loop().time
        end_s = now_s() + place.limit_s(given)
        await place.connected(given)
        await place.fall_quiet()
        total_bytes, seconds, last = 0, 0.0, NOTHING_MOVED
        radio = RadioLoad(place.load, order.mbit_s)
        for _ in range(order.repeats):
            place.timeline.enter(
                phase,
                order.step,
                order_id=order_id,
                mbit_s=order.mbit_s,
                moved=last,
            )
            limit_s = end_s - now_s()
            if phase is Phase.UPLOAD:
                done = await link.send_padding(order_id, order.total_bytes, order.mbit_s, limit_s, radio)
            else:
                done = await link.fetch_padding(order_id, order.total_bytes, limit_s, radio)
            last = done.moved
            total_bytes += done.transferred_bytes
            seconds += done.duration_s
        place.timeline.enter(Phase.WAIT, order.step, moved=last)
        return given.done(TransferReply(order.repeats, total_bytes, seconds))
