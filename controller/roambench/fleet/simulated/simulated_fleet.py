"""`rounds.ports.Fleet` on virtual devices: real training in workers, modelled time, no radio, no meter."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roambench.contract.errors import ModelError, RunError
from roambench.contract.link_codecs import NOT_CODED, LinkCodecs
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of, names
from roambench.contract.orders import (
    NO_MODEL_HELD,
    Answer,
    AnswerStatus,
    DiscardOrder,
    ExchangeOrder,
    ExchangeReply,
    Order,
    SyncOrder,
    SyncReply,
    TrainOrder,
    TrainReply,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.energy.modelled.device_power import drawn_step_s
from roambench.fleet.simulated.held_models import HeldModels
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.peer_models import Exchanged, PeerModels
from roambench.fleet.simulated.trainer import OnOutcome, TrainingBackend, no_hurry
from roambench.learning.codecs.codec import Shapes
from roambench.learning.codecs.coder import Coder, download_key, upload_key
from roambench.rounds.ports import OnAnswer, keep_all
from roambench.vectors import distance_share


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """The speeds of virtual devices. Rates of 0: the transfer takes no time.

    Each device's time for an SGD step is within ± `speed_spread` of `sgd_step_s`, times its `slowness` where
    there is one by device, fixed by the seed; so is that for a program's processor second of `cpu_slowdown`.
    """

    sgd_step_s: float
    download_mbit_s: float
    upload_mbit_s: float
    speed_spread: float = 0.0
    seed: int = 0
    cpu_slowdown: float = 0.0
    coding_s: float = 0.0  # to code or decode a million numbers
    slowness: tuple[float, ...] = ()

    def program_s(self, device: int, cpu_s: float) -> float:
        """Return the seconds that a device takes for this much of a program."""
        return self.scaled_s(device, cpu_s * self.cpu_slowdown)

    def train_s(self, device: int, sgd_steps: int) -> float:
        """Return the seconds that a device takes for this many SGD steps."""
        return sgd_steps * self.scaled_s(device, self.sgd_step_s)

    def code_s(self, device: int, numbers: int) -> float:
        """Return the seconds that a device takes to code or decode this many numbers."""
        return self.scaled_s(device, 1e-6 * numbers * self.coding_s)

    def scaled_s(self, device: int, seconds: float) -> float:
        """Return how long a device takes for what the mean device does in `seconds`."""
        slowness = self.slowness[device] if self.slowness else 1.0
        return drawn_step_s(seconds * slowness, self.speed_spread, self.seed, device)

    def transfer_s(self, transferred_bytes: int, mbit_s: float) -> float:
        """Seconds that a transfer takes; 0 where no rate is given."""
        return 8e-6 * transferred_bytes / mbit_s if mbit_s > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Size of an order's training, known without doing it."""

    samples: int
    sgd_steps: int


class SimulatedFleet:
    """Devices never fail: an answer other than DONE comes of the order itself (training that diverged). Such
    a training takes its device the time of a whole one.

    Equal bits to a local fleet's models on the same machine: both train by `learning.Learner` with one
    thread, and versions are named by the same blobs.

    Where it `defers`, a training that starts from the AP's model alone is computed only when its model is
    to be uploaded; most models of a mobile fleet never are (88 % with HierFAVG on a month of check-ins).
    Its answer then has no losses (NaN), and one that diverges is refused at its upload; all that a run
    decides and draws is the same as where every training is computed at once. `foresee`: what one takes.

    Exchanges mix by the arithmetic of agents, so that they, too, give their bits. `has_momentum`: SGD's
    momentum goes on from one exchange to the next. `keeps`: what a local algorithm keeps goes on from one
    training to the next, also where the model of the first is never wanted.
    """

    def __init__(
        self,
        rows: ModelRows,
        trainer: TrainingBackend,
        layout: str,
        device: VirtualDevice,
        foresee: Callable[[TrainOrder | ExchangeOrder], Workload],
        *,
        defers: bool = False,
        has_momentum: bool = False,
        keeps: bool = False,
        codecs: LinkCodecs = NOT_CODED,
        shapes: Shapes = (),
    ) -> None:
        self.rows = rows
        self._trainer = trainer
        self._layout = layout
        self._device = device
        self._foresee = foresee
        self._defers = defers
        self.trainings_computed = 0
        self.computing_s = 0.0  # CPU-seconds that these took
        self._keeps = keeps
        self._held = HeldModels(rows)
        self._peers = PeerModels(rows, has_momentum=has_momentum)
        self._codecs = codecs
        self._up, self._down = (Coder.of(text, layout, shapes) for text in (codecs.up, codecs.down))
        self._published: dict[str, int] = {}  # digest -> row of what devices get
        self._exact: dict[str, int] = {}  # digest -> row of the model itself, where that is coded on its way
        self._sent_bytes: dict[str, int] = {}  # digest -> length of what is sent
        self._blob_bytes = 0

    # ---- rounds.ports.Fleet ----------------------------------------------------------------

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Discards and synchronisations first, as an agent takes its orders; trainings side by side.

        Uploads are answered AP by AP, ascending by device, deferred ones as soon as they are computed: they
        are aggregated while others are still trained.
        """
        trainings = [order for order in orders if isinstance(order, TrainOrder)]
        uploads = [order for order in orders if isinstance(order, UploadOrder)]
        exchanges = [order for order in orders if isinstance(order, ExchangeOrder)]
        replies = {
            order.order_id: on_answer(self._carry_out(order))
            for order in orders
            if not isinstance(order, TrainOrder | UploadOrder | ExchangeOrder)
        }
        replies.update(await self._upload_all(uploads, on_answer))
        for order_id, answer in (await self._train(trainings)).items():
            replies[order_id] = on_answer(answer)
        done = await self._peers.exchange(exchanges, self._published, self._compute) if exchanges else []
        for order, exchanged in zip(exchanges, done, strict=True):
            replies[order.order_id] = on_answer(self._exchanged(order, exchanged))
        return [replies[order.order_id] for order in orders]

    def publish(self, model: Vector | bytes) -> str:
        """Keep a model that devices start from; returns its digest."""
        assert not isinstance(model, bytes)  # no program runs here
        blob = encode(model, self._layout)
        self._blob_bytes = len(blob)
        digest = digest_of(blob)
        if digest not in self._published:
            if self._down is not None:
                self._exact[digest] = self._shared(model)
                model = self._decoded(digest, blob, model)
            self._published[digest] = self._shared(model)
        return digest

    def _shared(self, model: Vector) -> int:
        row = self.rows.store(model)
        self._held.share(row)
        return row

    def _decoded(self, digest: str, blob: bytes, model: Vector) -> Vector:
        """The model as devices get it; how long its code is, is noted."""
        assert self._down is not None
        coded, _ = self._down.encode(model, download_key(self._codecs, blob))
        self._sent_bytes[digest] = len(coded)
        return self._down.decode(coded, model.size)

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests`."""
        for digest in self._published.keys() - set(digests):
            self._held.unshare(self._published.pop(digest))
            self._sent_bytes.pop(digest, None)
            if digest in self._exact:
                self._held.unshare(self._exact.pop(digest))

    @property
    def keeps_much(self) -> bool:
        """True if much in the models' file is wanted by the checkpoint alone."""
        return self.rows.keeps_much

    def snapshot(self) -> dict[str, Any]:
        """Published models and their holders, as JSON values; the models are rows of the file, synced."""
        self.rows.sync()
        held, peers = self._held.snapshot(), self._peers.snapshot()
        return {"published": self._published, "exact": self._exact, "held": held, "peers": peers}

    def keep(self, step: int) -> None:
        """The snapshot was written down: its models stay as they are until the next one was."""
        self.rows.keep(self._held.rows() | self._peers.rows())

    def restore(self, saved: Mapping[str, Any]) -> dict[str, Vector]:
        """Go on from a snapshot with the file opened again; published models by digest. RunError if lost."""
        self._published, self._exact = dict(saved["published"]), dict(saved["exact"])
        for row in (*self._published.values(), *self._exact.values()):
            self._held.share(row)
        self._held.restore(saved["held"])
        self._peers.restore(saved["peers"])
        self.rows.adopt(self._held.rows() | self._peers.rows())
        models = {digest: self.rows.lend(row) for digest, row in (self._published | self._exact).items()}
        for digest in self._exact:
            self._decoded(digest, encode(models[digest], self._layout), models[digest])
        if not all(names(digest, encode(model, self._layout)) for digest, model in models.items()):
            raise RunError(f"{self.rows.path}: does not hold the models of the checkpoint")
        return models

    # ---- orders ----------------------------------------------------------------------------

    def _carry_out(self, order: Order) -> Answer:
        match order:
            case SyncOrder():
                return self._synchronise(order)
            case DiscardOrder():
                self._held.release(order.device, order.train_order_id, as_own=order.keeps_model)
                return _done(order)
            case _:
                return _done(order)

    def _synchronise(self, order: SyncOrder) -> Answer:
        own, synced = self._held.of(order.device).start_row, self._published[order.digest]
        divergence = None if own < 0 else distance_share(self.rows.row(own), self.rows.row(synced))
        self._held.synchronise(order.device, synced)
        if order.free:
            return _done(order, SyncReply(divergence=divergence))
        mbit_s = order.download_mbit_s or self._device.download_mbit_s
        moved_bytes, coding_s = self._download((order.digest,), order.device)
        download_s = self._device.transfer_s(moved_bytes, mbit_s)
        return _done(order, SyncReply(moved_bytes, download_s, divergence, coding_s))

    def _download(self, digests: Sequence[str], device: int) -> tuple[int, float]:
        """The bytes that are sent as these versions, and how long a device decodes them."""
        moved_bytes = sum(self._sent_bytes.get(digest, self._blob_bytes) for digest in digests)
        numbers = self.rows.size * len(digests) if self._down is not None else 0
        return moved_bytes, self._device.code_s(device, numbers)

    def _upload(self, order: UploadOrder) -> Answer:
        if order.collects:
            return self._collect(order)
        held = self._held.of(order.device)
        if held.trained_row < 0 or held.trained_order_id != order.train_order_id:
            return _refused(order, f"no trained model of {order.train_order_id}")
        model = self.rows.lend(held.trained_row)  # it may be kept after its release
        moved_bytes, coding_s = self._blob_bytes, 0.0
        if self._up is not None and not order.plain:
            try:
                model, moved_bytes = self._coded(self._up, order, model)
            except ModelError as error:
                return _refused(order, str(error))
            coding_s = self._device.code_s(order.device, self.rows.size)
        self._held.release(order.device, order.train_order_id, as_own=order.keeps_model)
        mbit_s = order.upload_mbit_s or self._device.upload_mbit_s
        upload_s = self._device.transfer_s(moved_bytes, mbit_s)
        return _done(order, UploadReply(model, "", moved_bytes, upload_s, coding_s=coding_s))

    def _coded(self, coder: Coder, order: UploadOrder, model: Vector) -> tuple[Vector, int]:
        """The model as it arrives, and the length of its code; what was lost is kept for the next."""
        base = self.rows.row(self._published[order.base_digest]) if order.base_digest else None
        memory_row = self._held.of(order.device).memory_row
        memory = self.rows.row(memory_row) if memory_row >= 0 else None
        coded, left = coder.encode(model, upload_key(self._codecs, order.device, order.step), base, memory)
        arrived = coder.decode(coded, model.size, base)
        if left is not None:
            self._held.remember(order.device, self.rows.store(left))
        return arrived, len(coded)

    def _collect(self, order: UploadOrder) -> Answer:
        """The mixed model that the device holds, for scoring."""
        model = self._peers.model(order.device)
        if model is None:
            return _refused(order, NO_MODEL_HELD)
        return _done(order, UploadReply(model, digest_of(encode(model, self._layout))))

    def _exchanged(self, order: ExchangeOrder, exchanged: Exchanged) -> Answer:
        if exchanged.refused:
            return _refused(order, exchanged.refused, self._half_step_in_vain(order, exchanged))
        return _done(order, exchange_reply(order, exchanged, self._blob_bytes, self._device))

    def _half_step_in_vain(self, order: ExchangeOrder, exchanged: Exchanged) -> ExchangeReply | None:
        """Return what a half step without a model cost; nothing where its device had none to begin with."""
        if exchanged.refused == NO_MODEL_HELD:
            return None
        work = self._foresee(order)
        outcome = TrainingOutcome("", work.samples, work.sgd_steps, math.nan, math.nan)
        alone = replace(order, neighbours=(), weights=())
        return exchange_reply(alone, Exchanged(outcome), self._blob_bytes, self._device)

    async def _upload_all(self, orders: Sequence[UploadOrder], on_answer: OnAnswer) -> dict[str, Answer]:
        """Answer every upload; those of deferred trainings are computed first."""
        replies: dict[str, Answer] = {}
        deferred: list[tuple[UploadOrder, TrainingJob]] = []
        for order in sorted(orders, key=lambda order: (order.ap, order.device)):
            held = self._held.of(order.device)
            if (
                held.deferred is not None
                and not order.collects
                and held.trained_order_id == order.train_order_id
            ):
                deferred.append((order, replace(held.deferred, out_row=self.rows.take())))
            else:
                replies[order.order_id] = on_answer(self._upload(order))

        def computed(index: int, outcome: TrainingOutcome) -> None:
            order, job = deferred[index]
            if outcome.refused:
                self.rows.release(job.out_row)
                self._held.release(order.device, order.train_order_id, as_own=False)
                answer = _refused(order, outcome.refused)
            else:
                self._held.trained(order.device, order.train_order_id, job.out_row)
                answer = self._upload(order)
            replies[order.order_id] = on_answer(answer)

        await self._compute([job for _, job in deferred], computed)
        return replies

    async def _compute(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        outcomes = await self._trainer.train(jobs, on_outcome)
        self.trainings_computed += len(jobs)
        self.computing_s += sum(outcome.cpu_s for outcome in outcomes)
        return outcomes

    async def _train(self, orders: Sequence[TrainOrder]) -> dict[str, Answer]:
        answers = {}
        now: list[tuple[TrainOrder, TrainingJob]] = []
        for order in orders:
            job = self._job(order)
            if self._defers and order.training.start_rule == "ap":
                # Its own model's row may be another's by then, and "ap" does not read it.
                self._held.defer(order.device, order.order_id, replace(job, own_row=-1))
                answers[order.order_id] = _done(order, self._unknown(order))
            else:
                kept_out_row = self.rows.take() if self._keeps else -1
                now.append((order, replace(job, out_row=self.rows.take(), kept_out_row=kept_out_row)))
        outcomes = await self._compute([job for _, job in now])
        for (order, job), outcome in zip(now, outcomes, strict=True):
            if outcome.refused:
                self.rows.release(job.out_row)
                if job.kept_out_row >= 0:
                    self.rows.release(job.kept_out_row)
                answers[order.order_id] = _refused(order, outcome.refused, self._unknown(order))
            else:
                self._held.trained(order.device, order.order_id, job.out_row)
                if job.kept_out_row >= 0:
                    self._held.keep(order.device, job.kept_out_row)
                answers[order.order_id] = _done(order, self._report(order, outcome))
        return answers

    def _unknown(self, order: TrainOrder) -> TrainReply:
        """The report of a training whose model is not known, or is none."""
        work = self._foresee(order)
        return self._report(order, TrainingOutcome("", work.samples, work.sgd_steps, math.nan, math.nan))

    def _job(self, order: TrainOrder) -> TrainingJob:
        """The order in rows; where its result goes is decided when it is computed."""
        held = self._held.of(order.device)
        return TrainingJob(
            device=order.device,
            ap_row=self._published[order.start_digest],
            own_row=held.start_row,
            global_row=held.global_row,
            out_row=-1,
            training=order.training,
            previous_row=self._published[order.previous_digest] if order.previous_digest else -1,
            kept_row=held.kept_row,
            step=order.step,
        )

    def _report(self, order: TrainOrder, outcome: TrainingOutcome) -> TrainReply:
        mbit_s = order.download_mbit_s or self._device.download_mbit_s
        downloaded_bytes, coding_s = self._download(order.model_digests, order.device)
        return TrainReply(
            samples=outcome.samples,
            sgd_steps=outcome.sgd_steps,
            mean_loss=outcome.mean_loss,
            mean_squared_loss=outcome.mean_squared_loss,
            model_digest="",
            cpu_s=outcome.cpu_s,
            device_s=self._device.train_s(order.device, outcome.sgd_steps)
            + self._device.program_s(order.device, outcome.cpu_s if outcome.sgd_steps == 0 else 0.0),
            downloaded_bytes=downloaded_bytes,
            download_s=self._device.transfer_s(downloaded_bytes, mbit_s),
            coding_s=coding_s,
        )


def _done(order: Order, reply: TrainReply | UploadReply | SyncReply | ExchangeReply | None = None) -> Answer:
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, reply=reply)


def _refused(order: Order, reason: str, reply: TrainReply | ExchangeReply | None = None) -> Answer:
    return Answer(order.order_id, order.device, order.step, AnswerStatus.REFUSED, reason, reply)


def exchange_reply(
    order: ExchangeOrder, exchanged: Exchanged, model_bytes: int, device: VirtualDevice
) -> ExchangeReply:
    """The device's reply to an exchange order: a model to every neighbour at the modelled rate, one from all
    who sent."""
    outcome = exchanged.outcome
    sent_bytes, received_bytes = model_bytes * len(order.neighbours), model_bytes * exchanged.received
    downloaded_bytes = model_bytes * len(order.model_digests)
    return ExchangeReply(
        samples=outcome.samples,
        sgd_steps=outcome.sgd_steps,
        mean_loss=outcome.mean_loss,
        mean_squared_loss=outcome.mean_squared_loss,
        model_digest="",
        left_out=exchanged.left_out,
        sent_bytes=sent_bytes,
        received_bytes=received_bytes,
        # One radio: it sends, then it receives.
        exchange_s=device.transfer_s(sent_bytes, order.exchange_mbit_s or device.upload_mbit_s)
        + device.transfer_s(received_bytes, order.exchange_mbit_s or device.download_mbit_s),
        cpu_s=outcome.cpu_s,
        device_s=device.train_s(order.device, outcome.sgd_steps),
        downloaded_bytes=downloaded_bytes,
        download_s=device.transfer_s(downloaded_bytes, order.download_mbit_s or device.download_mbit_s),
    )
