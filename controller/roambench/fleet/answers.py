"""Answers of agents as dataclasses: what cannot be true is garbage."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TypeVar

from roambench.contract.model_digest import is_digest
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    ExchangeOrder,
    ExchangeReply,
    LeftOut,
    ProgramOrder,
    SyncOrder,
    SyncReply,
    Task,
    TrainOrder,
    TrainReply,
    TransferOrder,
    TransferReply,
    UploadReply,
)
from roambench.contract.printable import printable
from roambench.wire.fields import word_of
from roambench.wire.v1 import control_pb2 as wire

Cost = TypeVar("Cost", TrainReply, ExchangeReply)

_STATUS = {
    wire.Answer.DONE: AnswerStatus.DONE,
    wire.Answer.REFUSED: AnswerStatus.REFUSED,
    wire.Answer.FAILED: AnswerStatus.FAILED,
    wire.Answer.TIMEOUT: AnswerStatus.TIMEOUT,
}


def answer_from(
    message: wire.Answer,
    order: Task | TransferOrder,
    received: UploadReply | None,
    uploads: int = 0,
    *,
    by_program: bool = False,
) -> Answer:
    """The answer to `order`. `received` is the model that arrived for it, digest checked; `uploads`
    is how often padding did. `by_program`: programs train, of which no steps and perhaps no losses are known.

    A DONE that cannot be true (no losses, no model, numbers that are none) becomes GARBAGE with its reason.
    What a training that was REFUSED has cost is kept, if that can be true.
    """
    status = _STATUS.get(message.status)
    if status is None:
        return _garbage(order, f"answer with unknown status {message.status}")
    if status is not AnswerStatus.DONE:
        cost = _cost(message, order) if status is AnswerStatus.REFUSED else None
        reason = printable(message.reason[:500])
        return Answer(order.order_id, order.device, order.step, status, reason, cost)
    if isinstance(order, TrainOrder):
        return _train_answer(message, order, by_program=by_program)
    if isinstance(order, ProgramOrder):
        return _program_answer(message, order)
    if isinstance(order, TransferOrder):
        return _transfer_answer(message, order, uploads)
    if isinstance(order, SyncOrder):
        return _sync_answer(message, order)
    if isinstance(order, ExchangeOrder):
        reply_or_mistake = _exchange_reply(message, order)
        if isinstance(reply_or_mistake, str):
            return _garbage(order, reply_or_mistake)
        return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply_or_mistake)
    if not message.HasField("upload") or received is None:
        return _garbage(order, "says done, but no model arrived on the data plane")
    report = word_of(UploadReply, message.upload, model=received.model)
    if not all(0.0 <= seconds < math.inf for seconds in (report.upload_s, report.coding_s)):
        return _garbage(order, "says done, but its upload report holds NaN, infinity or less than nothing")
    reply = replace(report, message=received.message)
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _cost(message: wire.Answer, order: Task | TransferOrder) -> TrainReply | ExchangeReply | None:
    """Return the cost of a training or a half step that made no model: no losses, and nothing exchanged."""
    if isinstance(order, TrainOrder) and message.HasField("train"):
        return _costs(TrainReply, message.train)
    if isinstance(order, ExchangeOrder) and message.HasField("exchange"):
        return _costs(ExchangeReply, message.exchange)
    return None


def _costs(kind: type[Cost], report: wire.TrainReply | wire.ExchangeReply) -> Cost | None:
    if not all(0.0 <= seconds < math.inf for seconds in (report.device_s, report.download_s)):
        return None
    return kind(
        samples=report.samples,
        sgd_steps=report.sgd_steps,
        mean_loss=math.nan,
        mean_squared_loss=math.nan,
        model_digest="",
        device_s=report.device_s,
        downloaded_bytes=report.downloaded_bytes,
        download_s=report.download_s,
    )


def _train_answer(message: wire.Answer, order: TrainOrder, *, by_program: bool) -> Answer:
    reply = word_of(TrainReply, message.train)
    without_losses = by_program and math.isnan(reply.mean_loss) and math.isnan(reply.mean_squared_loss)
    believed = replace(reply, mean_loss=0.0, mean_squared_loss=0.0) if without_losses else reply
    if mistake := _mistake_of_learning(believed, "training"):
        return _garbage(order, mistake)
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _program_answer(message: wire.Answer, order: ProgramOrder) -> Answer:
    """Samples and losses in the answer are not believed: they are known to the programs alone."""
    report = word_of(TrainReply, message.train)
    reply = replace(report, samples=0, sgd_steps=0, mean_loss=math.nan, mean_squared_loss=math.nan)
    spent = (reply.cpu_s, reply.device_s, reply.late_s, reply.download_s, reply.coding_s)
    if not is_digest(reply.model_digest) or not all(0.0 <= seconds < math.inf for seconds in spent):
        return _garbage(order, "says done, but its program report is empty or holds NaN or infinity")
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _mistake_of_learning(reply: TrainReply | ExchangeReply, name: str) -> str:
    if reply.samples < 1 or not is_digest(reply.model_digest):
        return f"says done, but its {name} report is empty"
    numbers = [getattr(reply, field.name) for field in fields(reply)]
    if not all(math.isfinite(number) for number in numbers if isinstance(number, float)):
        return f"{name} report holds NaN or infinity"
    return ""


def _sync_answer(message: wire.Answer, order: SyncOrder) -> Answer:
    reply = word_of(SyncReply, message.sync)
    if not message.HasField("sync") or not math.isfinite(
        reply.download_s + reply.coding_s + (reply.divergence or 0.0)
    ):
        return _garbage(order, "says done, but its sync report is empty or holds NaN or infinity")
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _transfer_answer(message: wire.Answer, order: TransferOrder, uploads: int) -> Answer:
    reply = word_of(TransferReply, message.transfer)
    planned = (order.repeats, order.repeats * order.total_bytes)
    if (reply.transfers, reply.transferred_bytes) != planned or not 0.0 < reply.transfer_s < math.inf:
        return _garbage(order, "says done, but its transfer report does not fit the order")
    if order.upload and uploads < order.repeats:
        return _garbage(order, f"says done, but {uploads} of {order.repeats} uploads arrived")
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _garbage(order: Task | TransferOrder, reason: str) -> Answer:
    return Answer(order.order_id, order.device, order.step, AnswerStatus.GARBAGE, reason)


def _exchange_reply(message: wire.Answer, order: ExchangeOrder) -> ExchangeReply | str:
    """The content of a DONE answer, or why it cannot be true."""
    reply = word_of(ExchangeReply, message.exchange)
    if mistake := _mistake_of_learning(reply, "exchange"):
        return mistake
    for shortfalls in (reply.left_out, reply.not_taken):
        devices = [short.device for short in shortfalls]
        if devices != sorted(set(devices)) or not set(devices) <= set(order.neighbours):
            return "exchange report names devices that are no neighbours"
    return replace(reply, left_out=_bounded(reply.left_out), not_taken=_bounded(reply.not_taken))


def _bounded(shortfalls: tuple[LeftOut, ...]) -> tuple[LeftOut, ...]:
    return tuple(replace(short, reason=printable(short.reason[:300])) for short in shortfalls)
