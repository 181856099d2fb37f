"""Carries out train orders: download, train, keep the model until it is taken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roambench.agent.background import undivided
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.worker import TrainerRefused, TrainJob
from roambench.agent.orders.workplace import Trained, Workplace, overwrite
from roambench.agent.session.data_link import ModelTransfer
from roambench.contract.events import EventKind
from roambench.contract.orders import Answer, GivenOrder, TrainOrder, TrainReply
from roambench.contract.phases import NOTHING_MOVED, Moved


@dataclass(frozen=True, slots=True)
class TrainOrders:
    """The executor of train orders: download, train, keep the model, report."""

    place: Workplace
    model_cache: ModelCache

    async def carry_out(self, given: GivenOrder, order: TrainOrder) -> Answer:
        """Train as ordered; the answer holds a report or the reason why not."""
        place, order_id = self.place, order.order_id
        await place.worker.ready()  # before the measured phases: a trainer that died was forked again, cold
        await place.rest_before(order.step)
        place.event(EventKind.DOWNLOAD_STARTED, order_id)
        start_path, previous_path = place.folder / "start.blob", place.folder / "previous.blob"
        download = last = await self._fetch(given, order, order.start_digest, start_path)
        if order.previous_digest:
            last = await self._fetch(given, order, order.previous_digest, previous_path, download.moved)
            both = Moved(download.transferred_bytes + last.transferred_bytes)
            download = ModelTransfer(both, download.duration_s + last.duration_s)
        before = await place.rest_after(order.step, last.moved)
        draft, kept_draft = self.model_cache.draft(order_id), self.model_cache.kept_draft(order_id)
        kept_draft.unlink(missing_ok=True)  # of a training that was cut short
        job = TrainJob(
            start_path=str(start_path),
            out_path=str(draft),
            own_path=str(self.model_cache.own_model() or ""),
            global_path=str(self.model_cache.global_model() or ""),
            training=order.training,
            previous_path=str(previous_path) if order.previous_digest else "",
            kept_path=str(self.model_cache.kept() or ""),
            kept_out_path=str(kept_draft),
        )
        try:
            trained = await place.train(order_id, order.step, job, before)
        except TrainerRefused as refused:
            return given.refused(str(refused), place.cost(TrainReply, order.training, refused, download))
        reply = _reply(trained, download)
        place.wait(order.step)
        # Beside the loop: syncing 2.6 MB takes an SD card some tenths of a second.
        await undivided(self.model_cache.keep, order_id, reply, draft, kept_draft)
        place.event(EventKind.TRAIN_FINISHED, order_id)
        return given.done(reply)

    async def _fetch(
        self,
        given: GivenOrder,
        order: TrainOrder,
        digest: str,
        path: Path,
        before: Moved = NOTHING_MOVED,
    ) -> ModelTransfer:
        """Download a model of the order to `path`."""
        blob, download = await self.place.download(
            given,
            order.ap,
            digest,
            order.download_mbit_s,
            train_order_id=order.order_id,
            before=before,
        )
        overwrite(path, blob)
        return download


def _reply(trained: Trained, download: ModelTransfer) -> TrainReply:
    outcome = trained.outcome
    return TrainReply(
        samples=outcome.samples,
        sgd_steps=outcome.sgd_steps,
        mean_loss=outcome.mean_loss,
        mean_squared_loss=outcome.mean_squared_loss,
        model_digest=outcome.model_digest,
        cpu_s=outcome.cpu_s,
        device_s=trained.device_s,
        late_s=trained.late_s,
        downloaded_bytes=download.transferred_bytes,
        download_s=download.duration_s,
    )
