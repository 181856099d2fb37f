"""Carries out program orders: download a message, let the program answer it, keep the answer."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from roambench.agent.background import undivided
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.program import Program
from roambench.agent.orders.workplace import Workplace, overwrite
from roambench.contract.events import EventKind
from roambench.contract.model_blob import decode_message, encode_message
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Answer, GivenOrder, ProgramOrder, TrainReply


@dataclass(frozen=True, slots=True)
class ProgramOrders:
    """The executor of program orders."""

    place: Workplace
    model_cache: ModelCache
    program: Program

    async def carry_out(self, given: GivenOrder, order: ProgramOrder) -> Answer:
        """Compute as ordered; the answer holds a report, or the order fails by an exception that says why."""
        place, order_id = self.place, order.order_id
        began_s = asyncio.get_running_loop().time()
        await self.program.ready()  # before the measured phases: one that has ended is loaded again, cold
        if not given.in_session:
            await place.connected(given)
        await place.rest_before(order.step)
        place.event(EventKind.DOWNLOAD_STARTED, order_id)
        blob, download = await place.download(
            given, order.ap, order.digest, order.download_mbit_s, train_order_id=order.training_id
        )
        before = await place.rest_after(order.step, download.moved)
        message = decode_message(blob)
        left_s = place.limit_s(given) - (asyncio.get_running_loop().time() - began_s)
        done = await place.compute(order, before, lambda: self.program.call(message, max(0.0, left_s)))
        answer = encode_message(done.computed.answer)
        draft = self.model_cache.draft(order_id)
        overwrite(draft, answer)
        reply = TrainReply(
            samples=0,
            sgd_steps=0,
            mean_loss=math.nan,
            mean_squared_loss=math.nan,
            model_digest=digest_of(answer),
            cpu_s=done.computed.cpu_s,
            device_s=done.device_s,
            late_s=done.late_s,
            downloaded_bytes=download.transferred_bytes,
            download_s=download.duration_s,
        )
        place.wait(order.step)
        await undivided(self.model_cache.keep, order_id, reply, draft)
        place.event(EventKind.EVALUATE_FINISHED if order.evaluates else EventKind.TRAIN_FINISHED, order_id)
        return given.done(reply)
