"""`rounds.ports.Fleet` on virtual devices: real training in workers, modelled time, no radio, no meter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from roambench.contract.model_blob import digest_of, encode
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    DiscardOrder,
    Order,
    SyncOrder,
    SyncReply,
    TrainOrder,
    TrainReply,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.energy.device_power import drawn_step_s
from roambench.fleet.simulated.held_models import HeldModels
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.workers import TrainingWorkers


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """How fast virtual devices are. Rates of 0: the transfer takes no time.

    Each device's time for an SGD step is within ± `speed_spread` of `sgd_step_s`, fixed by the seed.
    """

    sgd_step_s: float
    download_mbit_s: float
    upload_mbit_s: float
    speed_spread: float = 0.0
    seed: int = 0

    def train_s(self, device: int, sgd_steps: int) -> float:
        return sgd_steps * drawn_step_s(self.sgd_step_s, self.speed_spread, self.seed, device)

    def transfer_s(self, transferred_bytes: int, mbit_s: float) -> float:
        return 8e-6 * transferred_bytes / mbit_s if mbit_s > 0.0 else 0.0


class SimulatedFleet:
    """Devices never fail: an answer other than DONE comes of the order itself (training that diverged).

    Equal bits to a local fleet's models on the same machine: both train by `learning.Learner` with one
    thread, and versions are named by the same blobs.
    """

    def __init__(self, rows: ModelRows, workers: TrainingWorkers, layout: str, device: VirtualDevice) -> None:
        self._rows = rows
        self._workers = workers
        self._layout = layout
        self._device = device
        self._held = HeldModels(rows)
        self._published: dict[str, int] = {}  # digest -> row
        self._blob_bytes = 0

    # ---- rounds.ports.Fleet ----------------------------------------------------------------

    async def perform(self, orders: Sequence[Order]) -> list[Answer]:
        """Discards and synchronisations first, as an agent takes its orders; trainings side by side."""
        trainings = [order for order in orders if isinstance(order, TrainOrder)]
        replies = {
            order.order_id: self._carry_out(order) for order in orders if not isinstance(order, TrainOrder)
        }
        replies.update(await self._train(trainings))
        return [replies[order.order_id] for order in orders]

    def publish(self, model: Vector) -> str:
        blob = encode(model, self._layout)
        self._blob_bytes = len(blob)
        digest = digest_of(blob)
        if digest not in self._published:
            row = self._rows.store(model)
            self._held.share(row)
            self._published[digest] = row
        return digest

    def retain(self, digests: Collection[str]) -> None:
        for digest in self._published.keys() - set(digests):
            self._held.unshare(self._published.pop(digest))

    # ---- orders ----------------------------------------------------------------------------

    def _carry_out(self, order: Order) -> Answer:
        match order:
            case UploadOrder():
                return self._upload(order)
            case SyncOrder():
                self._held.synchronise(order.device, self._published[order.digest])
                mbit_s = order.download_mbit_s or self._device.download_mbit_s
                return _done(
                    order, SyncReply(self._blob_bytes, self._device.transfer_s(self._blob_bytes, mbit_s))
                )
            case DiscardOrder():
                self._held.release(order.device, order.train_order_id, as_own=order.keeps_model)
                return _done(order)
            case _:
                return _done(order)

    def _upload(self, order: UploadOrder) -> Answer:
        held = self._held.of(order.device)
        if held.trained_order_id != order.train_order_id:
            reason = f"no trained model of {order.train_order_id}"
            return Answer(order.order_id, order.device, order.step, AnswerStatus.REFUSED, reason)
        # A copy: the row is somebody else's as soon as it is released.
        model = self._rows.row(held.trained_row).copy()
        self._held.release(order.device, order.train_order_id, as_own=order.keeps_model)
        mbit_s = order.upload_mbit_s or self._device.upload_mbit_s
        upload_s = self._device.transfer_s(self._blob_bytes, mbit_s)
        return _done(order, UploadReply(model, "", self._blob_bytes, upload_s))

    async def _train(self, orders: Sequence[TrainOrder]) -> dict[str, Answer]:
        jobs = [self._job(order) for order in orders]
        outcomes = await self._workers.train(jobs)
        answers = {}
        for order, job, outcome in zip(orders, jobs, outcomes, strict=True):
            if outcome.refused:
                self._rows.release(job.out_row)
                answers[order.order_id] = Answer(
                    order.order_id, order.device, order.step, AnswerStatus.REFUSED, outcome.refused
                )
            else:
                self._held.trained(order.device, order.order_id, job.out_row)
                answers[order.order_id] = _done(order, self._report(order, outcome))
        return answers

    def _job(self, order: TrainOrder) -> TrainingJob:
        held = self._held.of(order.device)
        return TrainingJob(
            device=order.device,
            ap_row=self._published[order.start_digest],
            own_row=held.start_row,
            global_row=held.global_row,
            out_row=self._rows.take(),
            start_rule=order.start_rule,
            objective=order.objective,
            local_epochs=order.local_epochs,
            seed=order.seed,
        )

    def _report(self, order: TrainOrder, outcome: TrainingOutcome) -> TrainReply:
        mbit_s = order.download_mbit_s or self._device.download_mbit_s
        return TrainReply(
            samples=outcome.samples,
            sgd_steps=outcome.sgd_steps,
            mean_loss=outcome.mean_loss,
            mean_squared_loss=outcome.mean_squared_loss,
            model_digest="",
            cpu_s=outcome.cpu_s,
            device_s=self._device.train_s(order.device, outcome.sgd_steps),
            downloaded_bytes=self._blob_bytes,
            download_s=self._device.transfer_s(self._blob_bytes, mbit_s),
        )


def _done(order: Order, reply: TrainReply | UploadReply | SyncReply | None = None) -> Answer:
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, reply=reply)
