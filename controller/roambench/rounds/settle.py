"""From the answers of a step to aggregations and outcomes; pure. Everything is sorted before it is summed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    ExchangeReply,
    Order,
    SyncOrder,
    SyncReply,
    TrainOrder,
    TrainReply,
    TransferReply,
    UploadReply,
    UploadReport,
    Vector,
)
from roambench.contract.phases import Outcome
from roambench.rounds.extra_vectors import MODEL_ALONE, ExtraVectors
from roambench.rounds.record_batch import RecordBatch
from roambench.rounds.records import OrderAnswered, OutcomeDecided
from roambench.rounds.rule_answers import Aggregate, checked_aggregate
from roambench.rounds.state import CLOUD_KEY, RoundState
from roambench.systems.system import ApWork, CloudInput, Participants, SpentEnergy, System, Training

#: After these the device may still hold the model, or still be working on it.
_MAY_STILL_HOLD = frozenset({AnswerStatus.LOST, AnswerStatus.TIMEOUT, AnswerStatus.FAILED})


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A training that no access point will aggregate, and why."""

    training: Training
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """A training whose model reached an AP, and its utility where the system's selection wants one."""

    training: Training
    utility: float | None = None


@dataclass(frozen=True, slots=True)
class Uploads:
    """Results of the uploads: arrivals and new models by AP (both ascending), trainings given up, trainings
    kept in Tr because the upload failed and may be tried again (with the answer's status)."""

    arrived: Mapping[int, tuple[Arrival, ...]]
    edges: Mapping[int, Aggregate]
    given_up: tuple[GivenUp, ...]
    failed: Mapping[int, AnswerStatus]


@dataclass(frozen=True, slots=True)
class Trainings:
    """Results of the train orders, ascending by device. Those that a device refused ended, too, and are
    among the `finished` ones. A lost or late one may still finish on its device, where no order wants it any
    more: `may_linger`."""

    finished: tuple[Training, ...]
    failed: tuple[OutcomeDecided, ...]
    may_linger: frozenset[int]


def judge_upload(answer: Answer, training: Training, reference: Vector) -> Vector | GivenUp | AnswerStatus:
    """The model that arrived, or why the training is given up, or the status of an upload that failed and
    may be tried again. `reference` is any model of the run: an upload must have its shape and be finite."""
    if answer.status in _MAY_STILL_HOLD:
        return answer.status
    if answer.status is AnswerStatus.REFUSED:
        return GivenUp(training, Outcome.FAILED, _reason("refused", answer.reason))
    model, doubt = _uploaded_model(answer, reference)
    if model is None:
        return GivenUp(training, Outcome.FAILED, _reason("upload garbage", doubt))
    return model


def settle_trainings(
    orders: Sequence[TrainOrder],
    answers: Mapping[str, Answer],
    distances_m: Mapping[int, float],
    *,
    keeps_bases: bool = False,
) -> Trainings:
    """A training that did not end failed with the answer's reason, and its device is not in Tr. One that is
    REFUSED ended without a model: it has failed as soon as an AP asks for that (`spoiled`), as on virtual
    devices, whose trainings may be computed only then. `distances_m` of devices to the APs of their
    orders."""
    finished, failed, may_linger = [], [], set()
    for order in sorted(orders, key=lambda order: order.device):
        answer = answers[order.order_id]
        status, why = answer.status, answer.reason
        if status is AnswerStatus.DONE:
            if isinstance(answer.reply, TrainReply) and answer.reply.samples > 0:
                base = order.start_digest if keeps_bases else ""
                finished.append(_training(order, answer.reply, distances_m[order.device], base))
                continue
            status, why = AnswerStatus.GARBAGE, "done without a report of at least one sample"
        reason = _reason(status.value, why)
        if status is AnswerStatus.REFUSED:
            refused = Training(order.device, order.step, order.ap, order.order_id, 0, refused=reason)
            finished.append(refused)
            continue
        failed.append(OutcomeDecided(order.step, order.device, order.order_id, Outcome.FAILED, reason))
        if status is not AnswerStatus.FAILED:
            may_linger.add(order.device)
    return Trainings(tuple(finished), tuple(failed), frozenset(may_linger))


def settle_syncs(orders: Sequence[SyncOrder], answers: Mapping[str, Answer]) -> frozenset[int]:
    """Devices that now have the global model; the others are asked again when they are next present."""
    return frozenset(order.device for order in orders if answers[order.order_id].status is AnswerStatus.DONE)


def divergence(answers: Mapping[str, Answer], device_samples: Sequence[int]) -> float | None:
    """MIDDLE Eq. 23 over the devices that reported it when the global model reached them: the mean of
    |w_c - w_m| / |w_c| by their samples d_m; None where none did."""
    reported = [
        (device_samples[answer.device], answer.reply.divergence)
        for answer in sorted(answers.values(), key=lambda answer: answer.device)
        if isinstance(answer.reply, SyncReply) and answer.reply.divergence is not None
    ]
    if not reported:
        return None
    return math.fsum(samples * share for samples, share in reported) / sum(samples for samples, _ in reported)


def aggregate_cloud(
    system: System,
    state: RoundState,
    device_samples: Sequence[int],
    extra: ExtraVectors = MODEL_ALONE,
    spent: Mapping[int, SpentEnergy] | None = None,
    charges: Mapping[int, float] | None = None,
) -> Aggregate | None:
    """Cloud aggregation over the participating APs; None while no AP has aggregated anything."""
    if not state.participating:
        return None
    everyone = system.cloud_participants is Participants.ALL
    aps = tuple(range(len(state.ap_digests))) if everyone else tuple(sorted(state.participating))
    done = [state.edge_work.get(ap, ApWork()) for ap in aps]
    before, held = state.global_model, [state.models[state.ap_digests[ap]] for ap in aps]
    reference = extra.model(before)
    answer = system.cloud_weights(
        CloudInput(
            reference=reference,
            aps=aps,
            models=[extra.model(one) for one in held],
            aggregated_samples=[work.samples for work in done],
            device_samples=device_samples,
            ap_count=len(state.ap_digests),
            step=state.next_step,
            last_sync_step=state.last_sync_step,
            work=done,
            memory=state.memories.get(CLOUD_KEY, {}),
            trained=extra.length,
            energy=spent or {},
            charges=charges or {},
        )
    )
    where = f"system {system.name!r}: cloud_weights at step {state.next_step}"
    found = checked_aggregate(aps, answer, reference, where)
    return replace(found, model=extra.in_cloud(found.model, before, held, found.weights))


def spoiled(trainings: Iterable[Training]) -> list[GivenUp]:
    """Return, of the trainings whose models APs ask for, those that ended without one."""
    return [GivenUp(training, Outcome.FAILED, training.refused) for training in trainings if training.refused]


def given_up(training: Training, why: str) -> GivenUp:
    """A training that the system has no use for: wasted, unless an AP had asked for its model before."""
    if training.undelivered:
        return GivenUp(training, Outcome.FAILED, training.undelivered)
    return GivenUp(training, Outcome.WASTED, why)


def hopeless(
    system: System,
    outstanding: Iterable[Training],
    step: int,
    present: Mapping[int, int],
    sync_before: int,
    sync_now: int,
) -> list[GivenUp]:
    """Trainings that no AP will accept at the next step or later, with the reason; ascending by device.

    `sync_before` and `sync_now` are the last cloud aggregation before and after this step's.
    """
    lost = []
    for training in sorted(outstanding, key=lambda training: training.device):
        if system.eligible(training.step, step + 1, sync_now):
            continue
        if system.eligible(training.step, step + 1, sync_before):
            reason = "cloud aggregation"
        elif training.device not in present:
            reason = "absent"
        else:
            reason = "not eligible"
        lost.append(given_up(training, reason))
    return lost


def answers_by_order(orders: Iterable[Order], answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return each order's first answer, in any order of arrival; one that is missing counts as lost."""
    found: dict[str, Answer] = {}
    for answer in answers:
        found.setdefault(answer.order_id, answer)
    return {
        order.order_id: found.get(order.order_id)
        or Answer(order.order_id, order.device, order.step, AnswerStatus.LOST, "the fleet gave no answer")
        for order in orders
    }


def answer_record(answer: Answer) -> OrderAnswered:
    """The record of an answer."""
    base = (answer.step, answer.device, answer.order_id, answer.status.value, answer.reason)
    done = answer.status is AnswerStatus.DONE
    match answer.reply:
        case TrainReply() as reply:
            return OrderAnswered(
                *base,
                transferred_bytes=reply.downloaded_bytes,
                transfer_s=reply.download_s,
                train_s=reply.device_s,
                samples=reply.samples,
                mean_loss=None if math.isnan(reply.mean_loss) else reply.mean_loss,
                late_s=reply.late_s,
                coding_s=reply.coding_s,
            )
        case UploadReply() | UploadReport() as reply:
            moved = (reply.uploaded_bytes, reply.upload_s)
            return OrderAnswered(*base, *moved, coding_s=reply.coding_s)
        case SyncReply() as reply:
            moved = (reply.downloaded_bytes, reply.download_s)
            return OrderAnswered(*base, *moved, coding_s=reply.coding_s)
        case ExchangeReply() as reply:
            return OrderAnswered(
                *base,
                # Of a half step that made no model, the start model's: nothing else was moved.
                transferred_bytes=reply.sent_bytes + reply.received_bytes if done else reply.downloaded_bytes,
                transfer_s=reply.exchange_s if done else reply.download_s,
                train_s=reply.device_s,
                samples=reply.samples,
                mean_loss=None if math.isnan(reply.mean_loss) else reply.mean_loss,
                late_s=reply.late_s,
            )
        case TransferReply() | None:  # rounds give no transfer orders
            return OrderAnswered(*base)


def answer_batch(answers: Sequence[Answer]) -> RecordBatch | None:
    """The `answer_record` of each of one step, as columns; None where they are not all of trainings that were
    done, or all of uploads."""
    kinds = {type(answer.reply) for answer in answers}
    if {answer.status for answer in answers} != {AnswerStatus.DONE}:
        return None
    own: dict[str, object]
    if kinds == {TrainReply}:
        trained = cast("list[TrainReply]", [answer.reply for answer in answers])
        own = {
            "transferred_bytes": [reply.downloaded_bytes for reply in trained],
            "transfer_s": [reply.download_s for reply in trained],
            "train_s": [reply.device_s for reply in trained],
            "samples": [reply.samples for reply in trained],
            "mean_loss": [None if math.isnan(reply.mean_loss) else reply.mean_loss for reply in trained],
            "late_s": [reply.late_s for reply in trained],
            "coding_s": [reply.coding_s for reply in trained],
        }
    elif kinds <= {UploadReply, UploadReport}:
        sent = cast("list[UploadReply | UploadReport]", [answer.reply for answer in answers])
        own = {
            "transferred_bytes": [reply.uploaded_bytes for reply in sent],
            "transfer_s": [reply.upload_s for reply in sent],
            "coding_s": [reply.coding_s for reply in sent],
        }
    else:
        return None
    return RecordBatch.of(
        OrderAnswered,
        len(answers),
        step=answers[0].step,
        device=[answer.device for answer in answers],
        order_id=[answer.order_id for answer in answers],
        status=AnswerStatus.DONE.value,
        reason=[answer.reason for answer in answers],
        **own,
    )


def outcome_batch(step: int, uploads: Uploads) -> RecordBatch:
    """The outcomes of the trainings that APs aggregated in a step, in the order of their APs."""
    edges = uploads.edges
    orders = [arrival.training.order_id for ap in edges for arrival in uploads.arrived[ap]]
    return RecordBatch.of(
        OutcomeDecided,
        len(orders),
        step=step,
        device=[device for edge in edges.values() for device in edge.members],
        train_order_id=orders,
        outcome=Outcome.AGGREGATED,
    )


def _training(order: TrainOrder, reply: TrainReply, distance_m: float, base_digest: str) -> Training:
    return Training(
        device=order.device,
        step=order.step,
        ap=order.ap,
        order_id=order.order_id,
        samples=reply.samples,
        mean_loss=reply.mean_loss,
        mean_squared_loss=reply.mean_squared_loss,
        sgd_steps=reply.sgd_steps,
        distance_m=distance_m,
        start_digest=base_digest,
    )


def _uploaded_model(answer: Answer, reference: Vector) -> tuple[Vector | None, str]:
    if answer.status is AnswerStatus.GARBAGE:
        return None, answer.reason
    if not isinstance(answer.reply, UploadReply):
        return None, "done without a model"
    model = answer.reply.model
    if model.shape != reference.shape or model.dtype != reference.dtype:
        return None, f"{model.dtype} of shape {model.shape}, expected {reference.dtype} of {reference.shape}"
    # A diverged training sends NaN with a perfect digest; one of them would poison every model of the run.
    # The square of its length is finite only if it is, and takes a fifth of the time for a small one.
    if not math.isfinite(model.dot(model)) and not np.isfinite(model).all():
        return None, "NaN or infinity in the model"
    return model, ""


def _reason(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what
