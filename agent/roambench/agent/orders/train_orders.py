"""Carries out train orders: download, train, keep the model until it is taken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from roambench.agent.background import undivided
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.program import Program
from roambench.agent.orders.program_models import train_message, trained_model
from roambench.agent.orders.worker import TrainerRefused, TrainJob, TrainOutcome
from roambench.agent.orders.workplace import Trained, Workplace, overwrite
from roambench.agent.session.data_link import ModelTransfer
from roambench.contract.events import EventKind
from roambench.contract.model_blob import decode, encode, layout_of
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Answer, GivenOrder, TrainOrder, TrainReply, Vector
from roambench.contract.phases import NOTHING_MOVED, Moved
from roambench.learning.start_models import StartInputs, start_model


@dataclass(frozen=True, slots=True)
class TrainOrders:
    """The executor of train orders: download, train, keep the model, report. A `program` trains in place of
    the trainer, where the run has one."""

    place: Workplace
    model_cache: ModelCache
    program: Program | None = None

    async def carry_out(self, given: GivenOrder, order: TrainOrder) -> Answer:
        """Train as ordered; the answer holds a report or the reason why not."""
        place, order_id = self.place, order.order_id
        began_s = asyncio.get_running_loop().time()
        # Before the measured phases: a trainer that died was forked again, cold.
        await (self.program or place.worker).ready()
        if not given.in_session:
            await place.connected(given)
        await place.rest_before(order.step)
        place.event(EventKind.DOWNLOAD_STARTED, order_id)
        start_path, previous_path = place.folder / "start.blob", place.folder / "previous.blob"
        start, download = await self._fetch(given, order, order.start_digest)
        models, last = {start_path: start}, download
        if order.previous_digest:
            previous, last = await self._fetch(given, order, order.previous_digest, download.moved)
            models[previous_path] = previous
            both = Moved(download.transferred_bytes + last.transferred_bytes)
            download = ModelTransfer(both, download.duration_s + last.duration_s)
        before, coding_s = await place.rest_after(order.step, last.moved), 0.0
        for path, blob in models.items():
            plain, lasted_s = await place.decoded(given, blob, before, order_id)
            overwrite(path, plain)
            if lasted_s:
                before, coding_s = NOTHING_MOVED, coding_s + lasted_s
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
        if self.program is not None:
            left_s = place.limit_s(given) - (asyncio.get_running_loop().time() - began_s)
            trained = await self._by_program(self.program, order, job, before, max(0.0, left_s))
        else:
            try:
                trained = await place.train(order_id, order.step, job, before)
            except TrainerRefused as refused:
                cost = place.cost(TrainReply, order.training, refused, download)
                return given.refused(str(refused), replace(cost, coding_s=coding_s))
        reply = _reply(trained, download, coding_s)
        place.wait(order.step)
        # Beside the loop: syncing 2.6 MB takes an SD card some tenths of a second.
        codecs = place.worker.codecs
        base = start_path if codecs.codes_up and codecs.difference else None
        await undivided(self.model_cache.keep, order_id, reply, draft, kept_draft, base)
        place.event(EventKind.TRAIN_FINISHED, order_id)
        return given.done(reply)

    async def _by_program(
        self, program: Program, order: TrainOrder, job: TrainJob, before: Moved, limit_s: float
    ) -> Trained:
        """The training of an order by the run's program. Raises as `Program.call` does."""
        blob = Path(job.start_path).read_bytes()
        start = start_model(
            order.training.start_rule,
            StartInputs(
                decode(blob),
                _model(job.own_path),
                last_global=_model(job.global_path),
                previous_ap=_model(job.previous_path),
            ),
        )
        message = train_message(start, order.step, order.training)
        done = await self.place.compute(order, before, lambda: program.call(message, limit_s))
        made = trained_model(done.computed.answer, start.size)
        out = encode(made.model, layout_of(blob))
        overwrite(Path(job.out_path), out)
        loss, cpu_s = made.loss, done.computed.cpu_s
        outcome = TrainOutcome(made.samples, 0, loss, loss * loss, cpu_s, digest_of(out))
        return Trained(outcome, done.device_s, done.late_s)

    async def _fetch(
        self,
        given: GivenOrder,
        order: TrainOrder,
        digest: str,
        before: Moved = NOTHING_MOVED,
    ) -> tuple[bytes, ModelTransfer]:
        """Download a model of the order."""
        return await self.place.download(
            given,
            order.ap,
            digest,
            order.download_mbit_s,
            train_order_id=order.order_id,
            before=before,
        )


def _model(path: str) -> Vector | None:
    return decode(Path(path).read_bytes()) if path else None


def _reply(trained: Trained, download: ModelTransfer, coding_s: float) -> TrainReply:
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
        coding_s=coding_s,
    )
