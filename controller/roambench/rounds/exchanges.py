"""Every single transfer between devices of a decentralised run, from the journal alone; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from roambench.contract.orders import AnswerStatus
from roambench.rounds.records import MixingPlanned, ModelsExchanged, OrderAnswered, RoundRecord


@dataclass(frozen=True, slots=True)
class PeerTransfer:
    """One model from `sender` to `receiver` in step `step`.

    `status` is "done", or what kept the model out of the receiver's: "late", "lost", "refused", "garbage",
    with details in `reason`. `transferred_bytes` is as far as it came, by the receiver's count; where the
    receiver did not live to tell, by the sender's; where neither did, 0.
    """

    step: int
    sender: int
    receiver: int
    transferred_bytes: int
    status: str
    reason: str = ""


def peer_transfers(records: Iterable[RoundRecord]) -> Iterator[PeerTransfer]:
    """One for every pair that was ordered to exchange, step by step, ascending by receiver and sender."""
    planned: list[MixingPlanned] = []
    exchanged: dict[tuple[int, int], ModelsExchanged] = {}
    failed: dict[tuple[int, int], OrderAnswered] = {}
    for record in records:
        match record:
            case MixingPlanned():
                planned.append(record)
            case ModelsExchanged():
                exchanged[record.step, record.device] = record
            case OrderAnswered() if record.status != AnswerStatus.DONE.value:
                failed[record.step, record.device] = record
    for plan in planned:
        start = 0
        for receiver, count in enumerate(plan.counts):
            for sender in plan.columns[start : start + count]:
                if sender != receiver:
                    yield _transfer(plan.step, sender, receiver, exchanged, failed)
            start += count


def _transfer(
    step: int,
    sender: int,
    receiver: int,
    exchanged: Mapping[tuple[int, int], ModelsExchanged],
    failed: Mapping[tuple[int, int], OrderAnswered],
) -> PeerTransfer:
    taken, given = exchanged.get((step, receiver)), exchanged.get((step, sender))
    if taken is not None:
        if sender not in taken.left_out:
            return PeerTransfer(step, sender, receiver, taken.model_bytes, "done")
        at = taken.left_out.index(sender)
        status, _, reason = taken.reasons[at].partition(": ")
        moved = taken.left_out_bytes[at] if taken.left_out_bytes else 0
        return PeerTransfer(step, sender, receiver, moved, status, reason)
    answer = failed.get((step, receiver))
    reason = "the receiver did not answer" if answer is None else f"{answer.status}: {answer.reason}"
    moved = 0
    if given is not None and receiver in given.not_taken:
        moved = given.not_taken_bytes[given.not_taken.index(receiver)]
    elif given is not None:
        moved = given.model_bytes
    return PeerTransfer(step, sender, receiver, moved, "lost", reason)
