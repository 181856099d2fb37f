"""Exchange orders and their reports on the wire."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from roambench.contract.orders import ExchangeOrder, ExchangeReply, LeftOut
from roambench.wire.frames import training_message
from roambench.wire.v1 import control_pb2 as wire


@dataclass(frozen=True, slots=True)
class Peer:
    """A device as its neighbours find it; no `address`: nobody does."""

    name: str
    address: str


PeerOf = Callable[[int], Peer]


def nobody(device: int) -> Peer:
    """Of a fleet whose devices do not exchange."""
    return Peer(f"device {device}", "")


def exchange_message(order: ExchangeOrder, peer_of: PeerOf) -> wire.ExchangeOrder:
    """The order with everything that its device needs to find its neighbours and to know them."""
    peers = [peer_of(device) for device in order.neighbours]
    return wire.ExchangeOrder(
        device=order.device,
        neighbours=[
            wire.ExchangeOrder.Neighbour(device=device, name=peer.name, address=peer.address, weight=weight)
            for device, peer, weight in zip(order.neighbours, peers, order.weights, strict=True)
        ],
        own_weight=order.own_weight,
        training=training_message(order.training),
        start_digest=bytes.fromhex(order.start_digest),
        download_mbit_s=order.download_mbit_s,
        exchange_mbit_s=order.exchange_mbit_s,
        deadline_s=order.deadline_s,
    )


def exchange_reply(message: wire.Answer, order: ExchangeOrder) -> ExchangeReply | str:
    """What a DONE answer tells, or why it cannot be true."""
    report = message.exchange
    numbers = (
        report.mean_loss,
        report.mean_squared_loss,
        report.exchange_s,
        report.cpu_s,
        report.device_s,
        report.late_s,
        report.download_s,
    )
    if not message.HasField("exchange") or report.samples < 1 or len(report.model_digest) != 32:
        return "says done, but its exchange report is empty"
    if not all(math.isfinite(number) for number in numbers):
        return "exchange report holds NaN or infinity"
    for shortfalls in (report.left_out, report.not_taken):
        devices = [short.device for short in shortfalls]
        if devices != sorted(set(devices)) or not set(devices) <= set(order.neighbours):
            return "exchange report names devices that are no neighbours"
    return ExchangeReply(
        samples=report.samples,
        sgd_steps=report.sgd_steps,
        mean_loss=report.mean_loss,
        mean_squared_loss=report.mean_squared_loss,
        model_digest=report.model_digest.hex(),
        left_out=_left_out(report.left_out),
        not_taken=_left_out(report.not_taken),
        sent_bytes=report.sent_bytes,
        received_bytes=report.received_bytes,
        exchange_s=report.exchange_s,
        cpu_s=report.cpu_s,
        device_s=report.device_s,
        late_s=report.late_s,
        downloaded_bytes=report.downloaded_bytes,
        download_s=report.download_s,
        model_bytes=report.model_bytes,
    )


def _left_out(shortfalls: Iterable[wire.ExchangeReport.Shortfall]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(short.device, short.reason[:300], short.moved_bytes) for short in shortfalls)
