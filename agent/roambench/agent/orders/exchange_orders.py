"""Carries out exchange orders: a half step from the held model, then device to device, then hold the mix."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Final

from roambench.agent.background import undivided
from roambench.agent.orders.held_model import HeldModel
from roambench.agent.orders.worker import TrainerRefused, TrainJob
from roambench.agent.orders.workplace import Trained, Workplace, overwrite
from roambench.agent.peers.exchange import Mixed, Peers
from roambench.agent.peers.iteration import Iteration, Neighbour
from roambench.agent.peers.offers import HalfStep
from roambench.agent.session.data_link import ModelTransfer
from roambench.contract.errors import LinkError
from roambench.contract.events import EventKind
from roambench.contract.model_blob import encode, fits_session
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import (
    NO_MODEL_HELD,
    Answer,
    ExchangeOrder,
    ExchangeReply,
    GivenOrder,
    UploadOrder,
    UploadReport,
    rests_of,
)
from roambench.contract.phases import NOTHING_MOVED, Moved, Phase
from roambench.contract.session import KeptAnswer, Welcome
from roambench.wire.frames import serialised

#: Of the time in which an order has to be answered, this much is left for the mixing and the answer.
_ANSWER_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _HalfStepDone:
    """A half step, its figures, and what its start model cost to download."""

    model: HalfStep
    trained: Trained
    download: ModelTransfer


class _ExchangePhases:
    """The phases of an exchange: on the air, and resting while it waits for neighbours."""

    def __init__(self, place: Workplace, order: ExchangeOrder) -> None:
        self._place = place
        self._order = order
        self.booked_bytes = 0  # by the phases that have ended

    def begin(self) -> int:
        """Go on the air; returns the stamp."""
        order_id = self._order.order_id
        return self._place.timeline.enter(
            Phase.EXCHANGE,
            self._order.step,
            order_id=order_id,
            train_order_id=order_id,
            mbit_s=self._order.exchange_mbit_s,
        )

    async def pause(self, moved_bytes: int) -> None:
        """Leave the air, after `moved_bytes` of the exchange in all."""
        moved = Moved(moved_bytes - self.booked_bytes)
        self._place.timeline.enter(self._place.pause, self._order.step, moved=moved)
        self.booked_bytes = moved_bytes

    async def go_on(self) -> None:
        """Go on the air again."""
        await self._place.rest_before(self._order.step)
        self.begin()


@dataclass(slots=True)
class ExchangeOrders:
    """The executor of exchange orders, and of uploads that collect a held model."""

    place: Workplace
    peers: Peers
    held: HeldModel

    async def begin_run(self, welcome: Welcome) -> None:
        """Open the peer port if the run's devices exchange models, close it if they do not."""
        serials = [int(serial) for serial in welcome.revoked_serials if serial.isdecimal()]
        try:
            if not welcome.exchanges:
                await self.peers.close()
                return
            address = await self.peers.open(welcome.run_id, welcome.data_address, serials)
            self.place.reporter.report(EventKind.PEER_PORT_OPEN, address)
        except LinkError as error:
            self.place.reporter.report(EventKind.NO_PEER_PORT, str(error))
        finally:
            self.peers.decided.set()

    def recall(self, order_id: str) -> KeptAnswer | None:
        """The answer of the exchange that left the held model, if it was this one: it may be unsent."""
        held = self.held.last()
        if held is None or held.order_id != order_id:
            return None
        return KeptAnswer(held.answer)

    async def carry_out(self, given: GivenOrder, order: ExchangeOrder) -> Answer:
        """Answer an exchange order. Neighbours may ask for the half step as soon as this begins, and hear of
        it when there will be none."""
        if mistake := _mistake(order):
            return given.refused(mistake)
        neighbours = [
            Neighbour(device, peer.name, peer.address, weight)
            for device, peer, weight in zip(order.neighbours, given.peers, order.weights, strict=True)
        ]
        await self._port()
        held = None if order.start_digest else self.held.of_run(self.peers.run_id)
        began_ns = self.place.clock.now_ns()
        iteration = self.peers.announce(order.step, neighbours, order.exchange_mbit_s, self.place.load)
        try:
            if held is not None:
                start, velocity = str(held.model), str(held.velocity or "")
            elif order.start_digest:
                start, velocity = str(self.held.start), ""
            else:
                return given.refused(NO_MODEL_HELD)
            half_step = await self._half_step(given, order, start, velocity)
            if isinstance(half_step, Answer):
                return half_step
            return await self._exchange(given, order, iteration, half_step, began_ns)
        finally:
            iteration.offer.withhold("it has no half step in this iteration")

    async def collect(self, given: GivenOrder, order: UploadOrder) -> Answer:
        """Upload the held model, as it is, beside all measured phases; it stays held."""
        place = self.place
        await self._port()
        held = self.held.of_run(self.peers.run_id)
        if held is None:
            return given.refused(NO_MODEL_HELD)
        place.timeline.enter(Phase.WAIT, order.step)
        blob = await asyncio.to_thread(held.model.read_bytes)
        await place.transferred(
            given,
            lambda link, limit_s: link.upload(order.order_id, "", order.ap, blob, held.digest, 0.0, limit_s),
            in_session=fits_session(len(blob), order.upload_mbit_s),
        )
        return given.done(UploadReport(held.digest))

    async def _port(self) -> None:
        """Wait for the port: an agent that has just come back may get its order before it is open."""
        await self.peers.decided.wait()
        if not self.peers.address:
            raise LinkError("the peer port is closed: no exchange")

    async def _half_step(
        self, given: GivenOrder, order: ExchangeOrder, start: str, velocity: str
    ) -> _HalfStepDone | Answer:
        """Train a half step; or the answer of a device that cannot."""
        place, order_id = self.place, order.order_id
        await place.worker.ready()  # as for a train order
        if order.start_digest and not given.in_session:
            await place.connected(given)
        await place.rest_before(order.step)
        download, before = ModelTransfer(NOTHING_MOVED, 0.0), NOTHING_MOVED
        if order.start_digest:
            download = await self._download(given, order)
            before = await place.rest_after(order.step, download.moved)
        job = TrainJob(
            start_path=start,
            out_path=str(self.held.half_step),
            own_path="",
            global_path=start,
            training=order.training,
            velocity_path=velocity,
            velocity_out_path=str(self.held.velocity_draft(order_id)),
        )
        try:
            trained = await place.train(order_id, order.step, job, before)
        except TrainerRefused as refused:
            return given.refused(str(refused), place.cost(ExchangeReply, order.training, refused, download))
        blob = await asyncio.to_thread(self.held.half_step.read_bytes)
        place.event(EventKind.TRAIN_FINISHED, order_id)
        return _HalfStepDone(HalfStep(blob, trained.outcome.model_digest), trained, download)

    async def _download(self, given: GivenOrder, order: ExchangeOrder) -> ModelTransfer:
        """The published start model, in one phase."""
        self.place.event(EventKind.DOWNLOAD_STARTED, order.order_id)
        blob, download = await self.place.download(
            given, 0, order.start_digest, order.download_mbit_s, train_order_id=order.order_id
        )
        overwrite(self.held.start, blob)
        return download

    async def _exchange(
        self,
        given: GivenOrder,
        order: ExchangeOrder,
        iteration: Iteration,
        done: _HalfStepDone,
        began_ns: int,
    ) -> Answer:
        place, order_id = self.place, order.order_id
        await place.rest_before(order.step)
        phases = _ExchangePhases(place, order)
        started_ns = phases.begin()
        place.event(EventKind.EXCHANGE_STARTED, order_id)
        rests_s = place.rest_s * rests_of(order)  # what they take of the time is none of the exchange's
        until_s = (1.0 - _ANSWER_SHARE) * (given.deadline_s - rests_s) + rests_s - place.rest_s
        left_s = until_s - (started_ns - began_ns) * 1e-9
        limit_s = place.clock.host_seconds(max(0.0, min(order.deadline_s, left_s)))
        mixed = await self.peers.exchange(
            iteration, done.model, order.device, order.own_weight, limit_s, phases
        )
        moved_bytes = mixed.sent_bytes + mixed.received_bytes - phases.booked_bytes
        left = await place.rest_after(order.step, Moved(moved_bytes))
        place.timeline.enter(Phase.WAIT, order.step, moved=left)
        place.event(EventKind.EXCHANGE_FINISHED, order_id)
        blob, digest = await asyncio.to_thread(_encoded, mixed)
        answer = given.done(_reply(done, mixed, digest))
        await undivided(self.held.keep, self.peers.run_id, order_id, blob, digest, serialised(answer))
        return answer


def _mistake(order: ExchangeOrder) -> str:
    """Return why an order cannot be carried out; empty when it can."""
    devices = list(order.neighbours)
    if devices != sorted(set(devices)) or order.device in devices:
        return f"neighbours {devices[:20]} of device {order.device}: expected others, ascending"
    if not all(map(math.isfinite, (order.own_weight, *order.weights))):
        return "a weight is NaN or infinite"
    if not (0.0 <= order.exchange_mbit_s < math.inf and 0.0 < order.deadline_s < math.inf):
        return f"{order.exchange_mbit_s} Mbit/s within {order.deadline_s} s"
    return ""


def _encoded(mixed: Mixed) -> tuple[bytes, str]:
    blob = encode(mixed.model, mixed.layout)
    return blob, digest_of(blob)


def _reply(done: _HalfStepDone, mixed: Mixed, digest: str) -> ExchangeReply:
    outcome = done.trained.outcome
    return ExchangeReply(
        samples=outcome.samples,
        sgd_steps=outcome.sgd_steps,
        mean_loss=outcome.mean_loss,
        mean_squared_loss=outcome.mean_squared_loss,
        model_digest=digest,
        left_out=mixed.left_out,
        not_taken=mixed.not_taken,
        sent_bytes=mixed.sent_bytes,
        received_bytes=mixed.received_bytes,
        exchange_s=mixed.duration_s,
        cpu_s=outcome.cpu_s,
        device_s=done.trained.device_s,
        late_s=done.trained.late_s,
        downloaded_bytes=done.download.transferred_bytes,
        download_s=done.download.duration_s,
        model_bytes=len(done.model.blob),
    )
