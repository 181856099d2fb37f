"""The wire stops here: orders become frames, answers become dataclasses, one function each way."""

from __future__ import annotations

import math

from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    DiscardOrder,
    ExchangeOrder,
    IdleOrder,
    Order,
    SyncOrder,
    SyncReply,
    Task,
    TrainOrder,
    TrainReply,
    TransferOrder,
    TransferReply,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.fleet.exchange_frames import PeerOf, exchange_message, exchange_reply, nobody
from roambench.wire.frames import training_message
from roambench.wire.v1 import control_pb2 as wire

_STATUS = {
    wire.Answer.DONE: AnswerStatus.DONE,
    wire.Answer.REFUSED: AnswerStatus.REFUSED,
    wire.Answer.FAILED: AnswerStatus.FAILED,
}


def order_frame(
    order: Order | TransferOrder, deadline_s: float, peer_of: PeerOf = nobody, resumes_at: int = 0
) -> wire.ControllerFrame:
    """The frame that gives `order` to an agent; `peer_of` tells a neighbour's name and address, `resumes_at`
    is the step that the run goes on with should the controller die (0: none)."""
    message = wire.Order(
        order_id=order.order_id, step=order.step, deadline_s=deadline_s, resumes_at=resumes_at
    )
    match order:
        case TrainOrder():
            message.train.CopyFrom(
                wire.TrainOrder(
                    ap=order.ap,
                    start_digest=bytes.fromhex(order.start_digest),
                    training=training_message(order.training),
                    download_mbit_s=order.download_mbit_s,
                    previous_digest=bytes.fromhex(order.previous_digest),
                )
            )
        case UploadOrder():
            message.upload.CopyFrom(
                wire.UploadOrder(
                    ap=order.ap,
                    train_order_id=order.train_order_id,
                    upload_mbit_s=order.upload_mbit_s,
                    keeps_model=order.keeps_model,
                    free=order.free,
                )
            )
        case ExchangeOrder():
            message.exchange.CopyFrom(exchange_message(order, peer_of))
        case DiscardOrder():
            message.discard.CopyFrom(
                wire.DiscardOrder(
                    train_order_id=order.train_order_id, reason=order.reason, keeps_model=order.keeps_model
                )
            )
        case SyncOrder():
            message.sync.CopyFrom(
                wire.SyncOrder(
                    ap=order.ap,
                    digest=bytes.fromhex(order.digest),
                    download_mbit_s=order.download_mbit_s,
                    free=order.free,
                )
            )
        case TransferOrder():
            message.transfer.CopyFrom(
                wire.TransferOrder(
                    upload=order.direction == "up",
                    total_bytes=order.total_bytes,
                    mbit_s=order.mbit_s,
                    repeats=order.repeats,
                )
            )
        case IdleOrder():
            message.idle.CopyFrom(wire.IdleOrder(present=order.present))
    return wire.ControllerFrame(order=message)


def answer_from(
    message: wire.Answer, order: Task | TransferOrder, model: Vector | None, uploads: int = 0
) -> Answer:
    """The answer to `order`. `model` is what arrived on the data plane for it, digest checked; `uploads` is
    how often ballast did.

    A DONE that cannot be true (no losses, no model, numbers that are none) becomes GARBAGE with its reason.
    """
    status = _STATUS.get(message.status)
    if status is None:
        return _garbage(order, f"answer with unknown status {message.status}")
    if status is not AnswerStatus.DONE:
        return Answer(order.order_id, order.device, order.step, status, message.reason[:500])
    if isinstance(order, TrainOrder):
        return _train_answer(message, order)
    if isinstance(order, TransferOrder):
        return _transfer_answer(message, order, uploads)
    if isinstance(order, SyncOrder):
        return _sync_answer(message, order)
    if isinstance(order, ExchangeOrder):
        reply_or_mistake = exchange_reply(message, order)
        if isinstance(reply_or_mistake, str):
            return _garbage(order, reply_or_mistake)
        return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply_or_mistake)
    if not message.HasField("upload") or model is None:
        return _garbage(order, "says done, but no model arrived on the data plane")
    reply = UploadReply(
        model, message.upload.model_digest.hex(), message.upload.uploaded_bytes, message.upload.upload_s
    )
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _train_answer(message: wire.Answer, order: TrainOrder) -> Answer:
    report = message.train
    numbers = (
        report.mean_loss,
        report.mean_squared_loss,
        report.cpu_s,
        report.device_s,
        report.late_s,
        report.download_s,
    )
    if not message.HasField("train") or report.samples < 1 or len(report.model_digest) != 32:
        return _garbage(order, "says done, but its training report is empty")
    if not all(math.isfinite(number) for number in numbers):
        return _garbage(order, "training report holds NaN or infinity")
    reply = TrainReply(
        samples=report.samples,
        sgd_steps=report.sgd_steps,
        mean_loss=report.mean_loss,
        mean_squared_loss=report.mean_squared_loss,
        model_digest=report.model_digest.hex(),
        cpu_s=report.cpu_s,
        device_s=report.device_s,
        late_s=report.late_s,
        downloaded_bytes=report.downloaded_bytes,
        download_s=report.download_s,
    )
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _sync_answer(message: wire.Answer, order: SyncOrder) -> Answer:
    report = message.sync
    if not message.HasField("sync") or not math.isfinite(report.download_s):
        return _garbage(order, "says done, but its sync report is empty or holds NaN or infinity")
    reply = SyncReply(report.downloaded_bytes, report.download_s)
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _transfer_answer(message: wire.Answer, order: TransferOrder, uploads: int) -> Answer:
    report = message.transfer
    planned = (order.repeats, order.repeats * order.total_bytes)
    if (report.transfers, report.transferred_bytes) != planned or not 0.0 < report.transfer_s < math.inf:
        return _garbage(order, "says done, but its transfer report does not fit the order")
    if order.direction == "up" and uploads < order.repeats:
        return _garbage(order, f"says done, but {uploads} of {order.repeats} uploads arrived")
    reply = TransferReply(report.transfers, report.transferred_bytes, report.transfer_s)
    return Answer(order.order_id, order.device, order.step, AnswerStatus.DONE, "", reply)


def _garbage(order: Task | TransferOrder, reason: str) -> Answer:
    return Answer(order.order_id, order.device, order.step, AnswerStatus.GARBAGE, reason)
