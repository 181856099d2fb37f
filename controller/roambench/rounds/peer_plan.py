"""From who meets whom to the orders of one iteration, and from answers to records; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy

from roambench.aggregation.connectivity import neighbourhood_distances, spectral_gap
from roambench.aggregation.mixing import mixing_row
from roambench.aggregation.mixing_rule import Mixing
from roambench.contract.draws import draw_key
from roambench.contract.orders import (
    NO_MODEL_HELD,
    Answer,
    AnswerStatus,
    ExchangeOrder,
    ExchangeReply,
    IdleOrder,
    UploadOrder,
    order_id,
)
from roambench.contract.phases import Outcome
from roambench.rounds.peer_run import PeerSettings
from roambench.rounds.records import MixingPlanned, ModelsExchanged, OutcomeDecided


def plan_exchanges(
    settings: PeerSettings, mixing: Mixing, step: int, present: Sequence[int], starts: Mapping[int, str]
) -> list[ExchangeOrder]:
    """One order per present device, ascending. `starts`: the digest to start from, for those who need one.

    An absent neighbour in W counts as left out: its weight is added to the device's own.
    """
    here = np.zeros(mixing.shape[0], np.bool_)
    here[list(present)] = True
    orders = []
    for device in present:
        sources, weights = mixing_row(mixing, device)
        own = float(weights[sources == device][0])
        for weight in weights[~here[sources]].tolist():
            own += weight
        others = here[sources] & (sources != device)
        orders.append(
            ExchangeOrder(
                order_id=order_id(settings.run_id, step, device, "exchange"),
                device=device,
                step=step,
                neighbours=tuple(sources[others].tolist()),
                weights=tuple(weights[others].tolist()),
                own_weight=own,
                training=replace(settings.training, seed=draw_key(settings.seed, "train", device, step)),
                start_digest=starts.get(device, ""),
                exchange_mbit_s=settings.exchange_mbit_s,
                deadline_s=settings.deadline_s,
            )
        )
    return orders


def plan_absent(settings: PeerSettings, step: int, present: Collection[int]) -> list[IdleOrder]:
    """Tell those who are away that they are, where the settings ask for it."""
    if not settings.orders_to_absent:
        return []
    here = set(present)
    return [
        IdleOrder(order_id(settings.run_id, step, device, "idle"), device, step, False)
        for device in range(len(settings.samples))
        if device not in here
    ]


def plan_collection(settings: PeerSettings, step: int) -> list[UploadOrder]:
    """Ask every device for the model that it holds, to score it; at no cost."""
    return [
        UploadOrder(
            order_id(settings.run_id, step, device, "collect"),
            device,
            step,
            ap=0,
            train_order_id="",
            keeps_model=True,
            free=True,
        )
        for device in range(len(settings.samples))
    ]


def mixing_record(
    settings: PeerSettings,
    orders: Sequence[ExchangeOrder],
    class_counts: npt.NDArray[np.int64] | None,
    step: int,
) -> MixingPlanned:
    """W as it was ordered, with the diagnostics of the step over the devices that are present. A device
    reaches the classes of each device whose model it is to get, at any weight."""
    counts = [0] * len(settings.samples)
    columns: list[int] = []
    weights: list[float] = []
    for order in orders:
        row = sorted([*zip(order.neighbours, order.weights, strict=True), (order.device, order.own_weight)])
        counts[order.device] = len(row)
        columns += [device for device, _ in row]
        weights += [weight for _, weight in row]
    gap = distance = None
    if orders:
        present = [order.device for order in orders]
        offsets = np.cumsum([0, *counts])
        if len(present) <= settings.spectral_gap_devices:
            whole = scipy.sparse.csr_array((weights, columns, offsets), shape=(len(counts), len(counts)))
            gap = spectral_gap(scipy.sparse.csr_array(whole[present][:, present]))
        if class_counts is not None:
            links = (np.ones(len(columns), np.bool_), columns, offsets)
            reached = scipy.sparse.csr_array(links, shape=(len(counts), len(counts)))
            distance = float(neighbourhood_distances(reached, class_counts)[present].mean())
    return MixingPlanned(step, tuple(counts), tuple(columns), tuple(weights), gap, distance)


def settle_exchange(order: ExchangeOrder, answer: Answer) -> tuple[ModelsExchanged | None, OutcomeDecided]:
    """Records of an exchange: a half step that was not done, or not reported as it should be, failed."""
    reply, status, why = answer.reply, answer.status, answer.reason
    if status is AnswerStatus.DONE and not (isinstance(reply, ExchangeReply) and reply.samples > 0):
        status, why = AnswerStatus.GARBAGE, "done without a report of at least one sample"
    if status is not AnswerStatus.DONE or not isinstance(reply, ExchangeReply):
        reason = f"{status.value}: {why}" if why else status.value
        return None, OutcomeDecided(order.step, order.device, order.order_id, Outcome.FAILED, reason)
    exchanged = ModelsExchanged(
        order.step,
        order.device,
        order.order_id,
        tuple(item.device for item in reply.left_out),
        tuple(item.reason for item in reply.left_out),
        reply.sent_bytes,
        reply.received_bytes,
        reply.exchange_s,
        reply.downloaded_bytes,
        reply.download_s,
        reply.model_digest,
        tuple(item.moved_bytes for item in reply.left_out),
        tuple(item.device for item in reply.not_taken),
        tuple(item.moved_bytes for item in reply.not_taken),
        _model_bytes(order, reply),
    )
    return exchanged, OutcomeDecided(order.step, order.device, order.order_id, Outcome.AGGREGATED)


def _model_bytes(order: ExchangeOrder, reply: ExchangeReply) -> int:
    """Bytes of one model that moved whole; 0 if none did. Bytes of broken transfers are in no model."""
    share = _share_of_a_model(order, reply)
    return min(share, reply.model_bytes or share)


def _share_of_a_model(order: ExchangeOrder, reply: ExchangeReply) -> int:
    came = len(order.neighbours) - len(reply.left_out)
    if came:
        return (reply.received_bytes - sum(item.moved_bytes for item in reply.left_out)) // came
    went = len(order.neighbours) - len(reply.not_taken)
    return (reply.sent_bytes - sum(item.moved_bytes for item in reply.not_taken)) // went if went else 0


def needs_start(answer: Answer) -> bool:
    """Return whether the device has lost its model: its next order names one to start from."""
    return answer.status is AnswerStatus.REFUSED and answer.reason == NO_MODEL_HELD
