"""Carries out orders, one after the other: download, train, keep, upload; every order is answered once."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from roambench.agent.data_link import DataLink, Transfer
from roambench.agent.settings import ChaosSettings
from roambench.agent.shelf import Shelf
from roambench.agent.timeline import PhaseTimeline
from roambench.agent.worker import TrainerDied, TrainerRefused, TrainJob, TrainOutcome, Worker
from roambench.contract.device_time import DeviceClock
from roambench.contract.draws import generator
from roambench.contract.errors import RoambenchError
from roambench.contract.model_blob import MAX_BLOB_BYTES
from roambench.contract.orders import TrainReply
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, RecordKind
from roambench.wire.v1 import control_pb2 as wire

Emit = Callable[[wire.AgentFrame], None]


class Exchanges(Protocol):
    """Who carries out the orders of decentralised runs (`exchange_desk`)."""

    async def carry_out(self, order: wire.Order) -> wire.Answer: ...

    async def collect(self, order: wire.Order) -> wire.Answer: ...

    def recall(self, order_id: str) -> wire.Answer | None: ...


@dataclass(slots=True)
class OrdersDesk:
    """The agent's order queue. `data` is set by the link once the controller has named its data plane.

    `cpu_slowdown` is None on a board; on a laptop it stretches training to CPU-seconds x cpu_slowdown, unless
    `sgd_step_s` (above 0) says how many device seconds an SGD step lasts.
    `moving` hears how many bytes the open phase will move, at which pace.
    """

    timeline: PhaseTimeline
    shelf: Shelf
    worker: Worker
    clock: DeviceClock
    folder: Path
    emit: Emit
    record: Callable[[RecordKind, bytes], object]
    cpu_slowdown: float | None
    chaos: ChaosSettings
    sgd_step_s: float = 0.0
    before_phase: Callable[[], Awaitable[None]] | None = None
    data: DataLink | None = None
    exchanges: Exchanges | None = None
    moving: Callable[[int, float], None] = lambda total_bytes, mbit_s: None
    _queue: asyncio.Queue[wire.Order] = field(default_factory=asyncio.Queue)
    _known: set[str] = field(default_factory=set)

    def submit(self, order: wire.Order) -> None:
        """Queue an order; a repeat is answered from disk, or ignored while it is still being carried out."""
        remembered = self._remembered(order.order_id)
        if remembered is not None:
            self.emit(wire.AgentFrame(answer=remembered))
        elif order.order_id not in self._known:
            self._known.add(order.order_id)
            self._queue.put_nowait(order)

    async def run(self) -> None:
        while True:
            order = await self._queue.get()
            await self._carry_out(order)
            self._known.discard(order.order_id)

    def forget(self) -> None:
        """The orders that wait here are nobody's any more: their run is over."""
        self._known.clear()
        while not self._queue.empty():
            self._queue.get_nowait()

    def _remembered(self, order_id: str) -> wire.Answer | None:
        """The answer of an order that was carried out before, perhaps in an earlier life of the agent."""
        answer = self.shelf.answer(order_id)
        if answer is not None:
            return wire.Answer.FromString(answer)
        model = self.shelf.trained()
        if model is not None and model.order_id == order_id:  # it died before it could note the answer
            return wire.Answer(order_id=order_id, status=wire.Answer.DONE, train=_report(model.reply))
        return None if self.exchanges is None else self.exchanges.recall(order_id)

    async def _carry_out(self, order: wire.Order) -> None:
        match order.WhichOneof("kind"):
            case "idle":
                self.timeline.enter(Phase.IDLE if order.idle.present else Phase.ABSENT, order.step)
            case "discard":
                self.shelf.release(order.discard.train_order_id, as_own=order.discard.keeps_model)
            case "sync":
                await self._answer(order, await self._attempt(self._sync, order))
            case "train":
                await self._answer(order, await self._attempt(self._train, order))
            case "exchange" if self.exchanges is not None:
                await self._answer(order, await self._attempt(self.exchanges.carry_out, order))
            case "upload" if self.exchanges is not None and not order.upload.train_order_id:
                current = self.timeline.current
                await self._answer(order, await self._attempt(self.exchanges.collect, order))
                if current is not None and current.phase is Phase.ABSENT:  # who is away gives its model, too
                    self.timeline.enter(Phase.ABSENT, order.step)
            case "upload":
                await self._answer(order, await self._attempt(self._upload, order))
            case "transfer":
                await self._answer(order, await self._attempt(self._transfer, order))
            case kind:
                await self._answer(
                    order,
                    wire.Answer(status=wire.Answer.REFUSED, reason=f"order of unknown kind {kind!r}"),
                )

    async def _attempt(
        self, action: Callable[[wire.Order], Awaitable[wire.Answer]], order: wire.Order
    ) -> wire.Answer:
        try:
            return await action(order)
        except TrainerRefused as error:
            return wire.Answer(status=wire.Answer.REFUSED, reason=str(error))
        except (RoambenchError, TrainerDied, OSError) as error:
            return wire.Answer(status=wire.Answer.FAILED, reason=str(error))
        finally:
            current = self.timeline.current
            if current is None or current.phase is not Phase.WAIT:
                self.timeline.enter(Phase.WAIT, order.step)

    async def _train(self, order: wire.Order) -> wire.Answer:
        spec, order_id = order.train, order.order_id
        await self.fall_quiet()
        self.event("download started", order_id)
        start_path, previous_path = self.folder / "start.blob", self.folder / "previous.blob"
        download = last = await self._fetch(order, spec.start_digest, start_path)
        if spec.previous_digest:
            last = await self._fetch(order, spec.previous_digest, previous_path, download.transferred_bytes)
            download = Transfer(
                download.transferred_bytes + last.transferred_bytes, download.duration_s + last.duration_s
            )

        started_ns = self.timeline.enter(
            Phase.TRAIN,
            order.step,
            order_id=order_id,
            train_order_id=order_id,
            transferred_bytes=last.transferred_bytes,
        )
        self.event("train started", order_id)
        draft = self.shelf.draft(order_id)
        job = TrainJob(
            start_path=str(start_path),
            out_path=str(draft),
            own_path=str(self.shelf.own_model() or ""),
            global_path=str(self.shelf.global_model() or ""),
            start_rule=spec.start_rule,
            objective=spec.objective,
            local_epochs=spec.local_epochs,
            seed=spec.seed,
            previous_path=str(previous_path) if spec.previous_digest else "",
            local_steps=spec.local_steps,
        )
        outcome, ended_ns, late_s = await self.train_for_its_time(job, order.step, started_ns)
        device_s = (ended_ns - started_ns) * 1e-9
        reply = _train_reply(outcome, download, device_s, late_s)
        # Beside the loop: syncing 2.6 MB takes an SD card some tenths of a second, and meter lines are
        # stamped when they arrive.
        await asyncio.to_thread(self.shelf.keep, order_id, reply, draft)
        self.event("train finished", order_id)
        return wire.Answer(status=wire.Answer.DONE, train=_report(reply))

    async def _fetch(
        self, order: wire.Order, digest: bytes, path: Path, transferred_bytes: int = 0
    ) -> Transfer:
        """Download a model of a train order to `path`, in a phase of its own (`transferred_bytes`: of the
        phase that ends with its beginning)."""
        spec, order_id = order.train, order.order_id
        self.timeline.enter(
            Phase.DOWNLOAD,
            order.step,
            order_id=order_id,
            train_order_id=order_id,
            mbit_s=spec.download_mbit_s,
            transferred_bytes=transferred_bytes,
        )
        blob, download = await self.link().download(
            order_id,
            spec.ap,
            digest.hex(),
            self.limit_s(order),
            lambda total_bytes: self.moving(total_bytes, spec.download_mbit_s),
        )
        overwrite(path, blob)
        return download

    async def _upload(self, order: wire.Order) -> wire.Answer:
        spec, order_id = order.upload, order.order_id
        model = self.shelf.trained()
        if model is None or model.order_id != spec.train_order_id:
            return wire.Answer(
                status=wire.Answer.REFUSED, reason=f"no trained model of {spec.train_order_id} on disk"
            )
        await self.fall_quiet()
        self.event("upload started", order_id)
        self.timeline.enter(
            Phase.UPLOAD,
            order.step,
            order_id=order_id,
            train_order_id=spec.train_order_id,
            mbit_s=spec.upload_mbit_s,
        )
        blob = model.path.read_bytes()
        self.moving(len(blob), spec.upload_mbit_s)
        sent = await self.link().upload(
            order_id,
            spec.train_order_id,
            spec.ap,
            blob,
            model.reply.model_digest,
            spec.upload_mbit_s,
            self.limit_s(order),
        )
        self.timeline.enter(Phase.WAIT, order.step, transferred_bytes=sent.transferred_bytes)
        # Only now: the controller has it, digest checked.
        self.shelf.release(spec.train_order_id, as_own=spec.keeps_model)
        report = wire.UploadReport(
            uploaded_bytes=sent.transferred_bytes,
            upload_s=sent.duration_s,
            model_digest=bytes.fromhex(model.reply.model_digest),
        )
        return wire.Answer(status=wire.Answer.DONE, upload=report)

    async def _sync(self, order: wire.Order) -> wire.Answer:
        spec, order_id = order.sync, order.order_id
        if spec.free:
            return await self._sync_for_free(order)
        await self.fall_quiet()
        self.event("download started", order_id)
        self.timeline.enter(Phase.DOWNLOAD, order.step, order_id=order_id, mbit_s=spec.download_mbit_s)
        blob, download = await self.link().download(
            order_id,
            spec.ap,
            spec.digest.hex(),
            self.limit_s(order),
            lambda total_bytes: self.moving(total_bytes, spec.download_mbit_s),
        )
        self.timeline.enter(Phase.WAIT, order.step, transferred_bytes=download.transferred_bytes)
        await asyncio.to_thread(self.shelf.synchronise, blob)
        report = wire.SyncReport(downloaded_bytes=download.transferred_bytes, download_s=download.duration_s)
        return wire.Answer(status=wire.Answer.DONE, sync=report)

    async def _sync_for_free(self, order: wire.Order) -> wire.Answer:
        """The same in a waiting phase: a reading of the papers in which this is no communication."""
        spec = order.sync
        self.timeline.enter(Phase.WAIT, order.step)
        blob, _ = await self.link().download(
            order.order_id, spec.ap, spec.digest.hex(), self.limit_s(order), lambda total_bytes: None
        )
        await asyncio.to_thread(self.shelf.synchronise, blob)
        return wire.Answer(status=wire.Answer.DONE, sync=wire.SyncReport())

    async def _transfer(self, order: wire.Order) -> wire.Answer:
        """Ballast, back to back: one phase per transfer, without a gap between them."""
        spec, order_id = order.transfer, order.order_id
        if not (
            1 <= spec.total_bytes <= MAX_BLOB_BYTES and spec.repeats >= 1 and 0.0 <= spec.mbit_s < math.inf
        ):
            return wire.Answer(
                status=wire.Answer.REFUSED,
                reason=f"{spec.repeats} transfers of {spec.total_bytes} bytes at {spec.mbit_s} Mbit/s",
            )
        phase = Phase.UPLOAD if spec.upload else Phase.DOWNLOAD
        link, limit_s = self.link(), self.limit_s(order)
        await self.fall_quiet()
        moved, seconds = 0, 0.0
        for _ in range(spec.repeats):
            self.timeline.enter(
                phase,
                order.step,
                order_id=order_id,
                mbit_s=spec.mbit_s,
                transferred_bytes=spec.total_bytes if moved else 0,
            )
            self.moving(spec.total_bytes, spec.mbit_s)
            if spec.upload:
                done = await link.send_ballast(order_id, spec.total_bytes, spec.mbit_s, limit_s)
            else:
                done = await link.fetch_ballast(order_id, spec.total_bytes, limit_s)
            moved += done.transferred_bytes
            seconds += done.duration_s
        self.timeline.enter(Phase.WAIT, order.step, transferred_bytes=spec.total_bytes)
        report = wire.TransferReport(transfers=spec.repeats, transferred_bytes=moved, transfer_s=seconds)
        return wire.Answer(status=wire.Answer.DONE, transfer=report)

    async def train_for_its_time(
        self, job: TrainJob, step: int, started_ns: int
    ) -> tuple[TrainOutcome, int, float]:
        """Train, then wait; returns the outcome, the stamp at which the board was done, and the lateness.

        An emulated board is done when its SGD steps are over (`sgd_step_s` each, or CPU-seconds x
        `cpu_slowdown`), whatever else keeps this machine busy: its power falls then. If the real training
        needs longer, the board waits, and by how much (device seconds) is told, so that the run is flagged.
        """
        training = asyncio.ensure_future(self.worker.train(job))
        if self.cpu_slowdown is None:
            outcome = await training
            return outcome, self.timeline.enter(Phase.WAIT, step), 0.0
        step_s = self.sgd_step_s or self.worker.step_cpu_s * self.cpu_slowdown
        expected_s = step_s * self.worker.sgd_steps(job.local_epochs, job.local_steps)
        due_ns = started_ns + round(expected_s * 1e9)
        left_s = self.clock.host_seconds((due_ns - self.clock.now_ns()) * 1e-9)
        await asyncio.wait({training}, timeout=max(0.0, left_s))
        if training.done():
            outcome = training.result()
            await self.clock.sleep_until_ns(due_ns)
            return outcome, self.timeline.enter(Phase.WAIT, step), 0.0
        ended_ns = self.timeline.enter(Phase.WAIT, step)
        outcome = await training
        return outcome, ended_ns, (self.clock.now_ns() - due_ns) * 1e-9

    async def _answer(self, order: wire.Order, answer: wire.Answer) -> None:
        answer.order_id = order.order_id
        self.shelf.remember(order.order_id, answer.SerializeToString())
        delay_s = self.chaos.fixed_delay_s
        if self.chaos.random_delay_s > 0:
            draw = generator(self.chaos.seed, f"reply delay {order.order_id}").random()
            delay_s += self.chaos.random_delay_s * float(draw)
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        self.emit(wire.AgentFrame(answer=answer))

    async def fall_quiet(self) -> None:
        if self.before_phase is not None:
            await self.before_phase()

    def event(self, kind: str, order_id: str) -> None:
        """Tell the controller now (it may watch live) and keep it in the spool (it will be there later)."""
        ns = self.clock.now_ns()
        self.timeline.alive(ns)
        self.record(RecordKind.EVENT, AgentEvent(kind, ns, order_id).to_bytes())
        self.emit(wire.AgentFrame(event=wire.Event(order_id=order_id, kind=kind, monotonic_ns=ns)))

    def limit_s(self, order: wire.Order) -> float:
        """Host seconds a transfer may take: after its deadline nobody waits for an order's answer."""
        return self.clock.host_seconds(order.deadline_s)

    def link(self) -> DataLink:
        if self.data is None:
            raise ConnectionError("no data plane: the controller has not welcomed this agent yet")
        return self.data


def overwrite(path: Path, blob: bytes) -> None:
    """Write over the old bytes: a file that is truncated first is flushed when closed (4 ms, not 0.2)."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(blob)
        file.truncate(len(blob))


def _train_reply(outcome: TrainOutcome, download: Transfer, device_s: float, late_s: float) -> TrainReply:
    return TrainReply(
        samples=outcome.samples,
        sgd_steps=outcome.sgd_steps,
        mean_loss=outcome.mean_loss,
        mean_squared_loss=outcome.mean_squared_loss,
        model_digest=outcome.model_digest,
        cpu_s=outcome.cpu_s,
        device_s=device_s,
        late_s=late_s,
        downloaded_bytes=download.transferred_bytes,
        download_s=download.duration_s,
    )


def _report(reply: TrainReply) -> wire.TrainReport:
    return wire.TrainReport(**{**asdict(reply), "model_digest": bytes.fromhex(reply.model_digest)})
